\echo Use "ALTER EXTENSION sfi UPDATE" to load this file. \quit

-- Crossings and times beside the calls and faults of this backend's domains.
DROP FUNCTION stats();
CREATE FUNCTION stats(OUT library text, OUT role regrole, OUT digest text, OUT calls bigint, OUT faults bigint,
                      OUT crossings bigint, OUT nanoseconds bigint)
    RETURNS SETOF record AS 'MODULE_PATHNAME', 'sfi_pg_stats' LANGUAGE C STRICT;
CREATE VIEW statistics AS SELECT library, role, calls, crossings, nanoseconds, faults FROM stats();
GRANT SELECT ON statistics TO PUBLIC;
