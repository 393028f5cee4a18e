#!/bin/bash
# Runs the tests of the extension on a server of their own:
#
#     test/run.sh SFI LIBSFI [TEST...]
#     test/run.sh SFI LIBSFI [--preload] --exec COMMAND...
#
# The server is a copy of the installed PostgreSQL in a temporary folder, with the extension in it,
# on a socket there. Nothing of the system is changed. As root the server runs as the user postgres.
# Environment: SFI_PG_KEEP=1 keeps the folder, SFI_PG_ACCEPT=1 takes the output as the expected
# one, SFI_PG_CALLS is the number of calls of the test for leaks.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
sfi=$(realpath "$1") libsfi=$(realpath "$2")
shift 2
pg_config=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
[ -x "$pg_config" ] || { echo "no pg_config at $pg_config: install postgresql-server-dev-15" >&2; exit 2; }
bin=$("$pg_config" --bindir) share=$("$pg_config" --sharedir) lib=$("$pg_config" --pkglibdir)
[ -x "$bin/initdb" ] || { echo "no server at $bin: install postgresql-15" >&2; exit 2; }

top=$(mktemp -d /tmp/sfi-postgres-XXXXXX)
as_user() { "$@"; }
if [ "$(id -u)" = 0 ]; then as_user() { setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }; fi
cleanup() {
    code=$?
    [ -f "$top/data/postmaster.pid" ] && as_user "$top$bin/pg_ctl" -D "$top/data" -m immediate -w stop >/dev/null 2>&1
    if [ -n "${SFI_PG_KEEP:-}" ]; then echo "kept $top"; else rm -rf "$top"; fi
    exit $code
}
trap cleanup EXIT

# The server finds its folders relative to its program.
mkdir -p "$top$bin" "$top$lib" "$top$share" "$top/objects" "$top/work"
cp -L "$bin"/{postgres,initdb,pg_ctl,psql,pgbench,pg_dump} "$top$bin/"
cp -rsT "$lib" "$top$lib"
cp -rsT "$share" "$top$share"
cp "$sfi" "$top/sfi"
build="$top/build"
mkdir -p "$build"
cp -r "$here"/{Makefile,sfi.control,sfi--1.0.sql,sfi--1.0--1.1.sql,sfi--1.1--1.2.sql,sfi--1.2--1.3.sql,sfi--1.3--1.4.sql,src,include} "$build/"
make -s -C "$build" ROOT="$here/../.." SFI="$top/sfi" LIBSFI="$libsfi" PG_CONFIG="$pg_config" with_llvm=no \
    COPT="-Werror=implicit-function-declaration" DESTDIR="$top" install >"$top/make.log" 2>&1 || { cat "$top/make.log"; exit 1; }
for source in "$here"/test/objects/*.c; do
    (cd "$here/test/objects" && gcc -O2 -g -fPIC -Wall -Wno-infinite-recursion -ffile-prefix-map="$here/test/objects=objects" \
        -I"$here/include" -c -o "$top/objects/$(basename "$source" .c).o" "$(basename "$source")")
done
ar rcs "$top/objects/both.a" "$top/objects/honest.o" "$top/objects/hostile.o"
if [ "$(id -u)" = 0 ]; then chown -R postgres "$top"; fi
chmod 755 "$top"

as_user "$top$bin/initdb" -D "$top/data" --no-locale --encoding=UTF8 --no-sync -U postgres >"$top/initdb.log" 2>&1 ||
    { cat "$top/initdb.log"; exit 1; }
cat >>"$top/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$top'
fsync = off
sfi.directories = '$top/objects'
END
if [ "${1:-}" = --preload ]; then
    shift
    echo "shared_preload_libraries = 'sfi'" >>"$top/data/postgresql.conf"
fi
as_user "$top$bin/pg_ctl" -D "$top/data" -l "$top/log" -w start >/dev/null || { cat "$top/log"; exit 1; }
export PGHOST="$top" PGUSER=postgres PGDATABASE=regress PGTZ=UTC SFI_PG_BIN="$top$bin"
as_user "$top$bin/psql" -q -d postgres -c 'CREATE DATABASE regress'

if [ "${1:-}" = --exec ]; then
    shift
    "$@"
    exit
fi
[ $# -gt 0 ] || set -- honest hostile stranger places batch batch_hostile span query upkeep shared
# The tests build on each other: the first makes the extension and its functions.
passed=0 failed=0
for test in "$@"; do
    # Types need both, and the last test begins with counts of its own.
    if [ "$test" = span ] || [ "$test" = shared ]; then
        printf "shared_preload_libraries = 'sfi'\njit = off\n" >>"$top/data/postgresql.conf"
        as_user "$top$bin/pg_ctl" -D "$top/data" -l "$top/log" -w restart >/dev/null || { cat "$top/log"; exit 1; }
    fi
    # Offsets within functions are the compiler's choice.
    { as_user "$top$bin/psql" -X -a -q -v calls="${SFI_PG_CALLS:-100000}" <"$here/test/sql/$test.sql" 2>&1 || true; } |
        sed -E 's/`([a-z_]+)(\.cold)?`\+0x[0-9a-f]+/`\1`/; s/--> object: \.text\+0x[0-9a-f]+/--> object: .text/; s/: ([a-z_]+)(\.cold)?\+0x[0-9a-f]+/: \1/; s/^(.*function [a-z_]+)\.cold /\1 /' \
            >"$top/work/$test.out"
    if diff -u "$here/test/expected/$test.out" "$top/work/$test.out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        [ -n "${SFI_PG_ACCEPT:-}" ] && cp "$top/work/$test.out" "$here/test/expected/$test.out"
    fi
done
if grep -E 'PANIC|terminated by signal|server process .* was terminated' "$top/log"; then
    echo "the server lost a process"
    failed=$((failed + 1))
fi
result=ok
[ $failed = 0 ] || result=FAILED
echo "test result: $result. $passed passed; $failed failed"
[ $failed = 0 ]
