#!/bin/sh
# Losses, gradient norms and state roots do not depend on instruction set or threads.
. "$TEST_DIR/common.inc"
few_words
evidence() { "$REPRO" inspect "$1" steps/rank0.jsonl | grep -o '"\(loss\|grad_norm\|state_root\)": *"[^"]*"' | tr -d ' '; }
options="--steps 3 --batch-size 3 --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false $bert_few"
# shellcheck disable=SC2086
"$REPRO" run bert_tiny_fp32 $options --isa scalar --threads 1 -o a.repro.tar.zst >/dev/null 2>&1
evidence a.repro.tar.zst >a.txt
[ "$(wc -l <a.txt)" -ge 10 ] || fail "too little evidence"
for run in 'scalar --threads 3' 'avx2 --threads 1' 'avx2 --threads 2' 'avx512 --threads 1' 'avx512 --threads 7'; do
    # shellcheck disable=SC2086
    set -- $run $options
    status=0
    "$REPRO" run bert_tiny_fp32 --isa "$@" -o b.repro.tar.zst --force >/dev/null 2>err.txt || status=$?
    [ "$status" != 7 ] || continue # not on this CPU
    [ "$status" = 0 ] || { cat err.txt >&2; fail "exit status $status"; }
    evidence b.repro.tar.zst >b.txt
    cmp a.txt b.txt || fail "$run differs from scalar 1"
done
