#!/bin/sh
# Where the bundle can no longer be written at the end, it goes where temporary files go, and the exit status and messages say so.
. "$TEST_DIR/common.inc"
mkdir tmp gone
export TMPDIR="$PWD/tmp"
start_until warm-up --steps 60 --set measure.repeats=1 --set measure.ceilings=false -o gone/mine.repro.tar.zst
rmdir gone
echo precious >tmp/mine.repro.tar.zst
status=0
wait "$parent" || status=$?
[ "$status" = 3 ] || { cat err.txt >&2; fail "exit status $status, expected 3"; }
bundle=$TMPDIR/mine-2.repro.tar.zst
[ "$(tail -n 1 out.txt)" = "$bundle" ] || fail "the last line is not where the bundle is: $(cat out.txt)"
words err.txt 'cannot|saved'
"$REPRO" verify "$bundle" >verify.txt 2>&1 || { cat verify.txt >&2; fail "the bundle does not verify"; }
[ "$(cat tmp/mine.repro.tar.zst)" = precious ] || fail "a temporary file was replaced"
# Nor there: status 3, and nothing that looks like a bundle.
export TMPDIR="$PWD/none"
(ulimit -f 4 && exec "$REPRO" run resnet50_tiny_fp32 --steps 1 --set measure.repeats=1 -o late.repro.tar.zst) >out.txt 2>err.txt && fail "lost without a word"
says "sealing 'late.repro.tar.zst'"
[ ! -e late.repro.tar.zst ] || fail "a part of the bundle was left"
