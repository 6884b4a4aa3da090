#!/bin/bash
# The first of two calls on a borrowed machine with a GPU: does it compute the right bits, and how fast? README.md has
# the minutes and the decisions.
# usage: call1.sh      OUT=DIR: an archive of each part, at most six, is written there; MINUTES=9.3 of a limit of ten
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export KEEP=${OUT:?a folder for the archives is needed} MINUTES=${MINUTES:-9.3}
export AFTER_FAILED_OPS="sanitizer bits capture"
cd "$(mktemp -d)" || exit 1
PATH=$PATH:/usr/local/nvidia/bin
smi() { # SECONDS OPTION...
    command -v nvidia-smi >/dev/null && timeout -k 2 "$1" nvidia-smi "${@:2}"
}
smi 20 --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit,temperature.gpu --format=csv,noheader
status=0
"$top/tests/gpu/check.sh" "$top/repro" ops bits train bundle speed peers || status=$?
smi 10 -q -d PERFORMANCE | grep -E ': Active$' | sed 's/^ */throttled: /'
[ $status != 1 ] || dmesg 2>/dev/null | grep -i xid | tail -n 3
exit $status
