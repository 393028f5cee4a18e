-- Queries 6, 7, 8 and 10 with each form of the functions, in turn in each round.
CREATE TABLE queries (number int PRIMARY KEY, text text);
INSERT INTO queries VALUES
    (6, 'SELECT count(*) FROM polygons WHERE {f}_overlaps({p}, {box})'),
    (7, 'SELECT count(*) FROM polygons WHERE {f}_size({p}) > 0.2 AND {f}_within({p}, {center}, 200)'),
    (8, 'SELECT count(*) FROM polygons, points WHERE name = ''point 500'' AND {f}_overlaps({p}, {f}_square({l}, 50))'),
    (10, 'SELECT count(*) FROM points, polygons WHERE landuse = 7 AND {f}_contains({p}, {l})');
CREATE TABLE forms (name text PRIMARY KEY, compiled bool, slow bool);
INSERT INTO forms VALUES ('native', true, false), ('write', true, false), ('place', true, false), ('full', true, false), ('process', true, true), ('plpgsql', false, true);
\if :python
INSERT INTO forms VALUES ('plpython', false, true);
\endif
\if :wasm
INSERT INTO forms VALUES ('wasm', true, false);
\endif
CREATE FUNCTION text_of(query text, form forms) RETURNS text LANGUAGE sql AS $$
    SELECT replace(replace(replace(replace(replace(query, '{f}', form.name), '{p}', CASE WHEN form.compiled THEN 'p' ELSE 'a' END),
        '{l}', CASE WHEN form.compiled THEN 'l' ELSE 'c' END),
        '{box}', CASE WHEN form.compiled THEN 'box ''(600,600),(400,400)''' ELSE '''{600,600,400,400}''::float8[]' END),
        '{center}', CASE WHEN form.compiled THEN 'point ''(500,500)''' ELSE '''{500,500}''::float8[]' END) $$;
CREATE TABLE samples (query int, form text, round int, ns float8, wall float8, found bigint, crossings bigint, inside bigint);
CREATE FUNCTION counted(form text, OUT crossings bigint, OUT inside bigint) LANGUAGE sql AS
    'SELECT coalesce(sum(s.crossings), 0), coalesce(sum(s.nanoseconds), 0) FROM sfi.stats() s WHERE s.library = form';
CREATE PROCEDURE sample(q queries, f forms, round int) LANGUAGE plpgsql AS $$
DECLARE start bigint; time bigint; found bigint; watch timestamptz; wall float8; before record; after record;
BEGIN
    before := counted(f.name);
    watch := clock_timestamp();
    start := cpu_ns();
    EXECUTE text_of(q.text, f) INTO found;
    time := cpu_ns() - start;
    wall := extract(epoch FROM clock_timestamp() - watch) * 1e9;
    after := counted(f.name);
    INSERT INTO samples VALUES (q.number, f.name, round, time, wall, found, after.crossings - before.crossings, after.inside - before.inside);
END $$;
CREATE PROCEDURE rounds(last int) LANGUAGE plpgsql AS $$
DECLARE q queries; f forms;
BEGIN
    FOR round IN 0..last LOOP
        FOR q IN SELECT * FROM queries ORDER BY number LOOP
            FOR f IN SELECT * FROM forms WHERE NOT slow OR round = 1 LOOP CALL sample(q, f, round); END LOOP;
        END LOOP;
    END LOOP;
END $$;
-- Round 0 loads the libraries and does not count.
CALL rounds(:rounds);
-- Once more with a clock around each call.
SET sfi.timing = on;
DO $$
DECLARE q queries; f forms;
BEGIN
    FOR q IN SELECT * FROM queries ORDER BY number LOOP
        FOR f IN SELECT * FROM forms WHERE name IN ('write', 'place', 'full') LOOP CALL sample(q, f, -1); END LOOP;
    END LOOP;
END $$;
\pset footer off
\echo All forms find the same:
SELECT query, count(DISTINCT found) = 1 AS same, max(found) AS found FROM samples GROUP BY 1 ORDER BY 1;
CREATE VIEW results AS
    SELECT s.query, s.form, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.ns) AS ns,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY s.ns / n.ns) - 1 AS more, max(s.crossings) AS crossings
    FROM samples s JOIN samples n USING (query, round) WHERE n.form = 'native' AND round > 0 GROUP BY 1, 2;
\echo Processor time, ms, and more than native C:
SELECT query, form, (ns / 1e6)::numeric(12, 1) AS ms, to_char(100 * more, 'FM9999990.0') || '%' AS more
FROM results ORDER BY 1, array_position('{native,write,place,full,wasm,process,plpgsql,plpython}', form);
\echo Crossings, and the share of wall-clock time in domains, with the crossings and a clock:
SELECT s.query, s.form, s.crossings, to_char(100 * s.inside / s.wall, 'FM990.0') || '%' AS inside
FROM samples s WHERE round = -1 ORDER BY 1, 2 DESC;
\echo Table 3:
SELECT w.query, to_char(100 * w.more, 'FM9990.0') || '%' AS write,
       to_char(100 * i.more, 'FM9990.0') || '%' AS "in place", to_char(100 * f.more, 'FM9990.0') || '%' AS "full",
       to_char(100 * m.more, 'FM9990.0') || '%' AS wasm, w.crossings,
       to_char(100 * p.more, 'FM999990') || '%' AS process, (p.more / greatest(w.more, 0.0001))::numeric(10, 1) AS "process / write"
FROM results w JOIN results f USING (query) JOIN results i USING (query) JOIN results p USING (query)
    LEFT JOIN results m ON m.query = w.query AND m.form = 'wasm'
WHERE w.form = 'write' AND i.form = 'place' AND f.form = 'full' AND p.form = 'process' ORDER BY 1;
