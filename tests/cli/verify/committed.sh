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
# A run of an NVIDIA H200 has the bits of this processor.
gpu=$TOP/results/h200-2026-11-27
exit_of 0 "$REPRO" verify "$gpu/bert_fp32.repro.tar.zst" --trust "$gpu/key.pem" --replay 1 --replay-limit 10m,12G
grep -q '^passed  *replay  *bit-equal: 1 step' out.txt || fail "step 0 of the H200: $(grep replay out.txt)"
