#!/bin/sh
# A worker that is killed (as by the kernel when memory is short) is told from a crash.
. "$TEST_DIR/common.inc"
start_endless
kill -KILL "$worker"
expect_end 7 'because memory ran out' failed
