#!/bin/bash
# A worker whose own requests fail, because the address space that a limit leaves is a little more than the plan and a little less than
# what a process takes: a message, a sealed bundle marked failed, status 7.
# timeout: 120
. "$TEST_DIR/common.inc"
plan=$("$REPRO" run bert_tiny_fp32 --plan --json | jq .total_bytes)
met=
for extra in $(seq 0 4 80); do # MiB
    status=0
    rm -f b.repro.tar.zst
    (ulimit -v $(((plan >> 10) + (extra << 10))) && exec "$REPRO" run bert_tiny_fp32 --steps 1 --threads 2 -o b.repro.tar.zst) >out.txt 2>err.txt || status=$?
    [ "$status" != 0 ] || break
    [ "$status" = 7 ] || { cat err.txt >&2; fail "$extra MiB more than planned: exit status $status, expected 7"; }
    [ -e b.repro.tar.zst ] || continue # refused by the plan
    met=$extra
    grep -qE 'cannot map|cannot start|no memory|out of memory|limit allows|can be used here' err.txt || { cat err.txt >&2; fail "no word of memory"; }
    "$REPRO" inspect b.repro.tar.zst facts.json | jq -e '.status == "failed" and (.reason | length > 0)' >answer.txt || fail "not marked failed"
    verified b.repro.tar.zst
done
[ "$status" = 0 ] || { cat err.txt >&2; fail "$extra MiB more than planned are not enough"; }
[ -n "$met" ] || fail "no limit was met in the worker: nothing was tested"
# what cannot fit is refused by the plan, which knows the limit
(ulimit -v 3000000 && exit_of 7 "$REPRO" run bert_fp32 --steps 1 -o no.repro.tar.zst) || fail "too little for BERT base"
