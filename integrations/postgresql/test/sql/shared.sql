-- The server was started with the module: counts and penalties are those of all backends.
\set VERBOSITY default
CREATE EXTENSION sfi;
CREATE FUNCTION add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION wild_store(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE ROLE sfi_careful;
GRANT CREATE ON SCHEMA public TO sfi_careful;
GRANT USAGE ON LANGUAGE sfi TO sfi_careful;
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/honest.o'), 'hex')) AS honest \gset
SET ROLE sfi_careful;
SELECT length(sfi.install('careful.o', decode(:honest, 'hex')));
CREATE FUNCTION careful(int, int) RETURNS int LANGUAGE sfi STRICT AS 'careful.o:add';
RESET ROLE;
\setenv ADD 'SELECT add(x, 1) FROM generate_series(1, 99) x'
\! for i in 1 2 3; do "$SFI_PG_BIN/psql" -X -q -t -A -c "$ADD" | tail -1; done
SELECT add(1, 1);
SELECT library, role, calls, crossings, faults FROM sfi.all_stats() ORDER BY library;
-- A library is verified once: other backends, and parallel workers, take its image.
SELECT role, holders > 0 AS held, taken FROM sfi.images() ORDER BY taken, role;
\! for i in 1 2 3; do "$SFI_PG_BIN/psql" -X -q -t -A -c "$ADD" | tail -1; done
SELECT role, holders > 0 AS held, taken FROM sfi.images() ORDER BY taken, role;
\! "$SFI_PG_BIN/psql" -X -q -t -A -c "$ADD" -c "SELECT 'text of memfd:image: ' || (pg_read_file('/proc/self/maps') ~ ' r-xs .*memfd:image')" | tail -1
CREATE FUNCTION add_safe(int, int) RETURNS int LANGUAGE sfi STRICT PARALLEL SAFE AS 'honest.o:add';
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT max(taken) AS before FROM sfi.images() \gset
SELECT sum(add_safe(x, 1)) FROM numbers;
SELECT max(taken) > :before AS taken_by_workers FROM sfi.images();
RESET parallel_leader_participation;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
-- Each role has images of its own.
SET ROLE sfi_careful;
SELECT add(1, 1);
SELECT * FROM sfi.images();
RESET ROLE;
SELECT role, holders > 0 AS held, taken > 0 AS taken FROM sfi.images() ORDER BY role, taken;
-- A library that is replaced is another one.
SELECT length(sfi.install_file('honest.o'));
SELECT add(1, 1);
SELECT count(*) FROM sfi.images() WHERE role = current_user::regrole;
SET sfi.mode = write;
SELECT length(sfi.install_file('honest.o'));
SELECT add(1, 1);
SELECT count(*) FROM sfi.images() WHERE role = current_user::regrole;
RESET sfi.mode;
SELECT length(sfi.install_file('honest.o'));
-- A fault in one backend, a penalty in all, for all libraries of the owner.
ALTER SYSTEM SET sfi.penalty = '1min';
SELECT pg_reload_conf();
\setenv STORE 'SELECT wild_store(64)'
\! "$SFI_PG_BIN/psql" -X -q -c "$STORE" 2>&1 | head -1
CREATE FUNCTION refused(text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result int;
BEGIN
    EXECUTE $1 INTO result;
    RETURN result::text;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RETURN SQLERRM;
END $$;
SELECT refused('SELECT add(1, 2)'), refused('SELECT careful(1, 2)');
SELECT owner, faults, until > now() AS waits FROM sfi.penalties();
-- A superuser ends it.
SELECT sfi.forgive('postgres');
SELECT refused('SELECT add(1, 2)');
SELECT owner FROM sfi.penalties();
SELECT refused('SELECT wild_store(64)');
\! "$SFI_PG_BIN/psql" -X -q -c "$STORE" 2>&1 | head -1
SELECT sfi.forgive('postgres');
-- It ends by itself, and the next one is twice as long.
ALTER SYSTEM SET sfi.penalty = '100ms';
SELECT pg_reload_conf();
\connect
DO $$ BEGIN PERFORM wild_store(64); EXCEPTION WHEN external_routine_exception THEN NULL; END $$;
SELECT pg_sleep(0.2);
SELECT refused('SELECT add(1, 2)');
DO $$ BEGIN PERFORM wild_store(64); EXCEPTION WHEN external_routine_exception THEN NULL; END $$;
SELECT faults, round(extract(epoch FROM until - last) * 1000) AS milliseconds FROM sfi.penalties();
SELECT library, role, calls, faults FROM sfi.all_stats() ORDER BY library;
-- Only those who may.
SET ROLE sfi_careful;
SELECT * FROM sfi.all_stats();
SELECT sfi.forgive('postgres');
SET sfi.penalty = 0;
