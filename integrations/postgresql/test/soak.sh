#!/bin/bash
# Honest and hostile functions side by side in four backends, until they made SFI_PG_CALLS calls
# (10,000,000 by default). test/run.sh --preload --exec runs it on its server. It fails if a backend
# ends, a transaction fails, or the memory of a backend grows.
set -euo pipefail
calls=${SFI_PG_CALLS:-10000000} clients=4 start=$SECONDS
psql() { "$SFI_PG_BIN/psql" -X -q -t -A -v ON_ERROR_STOP=1 "$@"; }
psql <<'END'
CREATE EXTENSION sfi;
CREATE FUNCTION add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION reversed(text) RETURNS text LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION total(float8[]) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION countdown(int) RETURNS SETOF bigint LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION up_to_many(int) RETURNS SETOF int LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION wild_store(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION wild_load(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION wild_jump(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION divide(int, int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION endless(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION deep(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION eat(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION far_away() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION past_the_end() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION crashing_set(int) RETURNS SETOF int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE TABLE memory (pid int, kilobytes int, mappings int, files int, moment timestamptz);
CREATE FUNCTION attack(how int, place bigint) RETURNS void LANGUAGE plpgsql SET sfi.time_limit = '20ms' AS $$
BEGIN
    CASE how
        WHEN 0, 1, 2 THEN PERFORM wild_store(place);
        WHEN 3, 4 THEN PERFORM wild_load(place);
        WHEN 5 THEN PERFORM wild_jump(place);
        WHEN 6 THEN PERFORM divide(1, 0);
        WHEN 7 THEN PERFORM deep(1);
        WHEN 8 THEN PERFORM far_away();
        WHEN 9 THEN PERFORM past_the_end();
        WHEN 10 THEN PERFORM crashing_set(1);
        WHEN 11 THEN PERFORM eat(1);
        ELSE PERFORM endless(1);
    END CASE;
EXCEPTION WHEN external_routine_exception OR query_canceled OR program_limit_exceeded THEN
    NULL;
END $$;
CREATE FUNCTION note() RETURNS void LANGUAGE sql AS $$
    INSERT INTO memory SELECT pg_backend_pid(), substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+)')::int,
        cardinality(string_to_array(pg_read_file('/proc/self/maps'), E'\n')), (SELECT count(*) FROM pg_ls_dir('/proc/self/fd')), clock_timestamp()
$$;
END
scripts="$PGHOST/work"
cat >"$scripts/honest.pgb" <<'END'
SELECT sum(add(x, 1)), sum(length(reversed(x::text))), sum(total(ARRAY[x, 1.5])) FROM generate_series(1, 1000) x;
SELECT count(*) FROM countdown(100), up_to_many(100);
END
echo 'SELECT note();' >"$scripts/note.pgb"
cat >"$scripts/hostile.pgb" <<'END'
\set how random(0, 12)
\set place random(0, 140737488355327)
SELECT attack(:how, :place);
END
made=0
while [ "$made" -lt "$calls" ]; do
    "$SFI_PG_BIN/pgbench" -n -c $clients -j 2 -T 20 -f "$scripts/honest.pgb@2" -f "$scripts/hostile.pgb@1" -f "$scripts/note.pgb@1" >"$scripts/soak.out" 2>&1 ||
        { cat "$scripts/soak.out"; exit 1; }
    grep -q 'failed transactions: 0 ' "$scripts/soak.out" || { cat "$scripts/soak.out"; exit 1; }
    made=$(psql -c "SELECT sum(calls) FROM sfi.all_stats()")
    # Each run has backends of its own. The first third of its notes is for caches to fill. A fault
    # takes all memory of its library, so the least of many notes counts.
    grown=$(psql -F ' ' -c "WITH n AS (SELECT *, ntile(3) OVER (PARTITION BY pid ORDER BY moment) AS third FROM memory),
        g AS (SELECT pid, third, min(kilobytes) AS kilobytes, max(mappings) AS mappings, max(files) AS files FROM n GROUP BY 1, 2)
        SELECT max(b.kilobytes - a.kilobytes), max(b.mappings - a.mappings), max(b.files - a.files)
        FROM g a JOIN g b USING (pid) WHERE a.third = 2 AND b.third = 3")
    read -r grown mappings files <<<"$grown"
    backends=$(psql -c "SELECT count(DISTINCT pid) FROM memory")
    psql -c "TRUNCATE memory"
    [ "$backends" = $clients ] || { echo "$backends backends in place of $clients"; exit 1; }
    if [ "$grown" -ge 1024 ] || [ "$mappings" -ge 50 ] || [ "$files" -ge 10 ]; then
        echo "a backend grew by $grown kB, $mappings mappings and $files files"
        exit 1
    fi
    echo "$made calls, $(psql -c "SELECT sum(faults) FROM sfi.all_stats()") faults, $((SECONDS - start)) s, backends +$grown kB, +$mappings mappings, +$files files"
done
if grep -E 'PANIC|terminated by signal|server process .* was terminated' "$PGHOST/log"; then exit 1; fi
echo "no backend ended, and none grew"
