-- Many rows in one crossing give the rows of one by one.
SET jit = off; SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION odd(bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION scaled(bigint, float8) RETURNS float8 LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION shorter(text, bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION not_every(bigint) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION told(bigint) RETURNS bool LANGUAGE sfi STABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION spoils(text) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT COST 10 AS 'batch.o';
CREATE FUNCTION odd_volatile(bigint) RETURNS bool LANGUAGE sfi VOLATILE STRICT COST 10 AS 'batch.o:odd';
CREATE TABLE lots (gone int, n bigint, t text);
INSERT INTO lots SELECT 1, CASE WHEN i % 10 = 0 THEN NULL ELSE i END, repeat('x', CASE WHEN i % 500 = 0 THEN 100000 ELSE i % 300 END)
FROM generate_series(1, 3000) i;
ALTER TABLE lots DROP gone;
CREATE TABLE bits AS SELECT i AS m FROM generate_series(1::bigint, 200) i;
ANALYZE lots; ANALYZE bits;
CREATE TABLE batch_queries (place serial, q text);
INSERT INTO batch_queries(q) VALUES
 ('SELECT n FROM lots WHERE odd(n)'),
 ('SELECT n FROM lots WHERE n > 7 AND odd(n) AND scaled(n, 2) > 50.5 AND odd_volatile(n)'),
 ('SELECT n FROM lots WHERE 50.5::float8 < scaled(n, 2) AND shorter(t, 20)'),
 ('SELECT n, length(t) FROM lots WHERE shorter(t, 100)'),
 ('SELECT n FROM lots, bits WHERE scaled(n, m) < 100.0::float8'),
 ('SELECT n FROM lots, bits WHERE shorter(t, m) AND odd(m)'),
 ('SELECT f.m FROM bits f LEFT JOIN lots ON scaled(n, m) < 9::float8'),
 ('SELECT m FROM bits WHERE EXISTS (SELECT FROM lots WHERE scaled(n, m) < 9::float8)'),
 ('SELECT m FROM bits WHERE NOT EXISTS (SELECT FROM lots WHERE scaled(n, m) < -5::float8)'),
 ('SELECT l.n FROM bits, LATERAL (SELECT n FROM lots WHERE scaled(n, m) > 50::float8 LIMIT 2) l'),
 ('SELECT n FROM lots WHERE odd(n) UNION ALL SELECT m FROM bits WHERE odd(m)'),
 ('SELECT n FROM lots WHERE odd(n) AND ctid > ''(1,1)'''),
 ('SELECT n FROM lots WHERE odd(n) FOR UPDATE'),
 ('SELECT n FROM lots WHERE not_every(n) AND n < 37 LIMIT 30');
CREATE FUNCTION hash_of(q text, batch text, OUT h bigint, OUT c bigint, OUT batched bool) LANGUAGE plpgsql AS $$
DECLARE line text; r record;
BEGIN
    PERFORM set_config('sfi.batch', batch, true);
    h := 0; c := 0; batched := false;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP batched := batched OR line LIKE '%SfiBatch%'; END LOOP;
    FOR r IN EXECUTE q LOOP h := (h * 31 + hashtext(r::text)) % 1000000007; c := c + 1; END LOOP;
END $$;
SELECT place, b.c AS rows, b.batched, a.batched AS ordinary, a.h = b.h AND a.c = b.c AND a.h = s.h AND b.h <> 0 AS same
FROM batch_queries, hash_of(q, '0') a, hash_of(q, '64') b, hash_of(q, '3') s ORDER BY place;
SET sfi.batch = 64;
EXPLAIN (COSTS OFF, VERBOSE) SELECT n FROM lots WHERE n > 7 AND odd(n) AND n % 3 = 0;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT n FROM lots WHERE odd(n);
EXPLAIN (COSTS OFF) SELECT n FROM lots WHERE odd_volatile(n);
EXPLAIN (COSTS OFF) SELECT n FROM lots WHERE n % 3 = 0 AND odd(n);
EXPLAIN (COSTS OFF) UPDATE lots SET n = n WHERE odd(n);
-- An error comes with its row only.
SELECT count(*) FROM (SELECT n FROM lots WHERE not_every(n) LIMIT 33) x;
SELECT count(*) FROM lots WHERE not_every(n);
-- The server is asked row by row.
SELECT count(*) FROM lots WHERE told(n);
SELECT count(*) FROM (SELECT n FROM lots WHERE told(n) LIMIT 4) x;
-- A function that spoils the room harms its own rows, or none.
SELECT count(*) > 0 AS lives FROM lots WHERE spoils(t);
-- Calls and crossings.
SELECT sum(calls) AS calls, sum(crossings) AS crossings FROM sfi.stats() WHERE library = 'batch.o' \gset a_
SELECT count(*) FROM bits WHERE odd(m);
SELECT sum(calls) - :a_calls BETWEEN 200 AND 202 AS calls, sum(crossings) - :a_crossings < 30 AS crossings FROM sfi.stats() WHERE library = 'batch.o';
DROP TABLE lots, bits, batch_queries;
