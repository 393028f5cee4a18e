-- Other backends, updates, dumps, many calls.
\set VERBOSITY terse
CREATE FUNCTION crashing_set(int) RETURNS SETOF int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION crashing_step(sfi.state, float8) RETURNS sfi.state LANGUAGE sfi AS 'hostile.o';
CREATE AGGREGATE crashing(float8) (SFUNC = crashing_step, STYPE = sfi.state);
CREATE FUNCTION attack() RETURNS text LANGUAGE plpgsql AS
    'BEGIN PERFORM wild_store(64); RETURN ''no error''; EXCEPTION WHEN external_routine_exception THEN RETURN ''error''; END';
-- Faults in the middle of sets, aggregates, windows, sorts and index expressions.
SELECT count(*) FROM crashing_set(1);
SELECT crashing(x) FROM generate_series(1, 10) x;
SELECT crashing(x) OVER (ORDER BY x) FROM generate_series(1, 10) x;
SELECT x FROM generate_series(1, 10) x ORDER BY wild_store(x);
CREATE TABLE indexed (x int);
CREATE FUNCTION checked(int) RETURNS int LANGUAGE sfi IMMUTABLE STRICT AS 'hostile.o:keep';
CREATE FUNCTION divided(int, int) RETURNS int LANGUAGE sfi IMMUTABLE STRICT AS 'hostile.o:divide';
CREATE INDEX indexed_index ON indexed (divided(1, x));
INSERT INTO indexed VALUES (1), (2);
INSERT INTO indexed VALUES (3), (0);
SELECT count(*) FROM indexed;
SELECT add(20, 22), attack();
-- A cancel request and the end of another backend, while its function runs.
\setenv QUERY 'SELECT endless(1)'
\! ("$SFI_PG_BIN/psql" -X -q -c "$QUERY" >"$PGHOST/work/cancelled" 2>&1 &)
CREATE FUNCTION running(text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
    FOR i IN 1..3000 LOOP
        PERFORM pg_stat_clear_snapshot();
        SELECT pid INTO found FROM pg_stat_activity WHERE query = $1 AND state = 'active' AND pid <> pg_backend_pid();
        IF found IS NOT NULL THEN PERFORM pg_sleep(0.3); RETURN found; END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
CREATE FUNCTION gone(int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..3000 LOOP
        PERFORM pg_stat_clear_snapshot();
        IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1) THEN RETURN true; END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN false;
END $$;
SELECT running('SELECT endless(1)') AS pid \gset
SELECT pg_cancel_backend(:pid), gone(:pid);
\! cat "$PGHOST/work/cancelled"
\! ("$SFI_PG_BIN/psql" -X -q -c "$QUERY" >"$PGHOST/work/ended" 2>&1 &)
SELECT running('SELECT endless(1)') AS pid \gset
SELECT pg_terminate_backend(:pid), gone(:pid);
\! head -1 "$PGHOST/work/ended"
-- A library is replaced and removed, and a function dropped, while another backend uses them.
-- It waits for a lock in the middle of its query.
CREATE FUNCTION unlocked() RETURNS bool LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN true; END';
CREATE FUNCTION waiting() RETURNS int LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
    FOR i IN 1..3000 LOOP
        SELECT pid INTO found FROM pg_locks WHERE locktype = 'advisory' AND NOT granted;
        EXIT WHEN found IS NOT NULL;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN found;
END $$;
SELECT pg_advisory_lock(7);
CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE sfi STRICT AS 'honest.o:add';
\setenv QUERY 'SELECT sum(adds(x, 1)::bigint) FROM numbers WHERE x <> 50000 OR unlocked()'
\! ("$SFI_PG_BIN/psql" -X -q -t -A -c "$QUERY" >"$PGHOST/work/used" 2>&1 &)
SELECT waiting() AS pid \gset
SET sfi.mode = write;
SELECT length(sfi.install_file('honest.o'));
SELECT adds(1, 2);
DROP FUNCTION adds(int, int);
SELECT sfi.remove('honest.o');
SELECT pg_advisory_unlock(7);
SELECT gone(:pid);
\! cat "$PGHOST/work/used"
SELECT add(1, 2);
RESET sfi.mode;
SELECT length(sfi.install_file('honest.o'));
SELECT add(1, 2);
-- A backend that gets no more memory: calls and loads fail, and work again later.
CREATE FUNCTION letters(int) RETURNS text LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION again(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE $1;
    RETURN 'done';
EXCEPTION WHEN out_of_memory OR invalid_object_definition THEN
    RETURN CASE WHEN SQLSTATE = '53200' THEN 'out of memory' ELSE SQLERRM END;
END $$;
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/honest.o'), 'hex')) AS honest \gset
SELECT length(sfi.install('another.o', decode(:honest, 'hex')));
CREATE FUNCTION another(int, int) RETURNS int LANGUAGE sfi STRICT AS 'another.o:add';
\connect
SELECT length(letters(1000)), pg_backend_pid() AS pid \gset
\setenv SFI_PG_PID :pid
\! prlimit --pid "$SFI_PG_PID" --as="$(($(cut -d' ' -f1 /proc/$SFI_PG_PID/statm) * 4096 + (4 << 20))):"
SELECT again('SELECT letters(30000000)');
SELECT again('SELECT reversed(repeat(''x'', 30000000))');
SELECT again('SELECT another(1, 2)');
SELECT again('SELECT add(1, 2)');
\! prlimit --pid "$SFI_PG_PID" --as=unlimited:
SELECT length(letters(30000000)), another(1, 2), add(1, 2), pg_backend_pid() = :pid AS lived;
-- The table of libraries is not trusted: an object that was never rewritten is not loaded.
SELECT bool_and(digest = sha256(object)) AS digests FROM "$sfi".library;
BEGIN;
UPDATE sfi.library SET object = decode(:honest, 'hex'), digest = sha256(decode(:honest, 'hex')) WHERE name = 'honest.o';
SELECT add(1, 2);
ROLLBACK;
SELECT add(1, 2);
-- Hostile and honest functions side by side in four backends.
\! echo 'SELECT add(40, 2), reversed(repeat($$ab$$, 100));' >"$PGHOST/work/honest.pgb"
\! echo 'SELECT attack();' >"$PGHOST/work/hostile.pgb"
\! "$SFI_PG_BIN/pgbench" -n -c 4 -j 2 -t 100 -f "$PGHOST/work/honest.pgb@3" -f "$PGHOST/work/hostile.pgb@1" 2>&1 | grep -E 'actually processed|failed transactions'
-- Many calls of all kinds leave no memory behind.
CREATE FUNCTION kilobytes() RETURNS int LANGUAGE sql AS
    $$ SELECT substring(pg_read_file('/proc/self/status') FROM 'VmRSS:\s*(\d+)')::int $$;
CREATE PROCEDURE call_all(calls int) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sum(add(x, 1)) FROM generate_series(1, calls / 2) x;
    PERFORM sum(length(reversed(x::text))) FROM generate_series(1, calls / 4) x;
    PERFORM sum(countdown) FROM generate_series(1, calls / 100) x, LATERAL countdown(20);
    FOR i IN 1..calls / 500 LOOP PERFORM attack(); END LOOP;
END $$;
CALL call_all(:calls);
SELECT kilobytes() AS before \gset
CALL call_all(:calls);
SELECT kilobytes() - :before < 4096 AS no_leak;
-- The extension is updated, dumped and restored.
CREATE DATABASE old;
\connect old
CREATE EXTENSION sfi VERSION '1.0';
CREATE FUNCTION add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'honest.o';
SELECT add(40, 2);
SELECT library, calls, faults FROM sfi.stats();
ALTER EXTENSION sfi UPDATE;
SELECT extversion FROM pg_extension WHERE extname = 'sfi';
SET sfi.timing = on;
SELECT add(40, 2);
SELECT library, calls, crossings, nanoseconds > 0 AS timed, faults FROM sfi.statistics;
-- Tables whose constraints, columns and types need a library are restored after it.
CREATE FUNCTION always(int, int) RETURNS int LANGUAGE sfi IMMUTABLE STRICT AS 'honest.o:add';
CREATE TABLE small (x int CHECK (add(x, 1) < 100), y int GENERATED ALWAYS AS (always(x, 1)) STORED);
INSERT INTO small VALUES (1), (2);
CREATE INDEX small_index ON small (always(x, 1));
CREATE TYPE span;
CREATE FUNCTION span_in(cstring) RETURNS span LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE FUNCTION span_out(span) RETURNS cstring LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE TYPE span (INPUT = span_in, OUTPUT = span_out, INTERNALLENGTH = 16, ALIGNMENT = double);
CREATE TABLE spans AS SELECT '1..2'::span AS s;
SELECT sfi.grant('sfi_alice', 'spi');
\! "$SFI_PG_BIN/pg_dump" old >"$PGHOST/work/old.sql"
CREATE DATABASE restored;
\! "$SFI_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -d restored -f "$PGHOST/work/old.sql" | grep -v '^ *$' | grep -v -e set_config -e '---' -e '(1 row)'
\connect restored
SELECT add(40, 2);
SELECT name, mode, length(digest) FROM sfi.libraries ORDER BY name;
SELECT x, y FROM small ORDER BY x;
SELECT s FROM spans;
SELECT * FROM sfi.rights;
-- A constant of such a type needs its library before the tables: it is restored first.
CREATE VIEW constants AS SELECT s, '3..4'::span AS other FROM spans;
\! "$SFI_PG_BIN/psql" -X -q -d postgres -c 'CREATE DATABASE again'
\! "$SFI_PG_BIN/psql" -X -q -d again -c 'CREATE EXTENSION sfi'
\! "$SFI_PG_BIN/pg_dump" -a -t '"$sfi".library' restored | "$SFI_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -d again | grep -v -e set_config -e '---' -e '(1 row)' -e '^ *$'
\! "$SFI_PG_BIN/pg_dump" --exclude-table-data='"$sfi".library' restored | sed '/^CREATE SCHEMA sfi;$/d' | "$SFI_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -d again | grep -v -e set_config -e '---' -e '(1 row)' -e '^ *$'
\connect again
SELECT * FROM constants;
SELECT count(*) FROM sfi.libraries;
-- Dumps of earlier versions have the rows of a table sfi.library.
INSERT INTO sfi.library SELECT 'old.o', owner, mode, digest, object, installed FROM sfi.library WHERE name = 'honest.o';
CREATE FUNCTION add_old(int, int) RETURNS int LANGUAGE sfi STRICT AS 'old.o:add';
SELECT add_old(40, 2);
\connect regress
DROP DATABASE old;
DROP DATABASE again;
DROP DATABASE restored;
DROP EXTENSION sfi CASCADE;
SELECT count(*) FROM pg_language WHERE lanname = 'sfi';
