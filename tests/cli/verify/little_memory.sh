#!/bin/bash
# A verification that runs out of memory says so and ends with status 7: never "malformed", "bug" or a signal. jansson takes a failed allocation for text
# that is not JSON, and a schema took one for a pattern that is not a regular expression.
set -u
. "$TEST_DIR/common.inc"
"$REPRO" run bert_tiny_fp32 -q -o a.repro.tar.zst --set measure.timed_steps=2 --set measure.ceilings=false >/dev/null || exit 1

verify_in() { # KIB: the status of a verification in that much address space
    (ulimit -v "$1"; exec "$REPRO" verify a.repro.tar.zst >out 2>err)
    echo $?
}
least=8192 most=1048576 # KiB: too little, and enough
while [ $((most - least)) -gt 40 ]; do
    middle=$(((least + most) / 2))
    if [ "$(verify_in $middle)" = 0 ]; then most=$middle; else least=$middle; fi
done
for i in 1 2 3 5 8 12 18 26 36; do
    kib=$((least - 40 * i))
    status=$(verify_in $kib)
    [ "$status" = 7 ] || fail "status $status with $((40 * i)) KiB too little: $(tail -n 1 err)"
    grep -q '^repro: out of memory: ' err || fail "with $((40 * i)) KiB too little: $(cat err)"
done
