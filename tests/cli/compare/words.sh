#!/bin/sh
# The words of compare and its layouts, for the committed bundles: one golden file, words.out (tests/run.sh --update).
. "$TEST_DIR/common.inc"
cp "$TOP"/results/epyc-2core-2026-11-27/*.zst .
mkdir folder && cp bert_fp32.repro.tar.zst folder/
"$REPRO" compare bert_fp32.repro.tar.zst "$FIRST" bert_fp32_1_thread.repro.tar.zst
"$REPRO" compare bert_fp32.repro.tar.zst published:dlperf_v100 2>&1 | head -n 3
"$REPRO" compare bert_fp32.repro.tar.zst published:gpt_v100 2>&1 || echo "status $?"
"$REPRO" compare --layout dlperf bert_fp32.repro.tar.zst "$FIRST"
"$REPRO" compare --layout mlperf bert_fp32.repro.tar.zst "$FIRST"
"$REPRO" compare --layout gpt bert_fp32.repro.tar.zst published:gpt_v100
"$REPRO" compare --layout paddle bert_fp32.repro.tar.zst
"$REPRO" compare --layout index folder
