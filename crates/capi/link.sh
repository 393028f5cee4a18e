#!/bin/sh
# Links the shared library from the static one: its name for programs is libsfi.so.0, and the
# functions that sfi.h declares have the version SFI_0. A function that changes keeps its old
# version beside a new one. A library that breaks old programs gets another name.
#
#     link.sh libsfi.a sfi.h libsfi.so.0
set -eu
archive=$1 header=$2 output=$3
functions=$(sed -n 's/^SFI_API .*[ *]\(sfi_[a-z0-9_]*\)(.*/\1/p' "$header")
map=$(mktemp)
trap 'rm -f "$map"' EXIT
{
    echo 'SFI_0 { global:'
    for function in $functions; do echo "    $function;"; done
    echo 'local: *; };'
} > "$map"
set --
for function in $functions; do set -- "$@" "-Wl,-u,$function"; done
${CC:-cc} -shared -o "$output" "$@" "$archive" -Wl,-soname,libsfi.so.0 \
    "-Wl,--version-script=$map" -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,relro,-z,now,-z,noexecstack \
    -lgcc_s -lpthread -lm -ldl -lc
