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
