-- A fault wherever the server calls functions: an error with the name of the function, no more.
\set VERBOSITY terse
CREATE TEMP TABLE backend AS SELECT pg_backend_pid() AS pid;
CREATE FUNCTION failing(int) RETURNS int LANGUAGE sfi IMMUTABLE STRICT PARALLEL SAFE AS 'stranger.o';
CREATE FUNCTION failing_bool(int) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT AS 'stranger.o:failing';
CREATE FUNCTION failing_order(int, int) RETURNS int LANGUAGE sfi IMMUTABLE STRICT AS 'stranger.o';
CREATE FUNCTION failing_difference(int, int) RETURNS float8 LANGUAGE sfi IMMUTABLE STRICT AS 'stranger.o';
CREATE FUNCTION failing_sum(bigint, int) RETURNS bigint LANGUAGE sfi IMMUTABLE STRICT PARALLEL SAFE AS 'stranger.o';
CREATE FUNCTION failing_two(bigint, bigint) RETURNS bigint LANGUAGE sfi IMMUTABLE STRICT PARALLEL SAFE AS 'stranger.o';
CREATE FUNCTION failing_back(bigint, int) RETURNS bigint LANGUAGE sfi IMMUTABLE STRICT AS 'stranger.o:failing_two';
CREATE FUNCTION failing_end(bigint) RETURNS bigint LANGUAGE sfi IMMUTABLE STRICT PARALLEL SAFE AS 'stranger.o';
CREATE AGGREGATE failing_final(int) (SFUNC = failing_sum, STYPE = bigint, FINALFUNC = failing_end, INITCOND = '0');
CREATE AGGREGATE failing_combined(int) (SFUNC = failing_sum, STYPE = bigint, COMBINEFUNC = failing_two, INITCOND = '0', PARALLEL = SAFE);
CREATE AGGREGATE failing_moved(int) (SFUNC = failing_sum, STYPE = bigint, INITCOND = '0',
    MSFUNC = failing_sum, MINVFUNC = failing_back, MSTYPE = bigint, MINITCOND = '0');
CREATE DOMAIN failing_domain AS int CHECK (failing_bool(VALUE) IS NOT NULL);
CREATE TABLE plain AS SELECT x FROM generate_series(1, 9) x;
CREATE TABLE with_default (x int DEFAULT failing(7));
CREATE TABLE with_column (x int, y int GENERATED ALWAYS AS (failing(x)) STORED);
CREATE TABLE with_check (x int CHECK (failing_bool(x) IS NOT NULL));
CREATE TABLE with_parts (x int) PARTITION BY LIST (failing(x));
CREATE TABLE one_part PARTITION OF with_parts DEFAULT;
CREATE TABLE with_trigger (x int);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER failing BEFORE INSERT ON with_trigger FOR EACH ROW WHEN (failing(NEW.x) > 0) EXECUTE FUNCTION nothing();
CREATE TABLE with_policy AS SELECT x FROM plain;
ALTER TABLE with_policy ENABLE ROW LEVEL SECURITY;
CREATE POLICY failing ON with_policy USING (failing(x) > 0);
GRANT SELECT ON with_policy TO sfi_alice;
CREATE TABLE with_rule (x int);
CREATE RULE failing AS ON INSERT TO with_rule DO ALSO SELECT failing(NEW.x);
CREATE VIEW with_view AS SELECT failing(x) AS y FROM plain;
CREATE STATISTICS with_statistics ON (failing_bool(x)) FROM with_check;
CREATE OPERATOR CLASS failing_btree FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 failing_order(int, int);
CREATE OPERATOR CLASS failing_hash FOR TYPE int USING hash AS OPERATOR 1 =, FUNCTION 1 failing(int);
CREATE TYPE failing_range AS RANGE (SUBTYPE = int, SUBTYPE_DIFF = failing_difference);
CREATE TABLE with_ranges (r failing_range);
CREATE INDEX ON with_ranges USING gist (r);
CREATE FUNCTION fault(text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE place text;
BEGIN
    EXECUTE $1;
    RETURN 'no error';
EXCEPTION WHEN external_routine_exception THEN
    GET STACKED DIAGNOSTICS place = PG_EXCEPTION_CONTEXT;
    RETURN substring(place from 'function [a-z_]+');
END $$;
SELECT place, fault(statement) FROM (VALUES
    ('argument', 'SELECT failing(7)'), ('nothing', 'SELECT failing(8)'),
    ('condition', 'SELECT FROM plain WHERE failing(x) > 0'), ('group', 'SELECT failing(x) FROM plain GROUP BY 1'),
    ('limit', 'SELECT FROM plain LIMIT failing(7)'), ('returned', 'UPDATE plain SET x = x RETURNING failing(x)'),
    ('join', 'SELECT FROM plain a JOIN plain b ON failing(a.x) = b.x'), ('case', 'SELECT CASE x WHEN 7 THEN failing(x) END FROM plain'),
    ('subquery', 'SELECT (SELECT failing(x)) FROM plain'), ('recursion', 'WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT failing(x + 1) FROM r) SELECT FROM r'),
    ('default', 'INSERT INTO with_default DEFAULT VALUES'), ('generated column', 'INSERT INTO with_column VALUES (7)'),
    ('check', 'INSERT INTO with_check VALUES (7)'), ('domain', 'SELECT ''7''::failing_domain'),
    ('partition', 'INSERT INTO with_parts VALUES (7)'), ('trigger', 'INSERT INTO with_trigger VALUES (7)'),
    ('policy', 'SET LOCAL ROLE sfi_alice; SELECT count(*) FROM with_policy'), ('rule', 'INSERT INTO with_rule VALUES (7)'),
    ('view', 'SELECT * FROM with_view'), ('materialized view', 'CREATE MATERIALIZED VIEW m AS SELECT failing(x) FROM plain'),
    ('copy', 'COPY (SELECT failing(x) FROM plain) TO ''/dev/null'''), ('index', 'CREATE INDEX ON plain (failing(x))'),
    ('unique', 'CREATE UNIQUE INDEX ON plain (x failing_btree)'), ('hash', 'CREATE INDEX ON plain USING hash (x failing_hash)'),
    ('ranges', 'INSERT INTO with_ranges SELECT failing_range(x % 9, x % 9 + 1) FROM generate_series(1, 2000) x'),
    ('final function', 'SELECT failing_final(x) FROM generate_series(1, 3) x'), ('step', 'SELECT failing_final(x) FROM plain'),
    ('inverse', 'SELECT failing_moved(x) OVER (ORDER BY x ROWS 1 PRECEDING) FROM generate_series(1, 5) x'),
    ('cursor', 'DO $x$ DECLARE c CURSOR FOR SELECT failing(x) FROM plain; r record; BEGIN FOR r IN c LOOP END LOOP; END $x$'),
    ('merge', 'MERGE INTO plain p USING plain q ON p.x = failing(q.x) WHEN MATCHED THEN DO NOTHING')) v(place, statement);
SELECT failing(3), count(*), sum(x) FROM plain;
PREPARE prepared AS SELECT failing($1);
EXECUTE prepared(3);
EXECUTE prepared(7);
EXECUTE prepared(3);
SELECT pid = pg_backend_pid() AS lived FROM backend;
-- Functions for the text form of a type, in a server that compiles expressions.
SHOW jit;
CREATE TYPE unsafe;
CREATE FUNCTION unsafe_in(cstring) RETURNS unsafe LANGUAGE sfi IMMUTABLE STRICT AS 'span.o:span_in';
SET jit = off;
CREATE FUNCTION unsafe_in(cstring) RETURNS unsafe LANGUAGE sfi IMMUTABLE STRICT AS 'span.o:span_in';
CREATE FUNCTION said(cstring) RETURNS int LANGUAGE sfi STRICT AS 'stranger.o:plain';
SET check_function_bodies = off;
CREATE FUNCTION said(cstring) RETURNS int LANGUAGE sfi STRICT AS 'stranger.o:plain';
SELECT said('x');
SET jit = on;
RESET check_function_bodies;
DROP TYPE unsafe CASCADE;
-- In a parallel worker.
CREATE TABLE many AS SELECT x % 9 AS x FROM generate_series(1, 100000) x;
ALTER TABLE many SET (parallel_workers = 2);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT sum(failing(x)) FROM many WHERE x < 7;
SELECT sum(failing(x)) FROM many;
SELECT failing_combined(x) FROM many WHERE x < 7;
SELECT sum(failing(x)) FROM many WHERE x < 7;
-- A function for an index that something else calls: an aggregate of a superuser.
CREATE AGGREGATE misled(bigint) (SFUNC = int8_avg_accum, STYPE = internal, COMBINEFUNC = raw_picksplit, FINALFUNC = numeric_poly_avg,
    SERIALFUNC = int8_avg_serialize, DESERIALFUNC = int8_avg_deserialize, PARALLEL = SAFE);
SELECT misled(x::bigint) FROM many;
SELECT misled(x) FROM (VALUES (1), (2)) v(x);
