\echo Use "CREATE EXTENSION sfi" to load this file. \quit

CREATE FUNCTION call_handler() RETURNS language_handler AS 'MODULE_PATHNAME', 'sfi_pg_call_handler' LANGUAGE C;
CREATE FUNCTION validator(oid) RETURNS void AS 'MODULE_PATHNAME', 'sfi_pg_validator' LANGUAGE C STRICT;
CREATE TRUSTED LANGUAGE sfi HANDLER call_handler VALIDATOR validator;
COMMENT ON LANGUAGE sfi IS 'untrusted native functions in fault domains';
REVOKE ALL ON LANGUAGE sfi FROM PUBLIC;

-- Rewritten objects. Every backend verifies them again when it loads them.
CREATE TABLE library (
    name text PRIMARY KEY,
    owner regrole NOT NULL,
    mode text NOT NULL,
    digest bytea NOT NULL,
    object bytea NOT NULL,
    installed timestamptz NOT NULL DEFAULT now()
);
REVOKE ALL ON library FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('library', '');

CREATE VIEW libraries AS
    SELECT name, owner, mode, encode(digest, 'hex') AS digest, length(object) AS bytes, installed FROM library;
GRANT SELECT ON libraries TO PUBLIC;

-- Rewrites an object or archive and stores it under a name. For roles with USAGE on the language.
-- Replaces a library of the same name if the role owns it. Returns the digest of the stored form.
CREATE FUNCTION install(name text, object bytea) RETURNS text AS 'MODULE_PATHNAME', 'sfi_pg_install' LANGUAGE C STRICT;
-- The same for a file in one of the folders of the setting sfi.directories.
CREATE FUNCTION install_file(name text) RETURNS text AS 'MODULE_PATHNAME', 'sfi_pg_install_file' LANGUAGE C STRICT;
-- Forgets a library. Running functions finish, and later calls fail.
CREATE FUNCTION remove(name text) RETURNS boolean AS 'MODULE_PATHNAME', 'sfi_pg_remove' LANGUAGE C STRICT;

-- The state of an aggregate: a pointer in its domain's own terms. Outside of the domain it is only
-- a number, and a forged one harms nobody but the domain.
CREATE TYPE state;
CREATE FUNCTION state_in(cstring) RETURNS state AS 'int8in' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION state_out(state) RETURNS cstring AS 'int8out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE state (INPUT = state_in, OUTPUT = state_out, LIKE = int8);

-- The functions of the language, and the domains of this backend.
CREATE VIEW functions AS
    SELECT p.oid::regprocedure AS function, p.proowner::regrole AS owner,
           regexp_replace(p.prosrc, ':[^:]*$', '') AS library,
           CASE WHEN p.prosrc LIKE '%:%' THEN regexp_replace(p.prosrc, '^.*:', '') ELSE p.proname END AS symbol
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE l.lanname = 'sfi';
GRANT SELECT ON functions TO PUBLIC;
CREATE FUNCTION stats(OUT library text, OUT role regrole, OUT digest text, OUT calls bigint, OUT faults bigint)
    RETURNS SETOF record AS 'MODULE_PATHNAME', 'sfi_pg_stats' LANGUAGE C STRICT;
GRANT USAGE ON SCHEMA sfi TO PUBLIC;
