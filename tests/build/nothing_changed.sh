#!/bin/bash
# `make` with nothing to do prints nothing and starts few programs: tests/bench/limits.sh has the limit in seconds.
. "$TOP/tests/common.inc"
cd "$TOP"
export CUDA=0
! grep -qs repro-gpu "$BUILD/static/gen/files" || CUDA=1
make BUILD="$BUILD" >/dev/null
out=$(make BUILD="$BUILD")
[ -z "$out" ] || fail "make did something: $out"
need strace
calls=$HOME/calls.txt
strace -f -qq -e trace=execve -o "$calls" make BUILD="$BUILD" >/dev/null || skip "strace does not work here"
started=$(grep -c 'execve(.* = 0$' "$calls")
[ "$started" -le 150 ] || fail "make with nothing to do starts $started programs"
