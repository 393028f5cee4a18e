-- The queries with each form of the functions. table3.sh calls the procedure `rounds` in one
-- backend after the other, so that no single layout of memory decides.
CREATE TABLE queries (place int PRIMARY KEY, name text, counts bool, text text);
-- The four queries of the paper count the rows that they find.
INSERT INTO queries VALUES
    (1, '6', true, 'SELECT count(*) FROM polygons WHERE {f}_overlaps({p}, {box})'),
    (2, '7', true, 'SELECT count(*) FROM polygons WHERE {f}_size({p}) > 0.2 AND {f}_within({p}, {center}, 200)'),
    (3, '8', true, 'SELECT count(*) FROM polygons, points WHERE name = ''point 500'' AND {f}_overlaps({p}, {f}_square({l}, 50))'),
    (4, '10', true, 'SELECT count(*) FROM points, polygons WHERE landuse = 7 AND {f}_contains({p}, {l})');
-- The others do something with them: make the text for a client, or fill a table.
INSERT INTO queries VALUES
    (5, '6, text', false, 'COPY (SELECT landuse, p FROM polygons WHERE {f}_overlaps({p}, {box})) TO ''/dev/null'''),
    (6, '6, table', false, 'INSERT INTO found SELECT landuse, NULL, p FROM polygons WHERE {f}_overlaps({p}, {box})'),
    (7, '7, text', false, 'COPY (SELECT landuse, p FROM polygons WHERE {f}_size({p}) > 0.2 AND {f}_within({p}, {center}, 200)) TO ''/dev/null'''),
    (8, '8, text', false, 'COPY (SELECT landuse, p FROM polygons, points WHERE name = ''point 500'' AND {f}_overlaps({p}, {f}_square({l}, 50))) TO ''/dev/null'''),
    (9, '10, table', false, 'INSERT INTO found SELECT landuse, name, p FROM points, polygons WHERE landuse = 7 AND {f}_contains({p}, {l})'),
    (10, 'all sizes', false, 'SELECT count({f}_size({p})) FROM polygons'),
    (11, 'all sizes, text', false, 'COPY (SELECT landuse, p, {f}_size({p}) FROM polygons) TO ''/dev/null'''),
    (12, 'all sizes, table', false, 'INSERT INTO found SELECT landuse, NULL, NULL, {f}_size({p}) FROM polygons');
CREATE UNLOGGED TABLE found (landuse int, name text, p polygon, size float8);
-- `functions`: the prefix of its functions, and their library. `batch`: sfi.batch, NULL for 64.
CREATE TABLE forms (place int PRIMARY KEY, name text, compiled bool, slow bool, functions text, batch text);
INSERT INTO forms VALUES (0, 'native', true, false, 'native'), (1, 'write', true, false, 'write'), (2, 'place', true, false, 'place'),
    (3, 'full', true, false, 'full'), (5, 'process', true, true, 'process'), (6, 'plpgsql', false, true, 'plpgsql');
INSERT INTO forms VALUES (8, 'write1', true, false, 'write', '0'), (9, 'full1', true, false, 'full', '0');
\if :python
INSERT INTO forms VALUES (7, 'plpython', false, true, 'plpython');
\endif
\if :wasm
INSERT INTO forms VALUES (4, 'wasm', true, false, 'wasm');
\endif
CREATE FUNCTION text_of(query text, form forms) RETURNS text LANGUAGE sql AS $$
    SELECT replace(replace(replace(replace(replace(query, '{f}', form.functions), '{p}', CASE WHEN form.compiled THEN 'p' ELSE 'a' END),
        '{l}', CASE WHEN form.compiled THEN 'l' ELSE 'c' END),
        '{box}', CASE WHEN form.compiled THEN 'box ''(600,600),(400,400)''' ELSE '''{600,600,400,400}''::float8[]' END),
        '{center}', CASE WHEN form.compiled THEN 'point ''(500,500)''' ELSE '''{500,500}''::float8[]' END) $$;
CREATE TABLE samples (query int, form text, backend int, round int, ns float8, wall float8, found bigint, crossings bigint, inside bigint);
CREATE FUNCTION counted(form text, OUT crossings bigint, OUT inside bigint) LANGUAGE sql AS
    'SELECT coalesce(sum(s.calls), 0), coalesce(sum(s.nanoseconds), 0) FROM sfi.stats() s WHERE s.library = form';
CREATE PROCEDURE sample(q queries, f forms, backend int, round int) LANGUAGE plpgsql AS $$
DECLARE start bigint; time bigint; found bigint; watch timestamptz; wall float8; before record; after record;
BEGIN
    TRUNCATE found;
    IF f.batch IS NOT NULL THEN PERFORM set_config('sfi.batch', f.batch, true); END IF;
    before := counted(f.functions);
    watch := clock_timestamp();
    start := cpu_ns();
    IF q.text LIKE 'SELECT%' THEN EXECUTE text_of(q.text, f) INTO found;
    ELSE
        EXECUTE text_of(q.text, f);
        GET DIAGNOSTICS found = ROW_COUNT;
    END IF;
    time := cpu_ns() - start;
    wall := extract(epoch FROM clock_timestamp() - watch) * 1e9;
    after := counted(f.functions);
    IF f.batch IS NOT NULL THEN SET LOCAL sfi.batch TO DEFAULT; END IF;
    INSERT INTO samples VALUES (q.place, f.name, backend, round, time, wall, found, after.crossings - before.crossings, after.inside - before.inside);
END $$;
-- Takes samples in this backend. Round 0 loads the libraries and does not count. The forms of a
-- query are in turn, in another order in each round.
CREATE PROCEDURE rounds(backend int, last int) LANGUAGE plpgsql AS $$
DECLARE q queries; f forms;
BEGIN
    FOR round IN 0..last LOOP
        FOR q IN SELECT * FROM queries WHERE round > 0 OR counts ORDER BY place LOOP
            FOR f IN SELECT * FROM forms WHERE NOT slow ORDER BY hashint8extended(place, backend * 16 + round) LOOP
                CALL sample(q, f, backend, round);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
-- The slow forms once, for the paper's queries.
CREATE PROCEDURE slow_forms() LANGUAGE plpgsql AS $$
DECLARE q queries; f forms;
BEGIN
    FOR q IN SELECT * FROM queries WHERE counts ORDER BY place LOOP
        FOR f IN SELECT * FROM forms WHERE slow ORDER BY place LOOP CALL sample(q, f, 1, 1); END LOOP;
    END LOOP;
END $$;
-- Once more with a clock around each call.
CREATE PROCEDURE with_clock() LANGUAGE plpgsql AS $$
DECLARE q queries; f forms;
BEGIN
    PERFORM set_config('sfi.timing', 'on', false);
    FOR q IN SELECT * FROM queries ORDER BY place LOOP
        FOR f IN SELECT * FROM forms WHERE name IN ('write', 'place', 'full') LOOP CALL sample(q, f, 0, -1); END LOOP;
    END LOOP;
END $$;
