\echo Use "ALTER EXTENSION sfi UPDATE" to load this file. \quit

-- What the libraries of a role may do besides computing: `spi` is to read with SQL, and `spi write`
-- is to change something too.
CREATE TABLE rights (
    role regrole,
    name text CHECK (name IN ('spi', 'spi write')),
    PRIMARY KEY (role, name)
);
REVOKE ALL ON rights FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('rights', '');

CREATE FUNCTION sfi.grant(role regrole, name text) RETURNS void LANGUAGE sql
    SET search_path = pg_catalog, pg_temp
    AS 'INSERT INTO sfi.rights VALUES ($1, $2) ON CONFLICT DO NOTHING';
CREATE FUNCTION sfi.revoke(role regrole, name text) RETURNS void LANGUAGE sql
    SET search_path = pg_catalog, pg_temp
    AS 'DELETE FROM sfi.rights r WHERE r.role = $1 AND r.name = $2';
REVOKE ALL ON FUNCTION sfi.grant(regrole, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION sfi.revoke(regrole, text) FROM PUBLIC;

-- The counts of all backends, if sfi is in shared_preload_libraries.
CREATE FUNCTION all_stats(OUT library text, OUT role regrole, OUT calls bigint, OUT crossings bigint,
                          OUT nanoseconds bigint, OUT faults bigint)
    RETURNS SETOF record AS 'MODULE_PATHNAME', 'sfi_pg_all_stats' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION all_stats() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION all_stats() TO pg_read_all_stats;
-- Roles whose libraries had faults, and the end of their penalty.
CREATE FUNCTION penalties(OUT owner regrole, OUT faults bigint, OUT last timestamptz, OUT until timestamptz)
    RETURNS SETOF record AS 'MODULE_PATHNAME', 'sfi_pg_penalties' LANGUAGE C STRICT;
CREATE FUNCTION forgive(role regrole) RETURNS void AS 'MODULE_PATHNAME', 'sfi_pg_forgive' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION forgive(regrole) FROM PUBLIC;
