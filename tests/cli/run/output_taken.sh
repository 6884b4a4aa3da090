#!/bin/sh
# A file that appears under the bundle's name while the run trains is left alone; the bundle gets the next free name and nothing is lost.
. "$TEST_DIR/common.inc"
start_until warm-up --steps 60 --set measure.repeats=1 --set measure.ceilings=false -o mine.repro.tar.zst
echo precious >mine.repro.tar.zst
ln -s nowhere mine-2.repro.tar.zst
status=0
wait "$parent" || status=$?
[ "$status" = 3 ] || { cat err.txt >&2; fail "exit status $status, expected 3"; }
[ "$(cat mine.repro.tar.zst)" = precious ] || fail "the file was replaced"
[ -h mine-2.repro.tar.zst ] || fail "the link was replaced"
[ ! -e nowhere ] || fail "the link was followed"
[ "$(tail -n 1 out.txt)" = mine-3.repro.tar.zst ] || fail "the last line is not where the bundle is: $(tail -n 1 out.txt)"
words err.txt saved
"$REPRO" verify mine-3.repro.tar.zst >verify.txt 2>&1 || { cat verify.txt >&2; fail "the bundle does not verify"; }
left=$(find . -name '*tmp*' -o -name '*probe*')
[ -z "$left" ] || fail "left behind: $left"
# With --force it is the user's wish.
"$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 1 --set measure.repeats=1 --force -o mine.repro.tar.zst >out.txt 2>err.txt || fail "$(cat err.txt)"
[ "$(head -c 8 mine.repro.tar.zst)" != precious ] || fail "--force replaced nothing"
