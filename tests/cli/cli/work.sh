#!/bin/sh
# Starting up and a capture stay small pieces of work, counted in system calls: tests/bench/limits.sh has the limits in milliseconds.
. "$TOP/tests/common.inc"
need strace
strace -o calls.txt true 2>err.txt || skip "strace does not work here: $(tail -n 1 err.txt)"
at_most() { # CALLS COMMAND...: as one process
    most=$1
    shift
    strace -f -qq -o calls.txt "$@" >out.txt 2>err.txt || fail "$* ends with $?: $(cat err.txt)"
    [ "$(wc -l <calls.txt)" -le "$most" ] || fail "$* makes $(wc -l <calls.txt) system calls, more than $most"
    ! grep -E '[0-9] +(v?fork|clone3?|execve)\(' calls.txt | tail -n +2 | grep . || fail "$* starts a process or a thread"
}
at_most 60 "$REPRO" version
at_most $((2000 + 100 * $(nproc --all))) "$REPRO" capture --json --probe cpu,memory,kernel
