CREATE EXTENSION sfi;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
CREATE FUNCTION native_area(polygon) RETURNS float8 AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION native_add(int, int) RETURNS int AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION native_length(text) RETURNS int AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION process_area(polygon) RETURNS float8 AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION cpu_ns() RETURNS bigint AS :'native' LANGUAGE C STRICT;
SELECT sfi.install('write', pg_read_binary_file(:'object')) \gset
CREATE FUNCTION write_area(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'write:area';
CREATE FUNCTION write_add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'write:add';
CREATE FUNCTION write_length(text) RETURNS int LANGUAGE sfi STRICT AS 'write:bytes';
SET sfi.mode = full;
SELECT sfi.install('full', pg_read_binary_file(:'object')) \gset
CREATE FUNCTION full_area(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'full:area';
CREATE FUNCTION full_add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'full:add';
CREATE FUNCTION full_length(text) RETURNS int LANGUAGE sfi STRICT AS 'full:bytes';
RESET sfi.mode;
CREATE FUNCTION plpgsql_area(a float8[]) RETURNS float8 LANGUAGE plpgsql STRICT AS $$
DECLARE s float8 := 0; n int := array_length(a, 1) / 2; j int := n - 1;
BEGIN
    FOR i IN 0..n-1 LOOP s := s + a[2*j+1] * a[2*i+2] - a[2*i+1] * a[2*j+2]; j := i; END LOOP;
    RETURN abs(s) / 2;
END $$;
CREATE FUNCTION plpgsql_add(a int, b int) RETURNS int LANGUAGE plpgsql STRICT AS 'BEGIN RETURN a + b; END';
CREATE FUNCTION plpgsql_length(t text) RETURNS int LANGUAGE plpgsql STRICT AS 'BEGIN RETURN octet_length(t); END';
CREATE TABLE polygons AS
    SELECT n, g AS id, string_agg(cos(k * 6.283 / n) * g || ',' || sin(k * 6.283 / n) * g, ',' ORDER BY k) AS numbers
    FROM (VALUES (8), (50)) z(n), generate_series(1, 5000) g, LATERAL generate_series(0, n - 1) k GROUP BY n, g;
ALTER TABLE polygons ADD p polygon, ADD a float8[];
UPDATE polygons SET a = string_to_array(numbers, ',')::float8[], p = numbers::polygon;
ALTER TABLE polygons DROP numbers;
VACUUM FULL ANALYZE polygons;
-- The best of five rounds, processor time of the backend for each tuple.
CREATE FUNCTION measure(query text, tuples bigint, rounds int DEFAULT 5) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE start bigint; best bigint := 9223372036854775807;
BEGIN
    FOR i IN 1..rounds LOOP
        start := cpu_ns();
        EXECUTE query;
        best := least(best, cpu_ns() - start);
    END LOOP;
    RETURN round(best::numeric / tuples, 1);
END $$;
\pset footer off
WITH who(name, turns) AS (VALUES ('native', 20), ('write', 20), ('full', 20), ('plpgsql', 1)),
     empty AS (SELECT n, measure(format('SELECT count(p) FROM polygons, generate_series(1, 20) WHERE n = %s', n), 100000) AS ns FROM (VALUES (8), (50)) z(n))
SELECT name,
       measure(format('SELECT sum(%s_add(x, 1)) FROM generate_series(1, 500000) x', name), 500000) AS "add, ns",
       measure(format('SELECT sum(%s_length(''a short text'')) FROM generate_series(1, 500000) x WHERE x > 0', name), 500000) AS "text, ns",
       measure(format('SELECT sum(%s_area(%s)) FROM polygons, generate_series(1, %s) WHERE n = 8', name, CASE name WHEN 'plpgsql' THEN 'a' ELSE 'p' END, turns), 5000 * turns) AS "area of 8, ns",
       measure(format('SELECT sum(%s_area(%s)) FROM polygons, generate_series(1, %s) WHERE n = 50', name, CASE name WHEN 'plpgsql' THEN 'a' ELSE 'p' END, turns), 5000 * turns) AS "area of 50, ns"
FROM who;
\timing on
SELECT 'process, 8, wall clock of 5000' AS name, sum(process_area(p)) > 0 AS done FROM polygons WHERE n = 8;
SELECT 'process, 50, wall clock of 5000' AS name, sum(process_area(p)) > 0 AS done FROM polygons WHERE n = 50;
