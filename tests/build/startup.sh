#!/bin/bash
# `repro version` starts nearly as fast as a static program that does nothing: taking turns, its median is at most 5 times as long, or
# 2 ms.
. "$TEST_DIR/common.inc"
${CC:-gcc} -O2 -o startup "$TOP/tests/bench/startup.c"
echo 'int main(void) { return 0; }' | ${CC:-gcc} -O2 -static -x c -o nothing -
./startup 41 "repro=$REPRO version" "nothing=./nothing" >times.jsonl
cat times.jsonl
jq -s -e '(.[0].median_ms <= 2) or (.[0].median_ms <= 5 * .[1].median_ms)' times.jsonl >answer.txt || fail "slow to start: $(tr '\n' ' ' <times.jsonl)"
