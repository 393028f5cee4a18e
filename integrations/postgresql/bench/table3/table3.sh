#!/bin/bash
# Table 3 of Wahbe et al. on this machine. test/run.sh --exec runs it on its server. SFI_PG_ROUNDS:
# backends that measure the fast columns, 9 by default. SFI_PG_FAST=1 leaves out the slow ones.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
include=$("$pg_config" --includedir-server) wasm=false work="$PGHOST/table3.wasm"
sources=("$here/native.c" "$here/polygons.c")
if type clang wasm-ld wasm2c >/dev/null 2>&1; then
    wasm=true
    mkdir -p "$work"
    exports=(size contains within overlaps square)
    clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,--initial-memory=1048576 -Wl,--export=__heap_base \
        "${exports[@]/#/-Wl,--export=poly_}" -o "$work/module.wasm" "$here/polygons.c"
    wasm2c -n polygons -o "$work/module.c" "$work/module.wasm"
    sources+=("$here/wasm.c" "$work/module.c" /usr/share/wabt/wasm2c/wasm-rt-impl.c)
fi
gcc -O2 -w -fPIC -shared -I"$include" -I"$work" -I/usr/share/wabt/wasm2c -o "$PGHOST/table3.so" "${sources[@]}"
gcc -O2 -g -fPIC -c -o "$PGHOST/polygons.o" "$here/polygons.c"
echo '#include "sfi_pg.h"
SFI_READS_IN_PLACE' | gcc -O2 -fPIC -I"$here/../../include" -x c -c -o "$PGHOST/promise.o" -
ld -r -o "$PGHOST/place.o" "$PGHOST/polygons.o" "$PGHOST/promise.o"
chmod 755 "$PGHOST/table3.so" "$PGHOST/polygons.o" "$PGHOST/place.o"
sql() { "$SFI_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 "$@"; }
sql -v native="$PGHOST/table3" -v object="$PGHOST/polygons.o" -v place="$PGHOST/place.o" -v wasm="$wasm" \
    -f "$here/functions.sql" -f "$here/tables.sql" -f "$here/measure.sql"
settings='-c jit=off -c max_parallel_workers_per_gather=0 -c sfi.mode=write -c sfi.batch=64'
for ((backend = 1; backend <= ${SFI_PG_ROUNDS:-9}; backend++)); do
    PGOPTIONS=$settings sql -c "CALL rounds($backend, 2)"
done
if [ -z "${SFI_PG_FAST:-}" ]; then PGOPTIONS=$settings sql -c 'CALL slow_forms()'; fi
PGOPTIONS=$settings sql -c 'CALL with_clock()'
sql -f "$here/report.sql"
