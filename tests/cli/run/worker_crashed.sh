#!/bin/sh
. "$TEST_DIR/common.inc"
start_endless
kill -SEGV "$worker"
expect_end 70 'crashed (signal 11' failed
