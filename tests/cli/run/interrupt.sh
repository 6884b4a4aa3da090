#!/bin/sh
# Ctrl-C ends a run within a second and seals a bundle marked incomplete.
. "$TEST_DIR/common.inc"
start_endless
t0=$(date +%s%N)
kill -INT "$parent"
expect_end 130 interrupted incomplete
t1=$(date +%s%N)
[ $(((t1 - t0) / 1000000)) -lt 2500 ] || fail "took $(((t1 - t0) / 1000000)) ms to end, seal and verify"
