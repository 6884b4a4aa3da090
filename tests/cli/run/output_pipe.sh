#!/bin/sh
# -o - writes the bundle to standard output, which has nothing else; text goes to standard error.
. "$TEST_DIR/common.inc"
short="--threads 1 --steps 1 --set measure.repeats=1 --set measure.warmup_steps=1 --set measure.ceilings=false"
# shellcheck disable=SC2086
"$REPRO" run resnet50_tiny_fp32 $short -o - 2>err.txt | "$REPRO" verify - >verify.txt 2>&1 || { cat err.txt verify.txt >&2; fail "the bundle in the pipe does not verify"; }
grep -q '^[0-9.]* images/s' err.txt || { cat err.txt >&2; fail "no result on standard error"; }
grep -q '^next: ' err.txt && fail "a next command that names no file"
[ -z "$(find . -name '*.zst')" ] || fail "a file was written"
# shellcheck disable=SC2086
"$REPRO" run resnet50_tiny_fp32 $short -o - -q >a.zst 2>err.txt
verified a.zst
[ ! -s err.txt ] || { cat err.txt >&2; fail "--quiet is not"; }
exit_of 2 "$REPRO" run resnet50_tiny_fp32 -o - --json
status=0
# shellcheck disable=SC2086
"$REPRO" run resnet50_tiny_fp32 $short -o - >/dev/full 2>err.txt || status=$?
[ "$status" = 3 ] || { cat err.txt >&2; fail "a full device: status $status"; }
says 'cannot write the bundle to standard output'
