-- What a role tries that may use the language. Everything is an ERROR of its statement.
\set VERBOSITY terse
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/stranger.o'), 'hex')) AS stranger \gset
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/refused.o'), 'hex')) AS refused \gset
SELECT format('%L', encode(pg_read_binary_file(current_setting('sfi.directories') || '/reads.o'), 'hex')) AS reads \gset
CREATE TEMP TABLE backend AS SELECT pg_backend_pid() AS pid;
GRANT SELECT ON backend TO sfi_mallory;
-- The first bytes of the server's program, for a look at its memory.
CREATE FUNCTION server() RETURNS bigint LANGUAGE sql AS
    $$ SELECT ('x' || lpad(substring(pg_read_file('/proc/self/maps') from '^[0-9a-f]+'), 16, '0'))::bit(64)::bigint $$;
SELECT server() \gset
CREATE FUNCTION seen(bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE wild_load($1) WHEN x'464c457f'::int THEN 'the server' ELSE 'own memory' END;
EXCEPTION WHEN external_routine_exception THEN
    RETURN 'a fault';
END $$;
SELECT seen(:server) <> 'the server' AS hidden;
SHOW sfi.mode;
-- Mode write does not hide it. So only a superuser chooses this mode, and no addresses are given
-- away: libraries of others get copies.
SET sfi.mode = write;
SELECT length(sfi.install_file('hostile.o'));
SELECT seen(:server);
CREATE TABLE notes AS SELECT 'note ' || x AS t FROM generate_series(1, 9) x;
GRANT SELECT ON notes TO sfi_mallory;
SET ROLE sfi_mallory;
SELECT length(sfi.install('looks.o', decode(:reads, 'hex')));
CREATE FUNCTION looks(text) RETURNS bigint LANGUAGE sfi STRICT AS 'looks.o:address';
SELECT count(DISTINCT looks(t)) FROM notes;
RESET ROLE;
RESET sfi.mode;
-- A library of mode write is not loaded any more.
SELECT wild_load(64);
SELECT length(sfi.install_file('hostile.o'));
SET ROLE sfi_mallory;
SELECT looks('x');
SET sfi.mode = write;
SELECT length(sfi.install('stranger.o', decode(:stranger, 'hex')));
-- Code for the kernel, with the codes of the refusal.
\set VERBOSITY default
SELECT sfi.install('refused.o', decode(:refused, 'hex'));
\set VERBOSITY terse
-- Kinds of functions that the language has not, with and without a look when they are made.
CREATE FUNCTION in_window(int) RETURNS int LANGUAGE sfi WINDOW STRICT AS 'stranger.o:plain';
CREATE PROCEDURE procedure(int) LANGUAGE sfi AS 'stranger.o:plain';
SET check_function_bodies = off;
CREATE FUNCTION in_window(text) RETURNS bigint LANGUAGE sfi WINDOW STRICT AS 'honest.o:digits';
CREATE PROCEDURE procedure(int) LANGUAGE sfi AS 'stranger.o:plain';
CREATE FUNCTION of_any(anyelement) RETURNS int LANGUAGE sfi STRICT AS 'stranger.o:plain';
CREATE FUNCTION missing(int) RETURNS int LANGUAGE sfi STRICT AS 'stranger.o';
CREATE FUNCTION nowhere(int) RETURNS int LANGUAGE sfi STRICT AS 'nothing.o:plain';
RESET check_function_bodies;
SELECT in_window(t) OVER () FROM notes;
CALL procedure(1);
SELECT of_any(1);
SELECT missing(1);
SELECT nowhere(1);
-- The server's own structures: functions for indexes that no index calls.
CREATE FUNCTION raw_consistent(internal, text, int2, oid, internal) RETURNS bool LANGUAGE sfi AS 'stranger.o:plain';
CREATE FUNCTION raw_union(internal, internal) RETURNS point LANGUAGE sfi AS 'stranger.o:plain';
CREATE FUNCTION raw_penalty(internal, internal, internal) RETURNS internal LANGUAGE sfi AS 'stranger.o:plain';
CREATE FUNCTION raw_picksplit(internal, internal) RETURNS internal LANGUAGE sfi AS 'stranger.o:plain';
CREATE FUNCTION raw_same(point, point, internal) RETURNS internal LANGUAGE sfi AS 'stranger.o:plain';
SELECT raw_consistent(internal_in(NULL), 'x', 1::int2, 1::oid, internal_in(NULL));
SELECT raw_union(internal_in(NULL), internal_in(NULL));
SELECT raw_penalty(internal_in(NULL), internal_in(NULL), internal_in(NULL)) IS NULL;
SELECT raw_picksplit(internal_in(NULL), internal_in(NULL)) IS NULL;
SELECT raw_same('(1,1)', '(2,2)', internal_in(NULL)) IS NULL;
CREATE FUNCTION raw(internal) RETURNS int LANGUAGE sfi AS 'stranger.o:plain';
-- Vectors whose bounds the server reads without a look.
CREATE FUNCTION no_numbers() RETURNS oidvector LANGUAGE sfi STRICT AS 'stranger.o';
CREATE FUNCTION no_small_numbers() RETURNS int2vector LANGUAGE sfi STRICT AS 'stranger.o:no_numbers';
CREATE FUNCTION some_numbers(int) RETURNS oidvector LANGUAGE sfi STRICT AS 'stranger.o';
SELECT no_numbers(), no_small_numbers(), some_numbers(5);
-- A type that changes in the middle of a query: its new numbers are no texts.
CREATE TYPE changing AS (a text, b text);
CREATE FUNCTION last_length(changing) RETURNS bigint LANGUAGE sfi STRICT AS 'stranger.o';
CREATE FUNCTION made_now() RETURNS changing LANGUAGE plpgsql AS
    $$ DECLARE r changing; BEGIN EXECUTE 'SELECT ROW(1, 4194304)::changing' INTO r; RETURN r; END $$;
CREATE FUNCTION made(int) RETURNS changing LANGUAGE plpgsql AS $$
DECLARE r changing;
BEGIN
    IF $1 = 2 THEN ALTER TYPE changing ALTER ATTRIBUTE b TYPE int8; END IF;
    RETURN made_now();
END $$;
SELECT last_length(made(x)) FROM generate_series(1, 2) x;
-- Many rows at once.
CREATE FUNCTION lying_set(int) RETURNS SETOF int LANGUAGE sfi STRICT AS 'stranger.o';
CREATE FUNCTION lying_points(int) RETURNS SETOF point LANGUAGE sfi STRICT AS 'stranger.o:lying_set';
CREATE FUNCTION lying_texts(int) RETURNS SETOF text LANGUAGE sfi STRICT AS 'stranger.o:lying_set';
CREATE FUNCTION lying_rows(int) RETURNS TABLE (a int, b text) LANGUAGE sfi STRICT AS 'stranger.o:lying_set';
SELECT * FROM lying_set(0);
SELECT * FROM lying_set(1);
SELECT * FROM lying_set(2);
SELECT * FROM lying_set(3);
SELECT * FROM lying_set(4);
SET statement_timeout = '300ms';
SELECT count(*) FROM lying_set(5);
RESET statement_timeout;
SELECT * FROM lying_points(0);
SELECT * FROM lying_texts(0);
SELECT * FROM lying_rows(0);
-- Settings, tables and rights of others.
SET sfi.memory = '1GB';
SET sfi.command = '/bin/sh';
SHOW sfi.command;
SELECT count(*) FROM "$sfi".library;
INSERT INTO sfi.library SELECT * FROM sfi.library;
SELECT sfi.grant('sfi_mallory', 'spi');
SELECT sfi.install('honest.o', decode(:stranger, 'hex'));
SELECT sfi.install('stranger.o', decode(:stranger, 'hex')) = digest AS same FROM sfi.libraries WHERE name = 'stranger.o';
RESET ROLE;
SELECT pid = pg_backend_pid() AS lived FROM backend;
SELECT add(20, 22);
