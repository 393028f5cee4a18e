-- Tables like POLYGON and POINT of the Sequoia 2000 benchmark (Stonebraker et al. 1993), generated.
-- The number of polygons is that of the calls of query 6 in the paper, 60,989. All other numbers
-- are choices: 25 vertices on average with an exponential tail up to 400, a region of 1000 x 1000,
-- 43 kinds of land use, and 1000 points, so that query 10 makes about as many calls as the paper's.
CREATE FUNCTION draw(bigint, bigint) RETURNS float8 LANGUAGE sql IMMUTABLE
    AS 'SELECT (hashint8extended($1, $2) & 1048575) / 1048576.0::float8';
CREATE TABLE polygons AS
    WITH seeds AS (
        SELECT g AS id, (draw(g, 1) * 43)::int AS landuse, draw(g, 2) * 1000 AS x, draw(g, 3) * 1000 AS y,
               least(400, 4 + floor(-ln(1 - draw(g, 4)) * 21))::int AS n, 0.5 + 4 * draw(g, 5) AS r
        FROM generate_series(1, 60989) g)
    SELECT id, landuse, string_agg(x + r * (0.6 + 0.4 * draw(id * 512 + k, 6)) * cos(k * 6.283185307 / n) || ',' ||
                                   y + r * (0.6 + 0.4 * draw(id * 512 + k, 6)) * sin(k * 6.283185307 / n), ',' ORDER BY k) AS numbers
    FROM seeds, LATERAL generate_series(0, n - 1) k GROUP BY id, landuse;
ALTER TABLE polygons ADD p polygon, ADD a float8[];
UPDATE polygons SET a = string_to_array(numbers, ',')::float8[], p = numbers::polygon;
ALTER TABLE polygons DROP numbers;
CREATE TABLE points AS
    SELECT 'point ' || g AS name, point(draw(g, 7) * 1000, draw(g, 8) * 1000) AS l,
           ARRAY[draw(g, 7) * 1000, draw(g, 8) * 1000] AS c
    FROM generate_series(1, 1000) g;
VACUUM FULL ANALYZE polygons, points;
