#!/bin/sh
# Every bundle of the repository still verifies, by the key that stands beside it.
. "$TEST_DIR/common.inc"
n=0
for bundle in "$TOP"/results/*/*.repro.tar.zst; do
    [ -f "$bundle" ] || continue
    n=$((n + 1))
    exit_of 0 "$REPRO" verify "$bundle" --trust "$(dirname "$bundle")/key.pem"
    case $(head -n 1 out.txt) in "verified: "*) ;; *) cat out.txt >&2; fail "$bundle: not verified" ;; esac
    ! grep "read it before you run it" out.txt || fail "$bundle: verify.sh is of no version that is known"
done
[ "$n" -ge 1 ] || fail "no bundle found"
# A run of an NVIDIA H200 has the bits of one of an EPYC, step by step. The first step of that one is computed again by cli/verify/readme.sh, and
# with LONG=1 that of the H200 here.
gpu=$TOP/results/h200-2026-11-27
cpu=$TOP/results/epyc-2core-2026-11-27
bits() { # BUNDLE FILE
    "$REPRO" inspect "$1/bert_fp32.repro.tar.zst" steps/rank0.jsonl | jq -c '[.step, .loss, .loss_parts, .grad_norm, .learning_rate, .counters, (select(.step < 0) | .state_root)]' >"$2"
}
bits "$gpu" gpu.txt
bits "$cpu" cpu.txt
n=$(wc -l <cpu.txt)
[ "$n" -ge 8 ] && grep -q '^\[0,"0x' cpu.txt || fail "few steps: $(cat cpu.txt)"
head -n "$n" gpu.txt | diff cpu.txt - >&2 || fail "the H200 has other bits than the EPYC"
[ "${LONG:-0}" != 0 ] || exit 0
exit_of 0 "$REPRO" verify "$gpu/bert_fp32.repro.tar.zst" --trust "$gpu/key.pem" --replay 1 --replay-limit 10m,12G
grep -q '^passed  *replay  *bit-equal: 1 step' out.txt || fail "step 0 of the H200: $(grep replay out.txt)"
