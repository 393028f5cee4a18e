-- The tables. A backend's time of a form is the median of its rounds, and its quotient is that time
-- and the one of native C. All figures are medians of backends.
\pset footer off
\echo All forms find the same:
SELECT q.name AS query, count(DISTINCT found) = 1 AS same, max(found) AS found
FROM samples s JOIN queries q ON q.place = s.query GROUP BY q.place, q.name ORDER BY q.place;
CREATE VIEW medians AS
    SELECT query, form, backend, percentile_cont(0.5) WITHIN GROUP (ORDER BY ns) AS ns, max(crossings) AS crossings
    FROM samples WHERE round > 0 GROUP BY 1, 2, 3;
CREATE VIEW results AS
    SELECT m.query, m.form, percentile_cont(0.5) WITHIN GROUP (ORDER BY m.ns) AS ns,
           percentile_cont(ARRAY[0.5, 0.25, 0.75]) WITHIN GROUP (ORDER BY m.ns / n.ns - 1) AS more,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY m.ns - n.ns) AS added, max(m.crossings) AS crossings
    FROM medians m JOIN medians n USING (query, backend) WHERE n.form = 'native' GROUP BY 1, 2;
CREATE FUNCTION percent(share float8) RETURNS text LANGUAGE sql AS $$ SELECT to_char(100 * share, 'FM9999990.0') || '%' $$;
\echo Processor time, ms, more than native C, and the quartiles of the backends:
SELECT q.name AS query, form, (ns / 1e6)::numeric(12, 1) AS ms, percent(more[1]) AS more,
       percent(more[2]) || ' to ' || percent(more[3]) AS quartiles
FROM results r JOIN queries q ON q.place = r.query JOIN forms f ON f.name = r.form WHERE form <> 'native' OR ns > 0 ORDER BY q.place, f.place;
\echo Nanoseconds of native C for each call, and of a call more than native C:
SELECT q.name AS query, w.crossings AS calls, (n.ns / w.crossings)::int AS native, (w.added / w.crossings)::int AS write,
       (i.added / w.crossings)::int AS "in place", (f.added / w.crossings)::int AS "full",
       (w1.added / w.crossings)::int AS "write, one by one", (f1.added / w.crossings)::int AS "full, one by one"
FROM queries q JOIN results n ON n.query = q.place AND n.form = 'native' JOIN results w ON w.query = q.place AND w.form = 'write'
    JOIN results i ON i.query = q.place AND i.form = 'place' JOIN results f ON f.query = q.place AND f.form = 'full'
    JOIN results w1 ON w1.query = q.place AND w1.form = 'write1' JOIN results f1 ON f1.query = q.place AND f1.form = 'full1'
ORDER BY q.place;
\echo The share of wall-clock time in domains, with the crossings and a clock:
SELECT q.name AS query, form, percent(inside / wall) AS inside
FROM samples s JOIN queries q ON q.place = s.query WHERE round = -1 ORDER BY q.place, 2 DESC;
\echo Table 3:
SELECT q.name AS query, percent(w.more[1]) AS write, percent(i.more[1]) AS "in place", percent(f.more[1]) AS "full",
       percent(w1.more[1]) AS "write, one by one", percent(f1.more[1]) AS "full, one by one", percent(m.more[1]) AS wasm,
       w.crossings AS calls, to_char(100 * p.more[1], 'FM999990') || '%' AS process,
       (p.more[1] / greatest(w.more[1], 0.0001))::numeric(10, 1) AS "process / write"
FROM queries q JOIN results w ON w.query = q.place AND w.form = 'write' JOIN results f ON f.query = q.place AND f.form = 'full'
    JOIN results i ON i.query = q.place AND i.form = 'place'
    JOIN results w1 ON w1.query = q.place AND w1.form = 'write1' JOIN results f1 ON f1.query = q.place AND f1.form = 'full1' LEFT JOIN results p ON p.query = q.place AND p.form = 'process'
    LEFT JOIN results m ON m.query = q.place AND m.form = 'wasm'
ORDER BY q.place;
