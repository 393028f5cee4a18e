#!/bin/bash
# Table 3 of Wahbe et al. on this machine. test/run.sh --exec runs it on its server. SFI_PG_ROUNDS:
# rounds of the fast columns, 9 by default.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
gcc -O2 -fPIC -shared -I"$("$pg_config" --includedir-server)" -o "$PGHOST/table3.so" "$here/native.c" "$here/polygons.c"
gcc -O2 -g -fPIC -c -o "$PGHOST/polygons.o" "$here/polygons.c"
chmod 755 "$PGHOST/table3.so" "$PGHOST/polygons.o"
"$SFI_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -v native="$PGHOST/table3" -v object="$PGHOST/polygons.o" \
    -v rounds="${SFI_PG_ROUNDS:-9}" -f "$here/functions.sql" -f "$here/tables.sql" -f "$here/measure.sql"
