#!/bin/sh
# How fast ranks on this machine exchange bytes, synchronise and connect. The machine should have nothing else to do.
# usage: ranks.sh [BUILD]      environment: MIB=256 REPEATS=11
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
"${1:-$top/build}/native/tests/bench/ranks_bench" "${MIB:-256}" "${REPEATS:-11}"
