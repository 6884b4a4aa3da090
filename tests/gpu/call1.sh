#!/bin/bash
# The first of two calls on a borrowed machine with a GPU: does it compute the right bits, and how fast? README.md has
# the minutes and the decisions.
# usage: call1.sh      OUT=DIR: an archive of each part, at most seven, is written there; MINUTES=9.3 of a limit of ten
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export KEEP=${OUT:?a folder for the archives is needed} MINUTES=${MINUTES:-9.3}
export AFTER_FAILED_OPS=${AFTER_FAILED_OPS:-sanitizer bits capture tensor}
cd "$(mktemp -d)" || exit 1
PATH=$PATH:/usr/local/nvidia/bin
# shellcheck source=common.sh
. "$top/tests/gpu/common.sh"
smi() { # SECONDS OPTION...
    command -v nvidia-smi >/dev/null || return 0
    bounded $(($1 * 1000)) nvidia-smi "${@:2}" >smi.txt 2>&1 || echo "nvidia-smi: status $?"
}
smi 20 --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit,temperature.gpu --format=csv,noheader
[ ! -s smi.txt ] || head -n 8 smi.txt | cut -c 1-200
status=0
"$top/tests/gpu/check.sh" "$top/repro" ops tensor bits train bundle speed peers || status=$?
# A driver that hung once may not answer again, and everything is printed by now.
if [ "$left_behind" = 0 ] && ! grep -qs '"end": "hang"' gpu-check/result.json; then
    smi 10 -q -d PERFORMANCE
    grep -sE ': Active$' smi.txt | sed 's/^ */throttled: /' | head -n 8
fi
[ $status != 1 ] || dmesg 2>/dev/null | grep -i xid | tail -n 3 | cut -c 1-200
exit $status
