#!/bin/sh
. "$TEST_DIR/common.inc"
start_endless --set run.hang_seconds=2
kill -STOP "$worker"
expect_end 7 'counts as hung' failed
