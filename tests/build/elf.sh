#!/bin/bash
# The program is what it says: a small, stripped, static PIE with read-only relocations and no executable stack.
set -eu
bad=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    "$@" || { echo "$what" && bad=1; }
}
# shellcheck disable=SC2317 # check calls it
none() { ! grep -qE "$1" "$2"; }
readelf -hW "$REPRO" >header
readelf -lW "$REPRO" >segments
readelf -dW "$REPRO" >dynamic
readelf -SW "$REPRO" >sections
check "not ET_DYN" grep -qE 'Type: +DYN' header
check "not a PIE by its flags" grep -qE 'FLAGS_1.*PIE' dynamic
check "has an interpreter" none INTERP segments
check "needs a library" none NEEDED dynamic
check "has an RPATH or RUNPATH" none 'RPATH|RUNPATH' dynamic
check "has text relocations" none TEXTREL dynamic
check "no RELRO segment" grep -q GNU_RELRO segments
check "not bound at start" grep -q BIND_NOW dynamic
check "stack segment missing" grep -q GNU_STACK segments
check "executable stack" grep -qE 'GNU_STACK .* RW +0x' segments
check "a segment is writable and executable" none 'LOAD .* RWE' segments
check "not stripped" none '\.symtab|\.debug_' sections
check "has a build id" none 'note\.gnu\.build-id' sections
check "no stack protector" sh -c 'nm "$BUILD/static/repro" | grep -q " [tT] __stack_chk_fail$"'
objects=$(find "$BUILD/static/src" -name '*.o')
# shellcheck disable=SC2086
[ "$(nm -A $objects | grep -c ' U __stack_chk_fail$')" -gt 10 ] || { echo "our objects do not use the stack protector" && bad=1; }
size=$(stat -c %s "$REPRO")
# The GPU worker with kernels for eight architectures and PTX takes 8 MiB of 18.4; with all of mixed precision at most 24 MB are allowed.
if "$REPRO" version --json | grep -q '"gpu_worker": {'; then most=22; else most=11; fi
[ "$size" -le $((most << 20)) ] || { echo "$size bytes, more than $most MiB" && bad=1; }
exit $bad
