#!/bin/bash
# The tests leave no file in the tree: no untracked file that was not there when tests/run.sh began.
. "$TOP/tests/common.inc"
[ -f "$OUT/untracked" ] || skip "there is no git checkout here"
git -C "$TOP" -c safe.directory='*' ls-files --others --exclude-standard | diff "$OUT/untracked" - || fail "new files in the tree"
