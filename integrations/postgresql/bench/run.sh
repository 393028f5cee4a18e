#!/bin/bash
# Measures calls natively, in domains and in PL/pgSQL. test/run.sh --exec runs it on its server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
gcc -O2 -fPIC -shared -I"$("$pg_config" --includedir-server)" -o "$PGHOST/native.so" "$here/native.c"
gcc -O2 -g -fPIC -I"$here/../include" -c -o "$PGHOST/plugin.o" "$here/plugin.c"
chmod 755 "$PGHOST/native.so" "$PGHOST/plugin.o"
"$SFI_PG_BIN/psql" -X -q -v native="$PGHOST/native" -v object="$PGHOST/plugin.o" -f "$here/bench.sql"
