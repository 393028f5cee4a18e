-- A type with input, output, operators and an index in a domain.
CREATE TYPE span;
CREATE FUNCTION span_in(cstring) RETURNS span LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE FUNCTION span_out(span) RETURNS cstring LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE TYPE span (INPUT = span_in, OUTPUT = span_out, INTERNALLENGTH = 16, ALIGNMENT = double);
SELECT '3..7'::span, '-1.5..200'::span;
-- The server's compiler of expressions would end the server here. Nobody turns it on.
CREATE ROLE sfi_hasty;
ALTER ROLE sfi_hasty SET jit = on;
SET ROLE sfi_hasty;
SET jit = on;
SET jit_above_cost = 0;
SELECT count((x || '..7')::text::span) FROM generate_series(1, 10) x;
SHOW jit;
RESET ROLE;
RESET jit_above_cost;
CREATE FUNCTION overlaps(span, span) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE FUNCTION span_low(span) RETURNS float8 LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE OPERATOR && (LEFTARG = span, RIGHTARG = span, FUNCTION = overlaps, COMMUTATOR = &&);
SELECT '3..7'::span && '7..9'::span, '3..7'::span && '8..9'::span, span_low('3..7');
CREATE FUNCTION span_consistent(internal, span, int2, oid, internal) RETURNS bool LANGUAGE sfi STRICT AS 'span.o:consistent';
CREATE FUNCTION span_union(internal, internal) RETURNS span LANGUAGE sfi STRICT AS 'span.o:unite';
CREATE FUNCTION span_penalty(internal, internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o:penalty';
CREATE FUNCTION span_picksplit(internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o:picksplit';
CREATE FUNCTION span_same(span, span, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o:same';
CREATE OPERATOR CLASS span_ops DEFAULT FOR TYPE span USING gist AS
    OPERATOR 3 &&, FUNCTION 1 span_consistent(internal, span, int2, oid, internal), FUNCTION 2 span_union(internal, internal),
    FUNCTION 5 span_penalty(internal, internal, internal), FUNCTION 6 span_picksplit(internal, internal),
    FUNCTION 7 span_same(span, span, internal);
CREATE TABLE spans AS SELECT (x || '..' || x + 5)::span AS s FROM generate_series(1, 20000) x;
CREATE INDEX spans_index ON spans USING gist (s);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM spans WHERE s && '500..510'::span;
SELECT count(*) FROM spans WHERE s && '500..510'::span;
SELECT count(*) FROM spans, generate_series(1, 500) x WHERE s && (x * 40 || '..' || x * 40)::span;
INSERT INTO spans SELECT (x || '..' || x + 5)::span FROM generate_series(1, 5000) x;
SELECT count(*) FROM spans WHERE s && '500..510'::span;
RESET enable_seqscan;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM spans WHERE s && '500..510'::span;
RESET enable_indexscan;
RESET enable_bitmapscan;
SELECT library, calls > 1000000 AS busy, faults FROM sfi.stats() WHERE library = 'span.o' AND role = current_user::regrole;
-- An operator class that lies or faults loses its own index.
\set VERBOSITY terse
CREATE FUNCTION bad_consistent(internal, span, int2, oid, internal) RETURNS bool LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION crashing_consistent(internal, span, int2, oid, internal) RETURNS bool LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION bad_picksplit(internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION crashing_picksplit(internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION bad_penalty(internal, internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION bad_union(internal, internal) RETURNS span LANGUAGE sfi STRICT AS 'span.o';
CREATE OPERATOR CLASS lying_ops FOR TYPE span USING gist AS
    OPERATOR 3 &&, FUNCTION 1 bad_consistent(internal, span, int2, oid, internal), FUNCTION 2 bad_union(internal, internal),
    FUNCTION 5 bad_penalty(internal, internal, internal), FUNCTION 6 span_picksplit(internal, internal),
    FUNCTION 7 span_same(span, span, internal);
CREATE OPERATOR CLASS one_sided_ops FOR TYPE span USING gist AS
    OPERATOR 3 &&, FUNCTION 1 span_consistent(internal, span, int2, oid, internal), FUNCTION 2 span_union(internal, internal),
    FUNCTION 5 span_penalty(internal, internal, internal), FUNCTION 6 bad_picksplit(internal, internal),
    FUNCTION 7 span_same(span, span, internal);
CREATE OPERATOR CLASS crashing_ops FOR TYPE span USING gist AS
    OPERATOR 3 &&, FUNCTION 1 crashing_consistent(internal, span, int2, oid, internal), FUNCTION 2 span_union(internal, internal),
    FUNCTION 5 span_penalty(internal, internal, internal), FUNCTION 6 crashing_picksplit(internal, internal),
    FUNCTION 7 span_same(span, span, internal);
CREATE TABLE few AS SELECT s FROM spans LIMIT 3000;
CREATE INDEX few_lying ON few USING gist (s lying_ops);
SET enable_seqscan = off;
-- The index says yes to everything, so the operator decides.
SELECT count(*) > 0 AS some FROM few WHERE s && '1..5'::span;
DROP INDEX few_lying;
CREATE INDEX few_one_sided ON few USING gist (s one_sided_ops);
CREATE INDEX few_crashing ON few USING gist (s crashing_ops);
CREATE TABLE fewer AS SELECT s FROM spans LIMIT 10;
CREATE INDEX fewer_crashing ON fewer USING gist (s crashing_ops);
SELECT count(*) FROM fewer WHERE s && '1..5'::span;
RESET enable_seqscan;
SELECT count(*) FROM fewer WHERE s && '1..5'::span;
-- A fault in each other support function, while an index grows.
CREATE FUNCTION crashing_union(internal, internal) RETURNS span LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION crashing_penalty(internal, internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION crashing_same(span, span, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE FUNCTION grown(text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE place text;
BEGIN
    EXECUTE format('CREATE OPERATOR CLASS growing_ops FOR TYPE span USING gist AS OPERATOR 3 &&, '
        'FUNCTION 1 span_consistent(internal, span, int2, oid, internal), FUNCTION 2 %s(internal, internal), '
        'FUNCTION 5 %s(internal, internal, internal), FUNCTION 6 span_picksplit(internal, internal), FUNCTION 7 %s(span, span, internal)',
        CASE $1 WHEN 'union' THEN 'crashing_union' ELSE 'span_union' END,
        CASE $1 WHEN 'penalty' THEN 'crashing_penalty' ELSE 'span_penalty' END,
        CASE $1 WHEN 'same' THEN 'crashing_same' ELSE 'span_same' END);
    CREATE TABLE growing (s span);
    CREATE INDEX growing_index ON growing USING gist (s growing_ops);
    INSERT INTO growing SELECT s FROM spans LIMIT 3000;
    RETURN 'no error';
EXCEPTION WHEN external_routine_exception THEN
    GET STACKED DIAGNOSTICS place = PG_EXCEPTION_CONTEXT;
    RETURN substring(place from 'function [a-z_]+');
END $$;
SELECT grown('union'), grown('penalty'), grown('same');
SELECT grown('nothing');
SELECT count(*) FROM growing WHERE s && '1..5'::span;
-- A cancel request while the index holds the lock of a page: an end, and no fault of the library.
CREATE FUNCTION endless_penalty(internal, internal, internal) RETURNS internal LANGUAGE sfi STRICT AS 'span.o';
CREATE OPERATOR CLASS endless_ops FOR TYPE span USING gist AS OPERATOR 3 &&, FUNCTION 1 span_consistent(internal, span, int2, oid, internal),
    FUNCTION 2 span_union(internal, internal), FUNCTION 5 endless_penalty(internal, internal, internal),
    FUNCTION 6 span_picksplit(internal, internal), FUNCTION 7 span_same(span, span, internal);
CREATE TABLE endless_growth (s span);
CREATE INDEX endless_index ON endless_growth USING gist (s endless_ops);
SELECT faults FROM sfi.stats() WHERE library = 'span.o' AND role = current_user::regrole \gset
SET statement_timeout = '300ms';
INSERT INTO endless_growth SELECT s FROM spans LIMIT 3000;
RESET statement_timeout;
SELECT faults - :faults AS counted FROM sfi.stats() WHERE library = 'span.o' AND role = current_user::regrole;
SELECT count(*) FROM endless_growth WHERE s && '1..5'::span;
-- A fault in the functions of a type, wherever the server calls them.
CREATE TYPE broken;
CREATE FUNCTION broken_in(cstring) RETURNS broken LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE FUNCTION broken_out(broken) RETURNS cstring LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE TYPE broken (INPUT = broken_in, OUTPUT = broken_out, INTERNALLENGTH = 16, ALIGNMENT = double);
CREATE CAST (span AS broken) WITHOUT FUNCTION;
CREATE FUNCTION broken_equals(broken, broken) RETURNS bool LANGUAGE sfi IMMUTABLE STRICT AS 'span.o';
CREATE OPERATOR === (LEFTARG = broken, RIGHTARG = broken, FUNCTION = broken_equals);
CREATE TABLE brokens (id int, b broken);
INSERT INTO brokens SELECT 1, '1..2'::span::broken;
SELECT '1'::broken IS NULL;
SELECT b FROM brokens;
SELECT count(*) FROM brokens x JOIN brokens y ON x.b === y.b;
COPY brokens TO STDOUT;
COPY brokens FROM PROGRAM 'printf "2\t3..4\n"';
ALTER TABLE brokens ADD CHECK (b === b);
DO $$ BEGIN PERFORM b::text FROM brokens; EXCEPTION WHEN external_routine_exception THEN RAISE NOTICE 'caught'; END $$;
SELECT count(*), min(id) FROM brokens;
DROP TABLE brokens;
-- A caller that is no index.
SELECT span_penalty(NULL, NULL, NULL);
SELECT pid = pg_backend_pid() AS one_backend FROM (SELECT pg_backend_pid() AS pid) b;
