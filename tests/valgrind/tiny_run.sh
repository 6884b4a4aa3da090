#!/bin/bash
# One step of a very small training run, with its worker, then its verification: no error and no leak of ours under valgrind and with sanitizers.
# The ceilings take valgrind 40 s, and the estimate of the time that -q leaves out 50 s; only the sanitizers see them.
# timeout: 600
. "$TOP/tests/common.inc"
need valgrind
vg() {
    valgrind -q --trace-children=yes --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --log-file=vg.%p.txt "$@" || {
        status=$?
        cat vg.*.txt >&2
        return $status
    }
}
# What valgrind says, but for its note that it does not know mlock2 (325), which keeps the private key out of the swap.
complaints() { sed '/WARNING: unhandled amd64-linux syscall: 325$/,/bug_reports.html/d' vg.*.txt; }
few_words
# shellcheck disable=SC2206 # words
tiny=(run bert_tiny_fp32 $bert_few --isa avx2 --threads 2 --steps 1 -o tiny.repro.tar.zst --force
    --set measure.warmup_steps=0 --set measure.repeats=1 --set train.batch_size=1 --set train.accumulation_steps=1
    --set model.hidden_size=32 --set model.num_attention_heads=2 --set model.intermediate_size=64)
"$BUILD/asan/repro" "${tiny[@]}"
"$BUILD/asan/repro" verify tiny.repro.tar.zst --replay 1 --data few/bert
vg "$BUILD/native/repro" "${tiny[@]}" -q --set measure.ceilings=false
# A worker's errors are in its own log; its exit status is not valgrind's.
[ -z "$(complaints)" ] || { complaints >&2 && exit 1; }
[ "$(find . -name 'vg.*.txt' | wc -l)" -ge 2 ] || { echo "the worker did not run under valgrind" >&2 && exit 1; }
rm vg.*.txt
vg "$BUILD/native/repro" verify tiny.repro.tar.zst
[ -z "$(complaints)" ] || { complaints >&2 && exit 1; }
