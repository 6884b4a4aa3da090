#!/bin/sh
# --plan allocates and writes nothing; a batch that cannot fit is refused with the largest that does.
. "$TEST_DIR/common.inc"
"$REPRO" run bert_fp32 --plan >plan.txt
grep -q parameters plan.txt || fail "no parameters row"
[ -z "$(find . -name '*.repro.tar*')" ] || fail "a bundle was written"
"$REPRO" run bert_fp32 --plan --json | grep -q '"total_bytes"' || fail "no JSON plan"
exit_of 7 "$REPRO" run bert_fp32 --set train.batch_size=20000 -o no.repro.tar.zst
grep -q 'largest that fits is [1-9]' err.txt || { cat err.txt >&2; fail "no batch that fits named"; }
[ ! -e no.repro.tar.zst ] || fail "a bundle was written"
