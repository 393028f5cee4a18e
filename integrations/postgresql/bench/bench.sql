CREATE EXTENSION sfi;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
CREATE FUNCTION native_area(polygon) RETURNS float8 AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION native_add(int, int) RETURNS int AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION native_length(text) RETURNS int AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION process_area(polygon) RETURNS float8 AS :'native' LANGUAGE C STRICT;
CREATE FUNCTION cpu_ns() RETURNS bigint AS :'native' LANGUAGE C STRICT;
SET sfi.mode = write;
SELECT sfi.install('write', pg_read_binary_file(:'object')) \gset
CREATE FUNCTION write_area(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'write:area';
CREATE FUNCTION write_add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'write:add';
CREATE FUNCTION write_length(text) RETURNS int LANGUAGE sfi STRICT AS 'write:bytes';
SET sfi.mode = full;
SELECT sfi.install('full', pg_read_binary_file(:'object')) \gset
CREATE FUNCTION full_area(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'full:area';
CREATE FUNCTION full_add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'full:add';
CREATE FUNCTION full_length(text) RETURNS int LANGUAGE sfi STRICT AS 'full:bytes';
SET sfi.mode = write;
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
-- Samples of processor time of the backend for each tuple, all forms in turn in each round.
CREATE TABLE samples (kind text, name text, round int, ns float8);
CREATE PROCEDURE sample(rounds int) LANGUAGE plpgsql AS $$
DECLARE start bigint; k record; w record; tuples bigint;
BEGIN
    FOR i IN 1..rounds LOOP
        FOR k IN SELECT * FROM (VALUES
            ('add', 'SELECT sum(%s_add(x, 1)) FROM generate_series(1, %s) x', 50000),
            ('text', 'SELECT sum(%s_length(''a short text'')) FROM generate_series(1, %s) x WHERE x > 0', 50000),
            ('area of 8', 'SELECT sum(%s_area(%s)) FROM polygons, generate_series(1, %s) WHERE n = 8', 5000),
            ('area of 50', 'SELECT sum(%s_area(%s)) FROM polygons, generate_series(1, %s) WHERE n = 50', 5000)) v(kind, query, rows)
        LOOP
            FOR w IN SELECT * FROM (VALUES ('native', 'p', 10), ('write', 'p', 10), ('full', 'p', 10), ('plpgsql', 'a', 1)) v(name, argument, turns) LOOP
                tuples := k.rows * CASE WHEN k.kind LIKE 'area%' THEN w.turns ELSE 1 END;
                start := cpu_ns();
                IF k.kind LIKE 'area%' THEN EXECUTE format(k.query, w.name, w.argument, w.turns);
                ELSE EXECUTE format(k.query, w.name, k.rows); END IF;
                INSERT INTO samples VALUES (k.kind, w.name, i, (cpu_ns() - start)::float8 / tuples);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
CALL sample(31);
\pset footer off
-- Medians, and medians of the differences within a round.
SELECT s.kind, s.name, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.ns)::numeric(10, 1) AS ns,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY s.ns - n.ns)::numeric(10, 1) AS "over native, ns"
FROM samples s JOIN samples n USING (kind, round) WHERE n.name = 'native'
GROUP BY 1, 2 ORDER BY 1, array_position('{native,write,full,plpgsql}', s.name);
\timing on
SELECT 'process, 8, wall clock of 5000' AS name, sum(process_area(p)) > 0 AS done FROM polygons WHERE n = 8;
SELECT 'process, 50, wall clock of 5000' AS name, sum(process_area(p)) > 0 AS done FROM polygons WHERE n = 50;
