#!/bin/sh
# Every bundle of the repository still verifies, by the key that stands beside it.
. "$TEST_DIR/common.inc"
n=0
for bundle in "$TOP"/results/*/*.repro.tar.zst; do
    [ -f "$bundle" ] || continue
    n=$((n + 1))
    exit_of 0 "$REPRO" verify "$bundle" --trust "$(dirname "$bundle")/key.pem"
    case $(tail -n 1 out.txt) in "verified: "*) ;; *) cat out.txt >&2; fail "$bundle: not verified" ;; esac
    ! grep "read it before you run it" out.txt || fail "$bundle: verify.sh is of no version that is known"
done
[ "$n" -ge 1 ] || fail "no bundle found"
