-- Hostile functions in a batch: the rows, or the error, of one by one. The backend lives.
SET jit = off; SET max_parallel_workers_per_gather = 0;
\set VERBOSITY terse
DO $$
DECLARE f text;
BEGIN
    FOREACH f IN ARRAY ARRAY['lies', 'crashes', 'divides', 'jumps', 'jumps_far', 'sinks', 'turns', 'turns_always',
        'smears', 'smears_small', 'smears_count', 'asks', 'remembers'] LOOP
        EXECUTE format('CREATE FUNCTION %s(bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS ''batch_hostile.o''', f);
    END LOOP;
END $$;
CREATE FUNCTION no_real(bigint) RETURNS float8 LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch_hostile.o';
CREATE FUNCTION fills(text) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch_hostile.o';
CREATE FUNCTION honest(bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o:odd';
CREATE TABLE rows_of (n bigint, t text);
INSERT INTO rows_of SELECT i, repeat('x', i % 40) FROM generate_series(1, 400) i;
ANALYZE rows_of;
CREATE TEMP TABLE backend_of AS SELECT pg_backend_pid() AS pid;
-- The rows of a statement as a number, or its error.
CREATE FUNCTION outcome(q text, batch text, OUT batched bool, OUT outcome text) LANGUAGE plpgsql AS $$
DECLARE line text; r record; h bigint := 0; c bigint := 0;
BEGIN
    PERFORM set_config('sfi.batch', batch, true);
    batched := false;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP batched := batched OR line LIKE '%SfiBatch%'; END LOOP;
    BEGIN
        FOR r IN EXECUTE q LOOP h := (h * 31 + hashtext(r::text)) % 1000000007; c := c + 1; END LOOP;
        outcome := c || ' rows, ' || h;
    EXCEPTION WHEN query_canceled OR OTHERS THEN outcome := SQLSTATE || ' ' || SQLERRM;
    END;
END $$;
CREATE TABLE attacks (place serial, q text);
INSERT INTO attacks(q) SELECT format('SELECT n FROM rows_of WHERE %s(n)%s', f, rest)
FROM unnest(ARRAY['lies', 'crashes', 'divides', 'jumps', 'jumps_far', 'sinks', 'turns', 'smears', 'smears_small',
    'smears_count', 'asks', 'remembers']) WITH ORDINALITY AS all_of(f, o), unnest(ARRAY['', ' LIMIT 30']) AS rests(rest) ORDER BY o, rest;
INSERT INTO attacks(q) VALUES
 ('SELECT n FROM rows_of WHERE no_real(n) > 30::float8'),
 ('SELECT n FROM rows_of WHERE no_real(n) < 1e300::float8'),
 ('SELECT n FROM rows_of WHERE honest(n) AND crashes(n)'),
 ('SELECT n FROM rows_of WHERE honest(n) AND crashes(n) AND n < 37'),
 ('SELECT n FROM rows_of WHERE crashes(n) AND honest(n) LIMIT 10'),
 ('SELECT a.n FROM rows_of a, rows_of b WHERE crashes(b.n) AND a.n < 3 AND b.n < 37'),
 ('SELECT a.n FROM rows_of a, rows_of b WHERE smears(a.n) AND honest(b.n) AND a.n = 37');
SET sfi.time_limit = '300ms';
SELECT place, q, b.batched, a.outcome = b.outcome AND a.outcome = s.outcome AS same, regexp_replace(b.outcome, '( in `| at | \().*', '') AS outcome
FROM attacks, outcome(q, '0') a, outcome(q, '64') b, outcome(q, '3') s ORDER BY place;
-- The attacks on the loop reach it: a batch ends in a fault, and its rows come one by one.
SET sfi.batch = 64;
SELECT sum(faults) AS faults FROM sfi.stats() WHERE library = 'batch_hostile.o' \gset a_
SELECT count(*) FROM rows_of WHERE smears(n);
SELECT sum(faults) - :a_faults AS faults FROM sfi.stats() WHERE library = 'batch_hostile.o';
-- A function that spoils the words of other rows harms its own results, or none.
SELECT count(*) <= 400 AS bounded FROM rows_of WHERE fills(t);
SELECT count(*), sum(n), sum(length(t)) FROM rows_of WHERE honest(n);
SELECT count(*), sum(n), sum(length(t)) FROM rows_of;
-- Limits of time in a batch.
SELECT count(*) FROM rows_of WHERE turns_always(n);
SELECT count(*) FROM (SELECT n FROM rows_of WHERE turns(n) LIMIT 36) x;
RESET sfi.time_limit;
SET statement_timeout = '300ms';
SELECT count(*) FROM rows_of WHERE turns_always(n);
SELECT count(*) FROM rows_of WHERE turns(n);
SELECT count(*) FROM rows_of WHERE smears_count(n) IS NULL;
RESET statement_timeout;
SELECT count(*) FROM rows_of WHERE honest(n);
-- A subtransaction is enough.
BEGIN;
SAVEPOINT before;
SELECT count(*) FROM rows_of WHERE crashes(n);
ROLLBACK TO before;
SELECT count(*) FROM rows_of WHERE honest(n);
COMMIT;
-- Loops of its own have the names of the server's, so they have no place in a batch.
SET sfi.batch = 0;
CREATE FUNCTION honest_one(bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch_loops.o';
SELECT count(*) FROM rows_of WHERE honest_one(n);
SET sfi.batch = 64;
SELECT count(*) FROM rows_of WHERE honest_one(n);
SELECT count(*) FROM rows_of WHERE honest(n);
-- A cancel request and the end of another backend, in the middle of a batch.
CREATE FUNCTION in_batch() RETURNS int LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
    FOR i IN 1..600 LOOP
        PERFORM pg_stat_clear_snapshot();
        SELECT pid INTO found FROM pg_stat_activity WHERE query LIKE '%turns(n) AND%' AND pid <> pg_backend_pid() AND state = 'active';
        IF found IS NOT NULL AND clock_timestamp() - (SELECT query_start FROM pg_stat_activity WHERE pid = found) > '500ms' THEN RETURN found; END IF;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN NULL;
END $$;
CREATE FUNCTION left_alone(backend int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..600 LOOP
        PERFORM pg_stat_clear_snapshot();
        PERFORM FROM pg_stat_activity WHERE pid = backend AND state = 'active';
        IF NOT FOUND THEN RETURN true; END IF;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN false;
END $$;
\setenv QUERY 'SET max_parallel_workers_per_gather = 0; SET sfi.batch = 64; LOAD ''sfi''; SELECT count(*) FROM rows_of WHERE turns(n) AND n > 0; SELECT count(*) FROM rows_of WHERE honest(n)'
\! (printf '%s;\n' "$QUERY" | sed 's/; /;\n/g' | "$SFI_PG_BIN/psql" -X -q >"$PGHOST/work/batch_cancelled" 2>&1 &)
SELECT in_batch() AS pid \gset
SELECT pg_cancel_backend(:pid), left_alone(:pid);
\! (printf '%s;\n' "$QUERY" | sed 's/; /;\n/g' | "$SFI_PG_BIN/psql" -X -q >"$PGHOST/work/batch_ended" 2>&1 &)
SELECT in_batch() AS pid \gset
SELECT pg_terminate_backend(:pid), left_alone(:pid);
SELECT pg_sleep(0.3);
\! cat "$PGHOST/work/batch_cancelled"
\! head -1 "$PGHOST/work/batch_ended"
SELECT pid = pg_backend_pid() AS lived FROM backend_of;
SET sfi.batch = 0;
DROP TABLE rows_of, attacks;
SET client_min_messages = warning;
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE prosrc LIKE 'batch_hostile.o%' OR prosrc LIKE 'batch_loops.o%' LOOP EXECUTE 'DROP FUNCTION ' || f; END LOOP;
END $$;
RESET client_min_messages;
DROP FUNCTION outcome, in_batch, left_alone, honest(bigint);
