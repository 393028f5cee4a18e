-- Queries of functions: only with a right, as the caller, reading unless more is granted.
\set VERBOSITY default
CREATE FUNCTION ask(text) RETURNS text LANGUAGE sfi STRICT AS 'query.o';
\set VERBOSITY terse
CREATE FUNCTION ask_too(text) RETURNS text LANGUAGE sfi STRICT AS 'query.o';
CREATE FUNCTION ask_stable(text) RETURNS text LANGUAGE sfi STABLE STRICT AS 'query.o:ask';
CREATE FUNCTION ask_with(text, text, text) RETURNS text LANGUAGE sfi AS 'query.o';
CREATE FUNCTION rows(text) RETURNS bigint LANGUAGE sfi STRICT AS 'query.o';
CREATE FUNCTION later(int) RETURNS bigint LANGUAGE sfi STRICT AS 'query.o';
CREATE FUNCTION lie(int) RETURNS bigint LANGUAGE sfi STRICT AS 'query.o';
CREATE FUNCTION stubborn(int) RETURNS bigint LANGUAGE sfi STRICT AS 'query.o';
CREATE TEMP TABLE here AS SELECT pg_backend_pid() AS pid;
\set VERBOSITY default
SELECT ask('SELECT 1');
\set VERBOSITY terse
SELECT sfi.grant(current_user::regrole, 'everything');
SELECT sfi.grant(current_user::regrole, 'spi');
SELECT ask('SELECT 1'), ask('SELECT x, NULL, x::text || ''!'' FROM generate_series(1, 3) x');
SELECT ask('SELECT ''ü'' WHERE false'), ask('SELECT');
SELECT ask_with('SELECT $1::int + $2::int', '40', '2'), ask_with('SELECT $1 IS NULL, $2', NULL, 'Robert''); DROP TABLE x');
SELECT sum(rows('SELECT generate_series(1, ' || x || ')')) FROM generate_series(1, 100) x;
-- It reads only, whatever it calls.
CREATE TABLE counted (n int);
CREATE FUNCTION count_up() RETURNS int LANGUAGE sql AS 'INSERT INTO counted VALUES (1) RETURNING n';
SELECT ask('INSERT INTO counted VALUES (1)');
SELECT ask('SELECT count_up()');
SELECT ask('WITH new AS (INSERT INTO counted VALUES (1) RETURNING n) SELECT * FROM new');
CREATE SEQUENCE s;
SELECT ask('SELECT nextval(''s'')');
SELECT ask('SET search_path = nowhere');
SELECT ask('SELECT set_config(''search_path'', ''nowhere'', false)');
SELECT ask('SELECT set_config(''transaction_read_only'', ''off'', false), count_up()');
SHOW search_path;
SELECT ask('COMMIT');
SELECT ask('COPY counted TO STDOUT');
SELECT ask('DROP TABLE counted');
SELECT count(*) FROM counted;
INSERT INTO counted VALUES (2);
-- Writing takes a right of its own, and a VOLATILE function.
SELECT sfi.grant(current_user::regrole, 'spi write');
SELECT ask('INSERT INTO counted VALUES (3) RETURNING n'), ask('SELECT count_up()');
SELECT ask_stable('INSERT INTO counted VALUES (4)');
SELECT ask_stable('SELECT count_up()');
SELECT n FROM counted ORDER BY n;
SELECT sfi.revoke(current_user::regrole, 'spi write');
SELECT ask('SELECT count_up()');
-- Functions that call each other by queries.
SELECT ask('SELECT reversed(''hello'')'), ask('SELECT add(40, 2)');
SELECT ask('SELECT ask(''SELECT 42'')');
SELECT ask('SELECT wild_store(64)');
-- Within a query the same library makes none.
SELECT ask('SELECT rows(''SELECT 1'')'), ask('SELECT ask_too(''SELECT 1'') IS NULL'), later(0);
-- An error ends the call, and the call alone.
SELECT stubborn(1000);
SELECT ask('SELECT 1/0');
DO $$ BEGIN PERFORM ask('SELECT 1/0'); EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'caught'; END $$;
SELECT ask('no SQL at all');
SET statement_timeout = '200ms';
SELECT ask('SELECT pg_sleep(60)');
RESET statement_timeout;
SET sfi.time_limit = '100ms';
SELECT ask('SELECT pg_sleep(0.5)');
RESET sfi.time_limit;
SELECT ask('SELECT 7');
-- Answers end with their transaction.
SELECT later(0);
BEGIN;
SELECT rows('SELECT 12345'), later(0), later(1);
SAVEPOINT s;
SELECT rows('SELECT 1/0');
ROLLBACK TO s;
SELECT later(0);
COMMIT;
SELECT later(0);
-- Lies.
SELECT lie(0);
SELECT lie(1);
SELECT lie(2);
SELECT lie(3);
SELECT lie(4);
SELECT lie(5);
SELECT lie(6), lie(7), lie(9), lie(10);
SELECT lie(8);
SELECT rows('SELECT generate_series(1, 100001)');
SELECT rows('SELECT repeat(''x'', 1000000) FROM generate_series(1, 100)');
-- The library's owner has the right, and the caller's rights decide what the query sees.
CREATE TABLE secret (s text);
INSERT INTO secret VALUES ('secret');
CREATE ROLE sfi_reader;
SET ROLE sfi_reader;
SELECT sfi.grant('sfi_reader', 'spi');
SELECT ask('SELECT current_user');
SELECT ask('SELECT s FROM secret');
SELECT ask('SET ROLE postgres');
RESET ROLE;
SELECT ask('SELECT s FROM secret');
-- Somebody else's function of the library does not get the right of the library's owner.
CREATE ROLE sfi_thief;
GRANT CREATE ON SCHEMA public TO sfi_thief;
GRANT USAGE ON LANGUAGE sfi TO sfi_thief;
SET ROLE sfi_thief;
CREATE FUNCTION steals(text) RETURNS text LANGUAGE sfi STRICT AS 'query.o:ask';
SELECT ask('SELECT 1');
SELECT steals('SELECT 1');
RESET ROLE;
SELECT steals('SELECT 1');
SELECT sfi.grant('sfi_thief', 'spi');
SELECT steals('SELECT 1');
SELECT sfi.revoke('sfi_thief', 'spi');
-- A library that begins anew asks for itself, and not for the one that ran before it. A cancel
-- request ends its constructor.
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/begins.o'), 'hex')) AS begins \gset
SET ROLE sfi_thief;
SELECT length(sfi.install('begins.o', decode(:begins, 'hex')));
CREATE FUNCTION began(text) RETURNS bigint LANGUAGE sfi STRICT AS 'begins.o';
CREATE FUNCTION ends(text) RETURNS bigint LANGUAGE sfi STRICT AS 'begins.o';
SELECT began('x');
SELECT ends('x');
SELECT ask('SELECT 1');
SET statement_timeout = '300ms';
SELECT began('x');
RESET ROLE;
SELECT sfi.grant('sfi_thief', 'spi');
SET ROLE sfi_thief;
SELECT began('x');
SELECT began('x');
RESET statement_timeout;
SELECT add(1, 2);
RESET ROLE;
SELECT sfi.revoke('sfi_thief', 'spi');
-- A query alters the type of the row that its function returns.
SELECT sfi.grant('sfi_mallory', 'spi write');
CREATE TYPE altered AS (a text, b text);
CREATE FUNCTION altering(text) RETURNS altered LANGUAGE sfi STRICT AS 'stranger.o';
SELECT altering('SELECT 1');
SELECT altering('ALTER TYPE altered ALTER ATTRIBUTE b TYPE int8');
SELECT sfi.revoke('sfi_mallory', 'spi write');
SELECT sfi.revoke(current_user::regrole, 'spi');
SELECT ask('SELECT 1');
SELECT pid = pg_backend_pid() AS lived FROM here;
