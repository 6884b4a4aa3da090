#!/bin/sh
# Every way to write an option means the same.
. "$TEST_DIR/common.inc"
batch() { "$REPRO" run bert_tiny_fp32 --plan --json "$@" | jq .batch; }
same() { [ "$(batch "$@")" = 3 ] || fail "batch size $(batch "$@") from '$*'"; }
[ "$(batch)" != 3 ] || fail "the recipe's own batch size is 3: this test would prove nothing"
same --batch-size 3
same --batch-size=3
same --set train.batch_size=3
same --set=train.batch_size=3
same -s train.batch_size=3
same -strain.batch_size=3
same -fqs train.batch_size=3
same -fqstrain.batch_size=3
same -s measure.timed_steps=1 -s train.batch_size=3
[ "$("$REPRO" run --batch-size 3 --plan bert_tiny_fp32 --json | jq .batch)" = 3 ] || fail "options before the operand"
[ "$("$REPRO" --json -q run --batch-size 3 --plan -- bert_tiny_fp32 | jq .batch)" = 3 ] || fail "flags before the command, -- before the operand"
exit_of 3 "$REPRO" verify -- --help
says "'--help'"
exit_of 4 "$REPRO" inspect - </dev/null
says "'-'"

# - is standard output for what has no other name, and no file of that name; what is not written there says so
bundle=$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst
"$REPRO" report "$bundle" --any-key --format md >report.md 2>err.txt
"$REPRO" report "$bundle" --any-key --format md --output - 2>err.txt | cmp - report.md || fail "report -o - is another"
[ -n "$("$REPRO" challenge new -q -o -)" ] || fail "no challenge on standard output"
exit_of 2 "$REPRO" timestamp request "$bundle" -o -
says "not written to standard output"
exit_of 2 "$REPRO" key new -o -
says "not written to standard output"
[ ! -e - ] || fail "a file is named -"
