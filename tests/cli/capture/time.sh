#!/bin/sh
# A full capture without a GPU takes 300 ms or less, cpu,memory,kernel 50 ms: the best of ten, because other tests run beside this one.
# serial
. "$TOP/tests/common.inc"
best_of_ten() { # COMMAND...: milliseconds
    best=999999
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        begin=$(date +%s%N)
        "$@" >out.txt 2>err.txt || fail "$* ends with $?: $(cat err.txt)"
        ms=$((($(date +%s%N) - begin) / 1000000))
        [ "$ms" -ge "$best" ] || best=$ms
    done
}
cd "$TOP"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
repository=$PWD
cd "$out"
best_of_ten "$REPRO" capture --json --repo "$repository"
[ "$best" -le 300 ] || fail "a full capture takes $best ms"
best_of_ten "$REPRO" capture --json --probe cpu,memory,kernel
[ "$best" -le 50 ] || fail "three probes take $best ms"
