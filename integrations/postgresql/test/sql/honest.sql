-- Values cross, in all forms.
CREATE EXTENSION sfi;
SELECT name, mode, owner = current_user::regrole AS own FROM sfi.libraries;
CREATE FUNCTION add(int, int) RETURNS int LANGUAGE sfi STRICT AS 'honest.o';
SELECT name, mode, owner = current_user::regrole AS own FROM sfi.libraries;
CREATE FUNCTION add(bigint, bigint) RETURNS bigint LANGUAGE sfi STRICT AS 'honest.o:add8';
CREATE FUNCTION half(float8) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION third(float4) RETURNS float4 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION all_of(bool, bool) RETURNS bool LANGUAGE sfi STRICT AS 'honest.o:both';
CREATE FUNCTION small(int2) RETURNS int2 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION next_day(date) RETURNS date LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION size_of(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o:area';
CREATE FUNCTION width_of(box) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o:width';
CREATE FUNCTION distance_from(point, point) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION path_points(path) RETURNS bigint LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION swapped(point) RETURNS point LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION square(float8) RETURNS polygon LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION reversed(text) RETURNS text LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION reversed(bytea) RETURNS bytea LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION digits(jsonb) RETURNS bigint LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION negated(numeric) RETURNS numeric LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION total(float8[]) RETURNS float8 LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION up_to(int) RETURNS int[] LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION how_many_nulls(int, text) RETURNS int LANGUAGE sfi AS 'honest.o';
SELECT add(40, 2), add(-1, -2), add(4000000000, -1::bigint), half(3), third(3), all_of(true, false), all_of(true, true);
SELECT small(-2::int2), next_day('2024-02-28'), add(NULL, 1);
SELECT size_of('((0,0),(0,2),(3,2),(3,0))'), width_of('((1,1),(4,2))'), distance_from('(3,4)', '(1,1)');
SELECT path_points('((1,1),(2,2),(3,3))'), path_points('[(1,1),(2,2)]'), swapped('(1,2)'), square(2), size_of(square(3));
SELECT reversed('hello'::text), reversed(''::text), reversed('\x010203'::bytea), length(reversed(repeat('xyz', 500000)));
SELECT digits('{"a": 12, "b": [3]}'), negated(12.5), total('{1,2,3.5}'), total('{}'), up_to(5), up_to(0);
SELECT how_many_nulls(1, NULL), how_many_nulls(NULL, NULL), how_many_nulls(1, 'x');
SELECT total('{1,NULL}');
-- Sets, rows, aggregates, windows.
CREATE FUNCTION countdown(int) RETURNS SETOF bigint LANGUAGE sfi STRICT AS 'honest.o';
SELECT * FROM countdown(3);
SELECT sum(countdown) FROM countdown(10000);
CREATE TYPE pair AS (number int, label text);
CREATE FUNCTION pairs(int) RETURNS SETOF pair LANGUAGE sfi STRICT AS 'honest.o:rows';
SELECT * FROM pairs(2);
SELECT pairs(3);
CREATE FUNCTION pair_digits(pair) RETURNS bigint LANGUAGE sfi STRICT AS 'honest.o';
SELECT pair_digits(ROW(12, 'x 3')::pair), pair_digits(ROW(12, NULL)::pair);
CREATE FUNCTION same_row(pair) RETURNS pair LANGUAGE sfi STRICT AS 'honest.o';
SELECT same_row(ROW(12, 'x 3')), same_row(ROW(NULL, NULL)), (same_row(ROW(-5, repeat('long', 3)))).*;
SELECT length((same_row(ROW(1, repeat('xyz', 500000)))).label);
CREATE FUNCTION pairs_of(count int) RETURNS TABLE (id bigint, label varchar(5)) LANGUAGE sfi STRICT AS 'honest.o:rows';
SELECT * FROM pairs_of(2) WHERE id > 0;
SELECT sum(id) FROM generate_series(1, 100) x, LATERAL pairs_of(x);
CREATE FUNCTION forms(int, OUT a int, OUT b bool, OUT c float4, OUT d float8, OUT e text, OUT f numeric, OUT g path, OUT h point,
                      OUT i int[], OUT j pair, OUT k text) LANGUAGE sfi STRICT AS 'honest.o';
SELECT * FROM forms(11);
SELECT forms(11);
SELECT forms(10);
-- Dropped columns do not cross, and added ones do.
CREATE TABLE wide (gone text, number int, label text);
INSERT INTO wide VALUES ('gone', 1, 'one'), (NULL, 2, NULL);
ALTER TABLE wide DROP gone;
CREATE FUNCTION same_row(wide) RETURNS wide LANGUAGE sfi STRICT AS 'honest.o';
CREATE FUNCTION wides(int) RETURNS SETOF wide LANGUAGE sfi STRICT AS 'honest.o:rows';
SELECT same_row(wide), (same_row(wide)).label FROM wide;
SELECT * FROM wides(2);
ALTER TABLE wide ADD more int[] DEFAULT '{1,2}';
SELECT same_row(wide) FROM wide;
-- The length of a column, domains over types.
CREATE TYPE narrow AS (number numeric(4, 1), label varchar(3), moment timestamp(0)[]);
CREATE FUNCTION same_row(narrow) RETURNS narrow LANGUAGE sfi STRICT AS 'honest.o';
SELECT same_row(ROW(12.34, 'abc', ARRAY[timestamp '2020-01-01 00:00:00.7'])::narrow);
CREATE TYPE label3 AS (number int, label varchar(3));
CREATE FUNCTION long_label(int) RETURNS SETOF label3 LANGUAGE sfi STRICT AS 'honest.o:rows';
SELECT * FROM long_label(1);
CREATE DOMAIN positive AS int NOT NULL CHECK (VALUE > 0);
CREATE DOMAIN short AS varchar(3) CHECK (VALUE <> 'xx');
CREATE FUNCTION positive(int) RETURNS positive LANGUAGE sfi AS 'honest.o:plain_number';
CREATE FUNCTION short(int) RETURNS short LANGUAGE sfi STRICT AS 'honest.o:letters';
CREATE FUNCTION strict_pair(int) RETURNS TABLE (id positive, label text) LANGUAGE sfi STRICT AS 'honest.o:rows';
SELECT positive(3), short(3), short(1);
SELECT positive(-3);
SELECT positive(0);
SELECT short(2);
SELECT short(4);
SELECT * FROM strict_pair(2);
-- Paths, and arrays with NULL elements.
CREATE FUNCTION turned(path) RETURNS path LANGUAGE sfi STRICT AS 'honest.o';
SELECT turned('((1,1),(2,2),(3,3))'), turned('[(1,1),(2,2)]');
CREATE FUNCTION known(int[]) RETURNS bigint LANGUAGE sfi AS 'honest.o';
CREATE FUNCTION known_points(point[]) RETURNS bigint LANGUAGE sfi AS 'honest.o';
SELECT known('{1,NULL,3}'), known('{}'), known('{NULL,NULL}'), known('{4,5}'), known('{{1,2},{NULL,4}}');
SELECT known(array_agg(CASE WHEN x % 3 = 0 THEN NULL ELSE x END)) FROM generate_series(1, 1000) x;
SELECT known_points(ARRAY[point '(1,1)', NULL, point '(2,2)', NULL]);
CREATE FUNCTION histogram_step(sfi.state, float8) RETURNS sfi.state LANGUAGE sfi AS 'honest.o';
CREATE FUNCTION histogram_end(sfi.state) RETURNS bigint[] LANGUAGE sfi STRICT AS 'honest.o';
CREATE AGGREGATE histogram(float8) (SFUNC = histogram_step, STYPE = sfi.state, FINALFUNC = histogram_end, FINALFUNC_MODIFY = READ_WRITE);
SELECT histogram(x::float8) FROM generate_series(0, 4.5, 0.25) x;
SELECT x % 2 AS odd, histogram(x / 2.0) FROM generate_series(0, 9) x GROUP BY 1 ORDER BY 1;
SELECT add(x, 1), sum(half(x)) OVER (ORDER BY x) FROM generate_series(1, 3) x;
CREATE FUNCTION say(text) RETURNS int LANGUAGE sfi STRICT AS 'honest.o';
SELECT say('a line of a domain');
SELECT function, symbol FROM sfi.functions WHERE symbol LIKE 'a%' ORDER BY 1;
SELECT library, calls > 10000 AS busy, faults FROM sfi.stats();
-- With compiled expressions.
SET jit_above_cost = 0;
SELECT sum(add(x, 1)), sum(size_of(square(x))) FROM generate_series(1, 1000) x WHERE add(x, -5) > 0;
RESET jit_above_cost;
-- Plans look as those of functions in C.
CREATE FUNCTION c_add(int, int) RETURNS int LANGUAGE internal STRICT AS 'int4pl';
CREATE FUNCTION plan(text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT ' || $1 || '(x, 1) FROM generate_series(1, 9) x WHERE ' || $1 || '(x, 2) > 5 ORDER BY 1' LOOP
        RETURN NEXT replace(line, $1, 'f');
    END LOOP;
END $$;
SELECT * FROM plan('add');
SELECT count(*) AS differences FROM (SELECT * FROM plan('add') EXCEPT SELECT * FROM plan('c_add')) d;
-- In parallel workers.
CREATE FUNCTION add_safe(int, int) RETURNS int LANGUAGE sfi STRICT PARALLEL SAFE AS 'honest.o:add';
CREATE TABLE numbers AS SELECT x FROM generate_series(1, 100000) x;
ALTER TABLE numbers SET (parallel_workers = 2);
ANALYZE numbers;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT sum(add_safe(x, 1)) FROM numbers;
SELECT sum(add_safe(x, 1)) FROM numbers;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
-- Declarations that are refused.
CREATE FUNCTION no_such(int) RETURNS int LANGUAGE sfi AS 'honest.o';
CREATE FUNCTION add2(int) RETURNS int LANGUAGE sfi AS 'nothing.o:add';
CREATE FUNCTION add2(anyelement) RETURNS int LANGUAGE sfi AS 'honest.o:add';
CREATE FUNCTION many(text, text, text, text, text, text, text) RETURNS int LANGUAGE sfi AS 'honest.o:add';
CREATE FUNCTION any_record() RETURNS SETOF record LANGUAGE sfi AS 'honest.o:rows';
CREATE FUNCTION on_row() RETURNS trigger LANGUAGE sfi AS 'honest.o:add';
