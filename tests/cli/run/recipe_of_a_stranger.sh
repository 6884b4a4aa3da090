#!/bin/sh
# A recipe from a stranger replaces none of the user's files; what the user names, the user may replace with --force. No old file is emptied
# while looking whether the bundle can be written.
. "$TEST_DIR/common.inc"
echo precious >there
"$REPRO" recipes show bert_tiny_fp32 >r.yaml
printf '\nrun: {save: there}\n' >>r.yaml
tiny="--steps 1 --threads 1 --set measure.repeats=1 --set measure.warmup_steps=0 --set measure.ceilings=false"
# shellcheck disable=SC2086
exit_of 2 "$REPRO" run r.yaml $tiny -o a.repro.tar.zst
[ "$(cat there)" = precious ] || fail "the file was replaced"
says run.save
[ ! -e a.repro.tar.zst ] || fail "a bundle was written"
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run r.yaml $tiny --save there --force -o a.repro.tar.zst
[ "$(head -c 8 there)" != precious ] || fail "nothing was saved"
# Nor does it make files outside the working directory, by whatever way; the user may have them there.
mkdir -p out in/sub
ln -s "$PWD/out" in/link
ln -s "$PWD/out/x" in/x
for save in "$PWD/out/x" ../x sub/../../x link/x x; do
    "$REPRO" recipes show bert_tiny_fp32 >in/r.yaml
    printf '\nrun: {save: "%s"}\n' "$save" >>in/r.yaml
    status=0
    # shellcheck disable=SC2086
    (cd in && "$REPRO" run r.yaml $tiny -o a.repro.tar.zst --force) >out.txt 2>err.txt || status=$?
    [ "$status" = 2 ] || { cat err.txt >&2; fail "$save: exit status $status, expected 2"; }
    grep -q "run.save: " err.txt || fail "$save: $(cat err.txt)"
    [ ! -e out/x ] || fail "$save: a file was made"
    [ ! -e x ] || fail "$save: a file was made"
done
"$REPRO" recipes show bert_tiny_fp32 >in/r.yaml
printf '\nrun: {save: sub/x}\n' >>in/r.yaml
# shellcheck disable=SC2086
(cd in && "$REPRO" run r.yaml $tiny -o a.repro.tar.zst --force) >out.txt 2>err.txt || fail "a file below: $(cat err.txt)"
[ -s in/sub/x ] || fail "a file below was not saved"
# The probe's name holds the process number, which a shell that becomes the program knows.
echo precious >there
exit_of 3 sh -c 'ln -s there "b.$$.probe" && exec "$0" run bert_tiny_fp32 --steps 1 -o b' "$REPRO"
[ "$(cat there)" = precious ] || fail "the file behind a link was emptied"
