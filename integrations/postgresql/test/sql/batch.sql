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
-- The same rows in other plans: partitions with dropped columns, parallel scans, the compiler,
-- cursors, generic plans, subqueries that depend on the row, and row level security.
CREATE TABLE parts (n bigint, m bigint, t text) PARTITION BY RANGE (n);
CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (5000);
CREATE TABLE high (t text, m bigint, gone int, n bigint NOT NULL);
ALTER TABLE high DROP gone;
ALTER TABLE parts ATTACH PARTITION high FOR VALUES FROM (5000) TO (20001);
INSERT INTO parts SELECT i, i % 97, repeat('y', i % 50) FROM generate_series(1, 20000) i;
ANALYZE parts;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parts WHERE odd(n);
CREATE VIEW asked AS SELECT count(*), sum(n) AS n, sum(m) AS m, sum(length(t)) AS t FROM parts WHERE odd(n) AND scaled(n, 2) > 100;
CREATE VIEW known AS SELECT count(*), sum(n) AS n, sum(m) AS m, sum(length(t)) AS t FROM parts WHERE n % 2 = 1 AND n * 2 > 100;
SELECT asked = known AS same FROM asked, known;
ALTER FUNCTION odd(bigint) PARALLEL SAFE; ALTER FUNCTION scaled(bigint, float8) PARALLEL SAFE;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2; SET enable_parallel_append = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM low WHERE odd(n);
SELECT asked = known AS same FROM asked, known;
SET max_parallel_workers_per_gather = 0;
SET jit = on; SET jit_above_cost = 0;
SELECT asked = known AS same FROM asked, known;
SET jit = off;
BEGIN;
DECLARE forward NO SCROLL CURSOR FOR SELECT n FROM low WHERE odd(n);
FETCH 2 FROM forward; FETCH 1 FROM forward;
DECLARE back SCROLL CURSOR FOR SELECT n FROM low WHERE odd(n);
FETCH 3 FROM back; FETCH BACKWARD 1 FROM back;
COMMIT;
SET plan_cache_mode = force_generic_plan;
PREPARE below(float8) AS SELECT count(*) FROM parts WHERE scaled(n, $1) < 100;
EXPLAIN (COSTS OFF) EXECUTE below(2);
EXECUTE below(1); EXECUTE below(2);
SET sfi.batch = 0; EXECUTE below(2); SET sfi.batch = 64;
SELECT g, (SELECT count(*) FROM low WHERE scaled(n, g) < 100) FROM generate_series(1, 3) g;
CREATE ROLE batch_reader; GRANT SELECT ON low TO batch_reader; GRANT USAGE ON LANGUAGE sfi TO batch_reader;
ALTER TABLE low ENABLE ROW LEVEL SECURITY;
CREATE POLICY half ON low TO batch_reader USING (m <> 37);
SET ROLE batch_reader;
EXPLAIN (COSTS OFF) SELECT count(*) FROM low WHERE odd(n);
SELECT (SELECT count(*) FROM low WHERE odd(n)) = (SELECT count(*) FROM low WHERE n % 2 = 1) AS same;
-- A function sees no rows that the policy hides: it would fault with 37.
SELECT count(*) FROM low WHERE not_every(n) AND n < 40;
RESET ROLE;
SET work_mem = '64kB';
SELECT count(*), sum(a.n) AS a, sum(b.n) AS b FROM low a, low b WHERE shorter(a.t, b.m) AND a.n < 300 AND b.m < 20;
SET sfi.batch = 0;
SELECT count(*), sum(a.n) AS a, sum(b.n) AS b FROM low a, low b WHERE shorter(a.t, b.m) AND a.n < 300 AND b.m < 20;
RESET work_mem;
DROP TABLE parts CASCADE; REVOKE ALL ON LANGUAGE sfi FROM batch_reader; DROP ROLE batch_reader;
DROP TABLE lots, bits, batch_queries;
