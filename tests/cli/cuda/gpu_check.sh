#!/bin/sh
# tests/gpu/check.sh leaves a log and one JSON, counts what it found, and knows when there is no GPU. Its parts that train or compare with other
# programs need a real one. timeout: 120
. "$TEST_DIR/common.inc"
check=$TOP/tests/gpu/check.sh
on_gpu "$check" "$REPRO" ops >out.txt 2>err.txt || { cat out.txt err.txt >&2; fail "the operations fail"; }
says_in "28 operations" out.txt
cmp -s out.txt gpu-check/log.txt || fail "the log is not what was said"
jq -e '.ops.operations | length == 28 and all(.failed == 0)' gpu-check/result.json >answer.txt || fail "no operations in result.json"
jq -e '.about.failed == 0 and .about.passed >= 1 and (.about.version.version | length > 0)' gpu-check/result.json >answer.txt || fail "no count"
exit_of 1 on_gpu "$check" "$REPRO" capture_everything
says_in "there is no part 'capture_everything'" out.txt
shim=$PWD # nothing is there
exit_of 7 on_gpu "$check" "$REPRO" ops
says "no NVIDIA driver that this program can load"
