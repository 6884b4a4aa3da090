#!/bin/sh
# A worker that crashes, hangs or is killed (as by the kernel when memory is short): a bundle marked failed and a status for each.
. "$TEST_DIR/common.inc"
dies() { # SIGNAL STATUS MESSAGE OPTION...
    signal=$1 expected=$2 message=$3
    shift 3
    rm -f err.txt endless.repro.tar.zst
    start_endless "$@"
    kill -"$signal" "$worker"
    expect_end "$expected" "$message" failed
}
dies SEGV 70 'crashed (signal 11'
dies STOP 7 'counts as hung' --set run.hang_seconds=2
dies KILL 7 'because memory ran out'
