-- A hostile function is an ERROR of its statement. The backend lives.
\set VERBOSITY default
CREATE FUNCTION wild_store(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION wild_load(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION wild_jump(bigint) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION divide(int, int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION endless(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION deep(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION eat(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION far_away() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION endless_text() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION past_the_end() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION negative_text() RETURNS bytea LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_text() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION zero_text() RETURNS text LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_number() RETURNS numeric LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_date(int) RETURNS date LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_bool(int) RETURNS bool LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_points() RETURNS polygon LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION open_path() RETURNS path LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION no_path() RETURNS path LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION bad_row(int) RETURNS pair LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION bad_rows(int) RETURNS SETOF pair LANGUAGE sfi STRICT AS 'hostile.o:bad_row';
CREATE FUNCTION no_point(int) RETURNS point LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION endless_set(int) RETURNS SETOF int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION noisy(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE FUNCTION keep(int) RETURNS int LANGUAGE sfi STRICT AS 'hostile.o';
CREATE TEMP TABLE backend AS SELECT pg_backend_pid() AS pid;
\set VERBOSITY terse
SELECT wild_store(912080);
SELECT wild_store(0);
SELECT wild_load(0);
SELECT divide(1, 0);
SELECT divide(-2147483648, -1);
SELECT deep(1);
SELECT eat(1);
SELECT wild_jump(0) IS NOT NULL;
SELECT far_away();
SELECT endless_text();
SELECT past_the_end();
SELECT negative_text();
SELECT no_text();
SELECT zero_text();
SELECT no_number();
SELECT no_date(0);
SELECT no_date(1);
SELECT no_bool(0), no_bool(1), no_bool(2);
SELECT no_points();
SELECT no_point(0);
SELECT open_path();
SELECT no_path();
SELECT bad_row(0);
SELECT bad_row(1);
SELECT bad_row(2);
SELECT bad_row(3);
SELECT bad_row(4);
SELECT bad_row(5);
SELECT bad_row(6);
SELECT bad_row(7);
SELECT count(*) FROM bad_rows(2);
SELECT noisy(3);
-- Function, file and line.
\set VERBOSITY default
SELECT regexp_replace('x', 'x', 'y');
DO $$
DECLARE place text;
BEGIN
    PERFORM wild_store(64);
EXCEPTION WHEN external_routine_exception THEN
    GET STACKED DIAGNOSTICS place = PG_EXCEPTION_CONTEXT;
    RAISE NOTICE '%', regexp_replace(substring(place from '^[^\n]*'), 'at .*/', 'at ');
END $$;
\set VERBOSITY terse
-- A library that reads its arguments where the server has them, in mode write.
SET sfi.mode = write;
CREATE FUNCTION reads(text) RETURNS bigint LANGUAGE sfi STRICT AS 'reads.o';
CREATE FUNCTION reads(polygon) RETURNS float8 LANGUAGE sfi STRICT AS 'reads.o:area';
CREATE FUNCTION reads(point, box) RETURNS float8 LANGUAGE sfi STRICT AS 'reads.o:corner';
CREATE FUNCTION writes(text) RETURNS bigint LANGUAGE sfi STRICT AS 'reads.o';
CREATE FUNCTION address(text) RETURNS bigint LANGUAGE sfi STRICT AS 'reads.o';
CREATE FUNCTION returns(point) RETURNS point LANGUAGE sfi STRICT AS 'reads.o';
CREATE FUNCTION logs(text) RETURNS int LANGUAGE sfi STRICT AS 'reads.o';
CREATE FUNCTION refused(text) RETURNS int LANGUAGE sfi STRICT AS 'reads.o';
CREATE TEMP TABLE texts AS SELECT 'text ' || x AS t, polygon(box(point(x, 0), point(0, x))) AS p FROM generate_series(1, 100) x;
INSERT INTO texts VALUES (repeat('long', 100000), NULL), (NULL, '((0,0),(0,2),(3,2),(3,0))');
SELECT sum(reads(t)), sum(reads(p)) FROM texts;
SELECT reads('(1,2)', '(3,4),(5,6)'), reads('((0,0),(0,2),(3,2),(3,0))'::polygon), reads('text'::text);
SELECT count(DISTINCT address(t)) > 1 AS in_place FROM texts;
-- A broken promise harms the library alone.
DO $$ BEGIN PERFORM writes(t) FROM texts; EXCEPTION WHEN external_routine_exception THEN NULL; END $$;
SELECT count(*) FROM texts WHERE t ~ '^text \d+$';
-- The low half of a server's address can be a place in the library's memory by chance. Then the
-- library's own bytes come.
DO $$ BEGIN
    IF returns('(1,2)') ~= '(1,2)' THEN RAISE WARNING 'returned the point of the server'; END IF;
EXCEPTION WHEN external_routine_exception THEN NULL; END $$;
SET client_min_messages = error;
-- A text of 192 MiB: the low halves of its addresses can lead to 72 MiB of memory of the library.
DO $$
DECLARE refused int := refused(repeat('a line ', 192 * 1024 * 1024 / 7));
BEGIN
    IF refused < 100 THEN RAISE 'logged lines of the server: only % of 192 were refused', refused; END IF;
END $$;
RESET client_min_messages;
SET sfi.mode = full;
SELECT length(sfi.install_file('reads.o'));
SELECT sum(reads(t)), sum(reads(p)) FROM texts;
SELECT writes('text'), returns('(1,2)'), logs('a line');
RESET sfi.mode;
-- Time.
SET statement_timeout = '200ms';
SELECT endless(1);
SELECT * FROM endless_set(1);
RESET statement_timeout;
SET sfi.time_limit = '100ms';
SELECT endless(1);
SELECT add(1, 2);
RESET sfi.time_limit;
-- The transaction is lost, a subtransaction is enough.
BEGIN;
SELECT add(1, 1);
SELECT wild_store(16);
SELECT add(1, 1);
ROLLBACK;
BEGIN;
SAVEPOINT before;
SELECT wild_store(16);
ROLLBACK TO before;
SELECT add(1, 1);
COMMIT;
-- Forged states of aggregates.
CREATE FUNCTION forged_state(sfi.state, float8) RETURNS sfi.state LANGUAGE sfi AS 'hostile.o';
SELECT histogram_end('12345');
SELECT histogram_step('1311768464867721224', 1);
-- A role has domains of its own.
CREATE ROLE sfi_mallory;
CREATE ROLE sfi_alice;
SELECT keep(42);
SELECT keep(43);
SET ROLE sfi_mallory;
SELECT keep(1);
RESET ROLE;
SELECT keep(44);
-- Permissions to create functions.
GRANT CREATE ON SCHEMA public TO sfi_mallory, sfi_alice;
SET ROLE sfi_mallory;
CREATE FUNCTION mine(int, int) RETURNS int LANGUAGE sfi AS 'honest.o:add';
SELECT sfi.install('mine.o', '\x00');
SELECT count(*) FROM sfi.library;
RESET ROLE;
GRANT USAGE ON LANGUAGE sfi TO sfi_mallory;
SET ROLE sfi_mallory;
CREATE FUNCTION mine(int, int) RETURNS int LANGUAGE sfi AS 'honest.o:add';
SELECT mine(2, 3);
SELECT sfi.install('honest.o', pg_read_binary_file('x')) ;
SELECT sfi.install('mine.o', '\x7f454c46');
SELECT sfi.install('../mine.o', '\x7f454c46');
SELECT sfi.install_file('../../etc/passwd');
SELECT sfi.remove('honest.o');
SET sfi.directories = '/';
SET sfi.mode = 'write';
RESET ROLE;
-- The same backend did all of that.
SELECT pid = pg_backend_pid() AS lived FROM backend;
SELECT add(20, 22);
