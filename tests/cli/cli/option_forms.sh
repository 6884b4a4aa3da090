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
