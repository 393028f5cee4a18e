\echo Use "ALTER EXTENSION sfi UPDATE" to load this file. \quit

-- Images of libraries that backends have in common: how many hold one open (at most four are
-- counted), and how often a backend took one that another had verified.
CREATE FUNCTION images(OUT role regrole, OUT holders int, OUT taken bigint)
    RETURNS SETOF record AS 'MODULE_PATHNAME', 'sfi_pg_images' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION images() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION images() TO pg_read_all_stats;
