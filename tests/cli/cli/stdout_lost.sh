#!/bin/sh
# A result that did not arrive is not a success: full disk, closed pipe, closed stdout. And nothing of ours lands in another file.
. "$TEST_DIR/common.inc"
"$REPRO" capture --probe cpu -o a.json >page.txt
# One that prints line by line and opens files afterwards.
"$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 1 --set measure.ceilings=false -o a.zst >/dev/full 2>err.txt && fail "a run into a full disk"
says "standard output: No space left on device"
for args in "ledger list" "ledger check" "recipes" "verify --list" "verify a.zst" "version" "version --json" "--help" \
    "recipes show bert_fp32" "help --man" "recipes keys" "capture" "capture --json" \
    "capture --explain cpu" "capture diff a.json a.json"; do
    status=0
    # shellcheck disable=SC2086
    "$REPRO" $args >/dev/full 2>err.txt || status=$?
    [ $status = 3 ] || fail "'$args' into a full disk exits with $status"
    says "No space left on device"
    status=0
    # shellcheck disable=SC2086
    "$REPRO" $args >&- 2>err.txt || status=$?
    [ $status = 3 ] || fail "'$args' into a closed stdout exits with $status"
    # The reader is gone before anything is written.
    # shellcheck disable=SC2086
    { sleep 0.2; "$REPRO" $args 2>err.txt || echo $? >status.txt; } | true
    [ "$(cat status.txt)" = 3 ] || fail "'$args' into a closed pipe exits with $(cat status.txt)"
    [ ! -s err.txt ] || fail "'$args' complains of a reader that had enough"
    rm status.txt
done
# What went wrong first is what is said, also where the command itself fails.
jq '.probes.cpu.threads.value = 9999' a.json >b.json
status=0
"$REPRO" capture diff a.json b.json >/dev/full 2>err.txt || status=$?
[ $status = 5 ] || fail "a difference that is not shown exits with $status"
words
status=0
"$REPRO" capture --explain cpu >&- 2>err.txt || status=$?
words
# Without stdin, stdout and stderr the files a command opens must not get their numbers.
status=0
"$REPRO" key new -o k.pem <&- >&- 2>&- || status=$?
[ $status = 3 ] || fail "exit status $status"
[ "$(head -n 1 k.pem; wc -l <k.pem)" = "-----BEGIN PRIVATE KEY-----
3" ] || fail "something was printed into the key file"
"$REPRO" capture --json -o env.json <&- >&- 2>&- || :
jq -e . env.json >parsed.json || fail "something was printed into the document"
