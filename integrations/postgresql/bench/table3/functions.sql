-- The functions in all forms, IMMUTABLE as they are. No call has constants only, so none is folded.
-- The interpreted languages get the points as float8[].
CREATE EXTENSION sfi;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SELECT set_config('table3.native', :'native', false), set_config('table3.object', :'object', false),
    set_config('table3.compiled', CASE WHEN :'wasm' = 'true' THEN '{native,wasm,process,write,place,full}' ELSE '{native,process,write,place,full}' END, false) \gset
CREATE FUNCTION cpu_ns() RETURNS bigint AS :'native' LANGUAGE C STRICT;
SET sfi.mode = write;
SELECT sfi.install('write', pg_read_binary_file(:'object')) \gset
SELECT sfi.install('place', pg_read_binary_file(:'place')) \gset
SET sfi.mode = full;
SELECT sfi.install('full', pg_read_binary_file(:'object')) \gset
SET sfi.mode = write;
DO $$
DECLARE who text; what record; clause text;
BEGIN
    FOREACH who IN ARRAY current_setting('table3.compiled')::text[] LOOP
        FOR what IN SELECT * FROM (VALUES
            ('size', 'polygon', 'float8', 1), ('contains', 'polygon, point', 'bool', 10), ('within', 'polygon, point, float8', 'bool', 10),
            ('overlaps', 'polygon, box', 'bool', 10), ('square', 'point, float8', 'box', 1)) v(name, arguments, result, cost)
        LOOP
            clause := CASE WHEN who IN ('native', 'wasm', 'process')
                           THEN format('LANGUAGE C AS %L, %L', current_setting('table3.native'), who || '_' || what.name)
                           ELSE format('LANGUAGE sfi AS %L', who || ':poly_' || what.name) END;
            EXECUTE format('CREATE FUNCTION %s_%s(%s) RETURNS %s IMMUTABLE STRICT COST %s %s', who, what.name, what.arguments, what.result, what.cost, clause);
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION plpgsql_size(a float8[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE s float8 := 0; n int := array_length(a, 1) / 2; j int := n - 1;
BEGIN
    FOR i IN 0..n-1 LOOP s := s + a[2*j+1] * a[2*i+2] - a[2*i+1] * a[2*j+2]; j := i; END LOOP;
    RETURN abs(s) / 2;
END $$;
CREATE FUNCTION plpgsql_contains(a float8[], c float8[]) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT COST 1000 AS $$
DECLARE inside bool := false; n int := array_length(a, 1) / 2; j int := n - 1;
BEGIN
    FOR i IN 0..n-1 LOOP
        IF (a[2*i+2] > c[2]) <> (a[2*j+2] > c[2]) AND
            c[1] < (a[2*j+1] - a[2*i+1]) * (c[2] - a[2*i+2]) / (a[2*j+2] - a[2*i+2]) + a[2*i+1] THEN inside := NOT inside; END IF;
        j := i;
    END LOOP;
    RETURN inside;
END $$;
CREATE FUNCTION plpgsql_within(a float8[], c float8[], r float8) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT COST 1000 AS $$
BEGIN
    FOR i IN 0..array_length(a, 1) / 2 - 1 LOOP
        IF (a[2*i+1] - c[1]) ^ 2 + (a[2*i+2] - c[2]) ^ 2 > r * r THEN RETURN false; END IF;
    END LOOP;
    RETURN true;
END $$;
CREATE FUNCTION plpgsql_square(c float8[], side float8) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE STRICT AS
    'BEGIN RETURN ARRAY[c[1] + side / 2, c[2] + side / 2, c[1] - side / 2, c[2] - side / 2]; END';
CREATE FUNCTION plpgsql_overlaps(a float8[], b float8[]) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT COST 1000 AS $$
DECLARE n int := array_length(a, 1) / 2; j int := n - 1; dx float8; dy float8; low float8; high float8; step float8[]; room float8[];
BEGIN
    FOR i IN 0..n-1 LOOP
        dx := a[2*i+1] - a[2*j+1]; dy := a[2*i+2] - a[2*j+2]; low := 0; high := 1;
        step := ARRAY[-dx, dx, -dy, dy];
        room := ARRAY[a[2*j+1] - b[3], b[1] - a[2*j+1], a[2*j+2] - b[4], b[2] - a[2*j+2]];
        FOR k IN 1..4 LOOP
            IF step[k] = 0 THEN
                IF room[k] < 0 THEN high := -1; END IF;
            ELSIF step[k] < 0 THEN low := greatest(low, room[k] / step[k]);
            ELSE high := least(high, room[k] / step[k]); END IF;
        END LOOP;
        IF low <= high THEN RETURN true; END IF;
        j := i;
    END LOOP;
    RETURN plpgsql_contains(a, b[3:4]);
END $$;

SELECT count(*) > 0 AS python FROM pg_available_extensions WHERE name = 'plpython3u' \gset
\if :python
CREATE EXTENSION plpython3u;
CREATE FUNCTION plpython_size(a float8[]) RETURNS float8 LANGUAGE plpython3u IMMUTABLE STRICT AS $$
n = len(a) // 2; s = 0.0; j = n - 1
for i in range(n):
    s += a[2*j] * a[2*i+1] - a[2*i] * a[2*j+1]; j = i
return abs(s) / 2
$$;
CREATE FUNCTION plpython_contains(a float8[], c float8[]) RETURNS bool LANGUAGE plpython3u IMMUTABLE STRICT COST 1000 AS $$
n = len(a) // 2; inside = False; j = n - 1; x, y = c
for i in range(n):
    if (a[2*i+1] > y) != (a[2*j+1] > y) and x < (a[2*j] - a[2*i]) * (y - a[2*i+1]) / (a[2*j+1] - a[2*i+1]) + a[2*i]:
        inside = not inside
    j = i
return inside
$$;
CREATE FUNCTION plpython_within(a float8[], c float8[], r float8) RETURNS bool LANGUAGE plpython3u IMMUTABLE STRICT COST 1000 AS $$
x, y = c
for i in range(0, len(a), 2):
    if (a[i] - x) ** 2 + (a[i+1] - y) ** 2 > r * r: return False
return True
$$;
CREATE FUNCTION plpython_square(c float8[], side float8) RETURNS float8[] LANGUAGE plpython3u IMMUTABLE STRICT AS $$
return [c[0] + side / 2, c[1] + side / 2, c[0] - side / 2, c[1] - side / 2]
$$;
CREATE FUNCTION plpython_overlaps(a float8[], b float8[]) RETURNS bool LANGUAGE plpython3u IMMUTABLE STRICT COST 1000 AS $$
n = len(a) // 2; j = n - 1
for i in range(n):
    ax, ay = a[2*j], a[2*j+1]; dx, dy = a[2*i] - ax, a[2*i+1] - ay; low, high = 0.0, 1.0
    for step, room in ((-dx, ax - b[2]), (dx, b[0] - ax), (-dy, ay - b[3]), (dy, b[1] - ay)):
        if step == 0:
            if room < 0: high = -1.0
        elif step < 0: low = max(low, room / step)
        else: high = min(high, room / step)
    if low <= high: return True
    j = i
x, y = b[2], b[3]; inside = False; j = n - 1
for i in range(n):
    if (a[2*i+1] > y) != (a[2*j+1] > y) and x < (a[2*j] - a[2*i]) * (y - a[2*i+1]) / (a[2*j+1] - a[2*i+1]) + a[2*i]:
        inside = not inside
    j = i
return inside
$$;
\endif
