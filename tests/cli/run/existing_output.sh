#!/bin/sh
# An existing file is never overwritten unasked, and a directory that cannot be written is found before training.
. "$TEST_DIR/common.inc"
echo precious >there
exit_of 2 "$REPRO" run bert_tiny_fp32 --steps 1 -o there
[ "$(cat there)" = precious ] || fail "the file was overwritten"
says --force
exit_of 2 "$REPRO" run bert_tiny_fp32 --steps 1 -o late.repro.tar.zst --save there
[ "$(cat there)" = precious ] || fail "--save replaced the file"
says --force
# With --force, still nothing that is no file is replaced by one: a directory, a device, a link.
mkdir -p dir/model.safetensors
ln -s there link
mkfifo fifo
for save in dir link fifo; do
    exit_of 2 "$REPRO" run bert_tiny_fp32 --steps 1 -o late.repro.tar.zst --force --save $save
    [ ! -f $save ] || [ -L $save ] || fail "--save made $save a file"
done
[ "$(cat there)" = precious ] || fail "--save wrote through a link"
for force in "" --force; do
    # shellcheck disable=SC2086
    exit_of 2 "$REPRO" run bert_tiny_fp32 --steps 1 -o fifo $force
    words
done
[ -p fifo ] || fail "--output made the pipe a file"
[ ! -e late.repro.tar.zst ] || fail "training had begun"
exit_of 3 "$REPRO" run bert_tiny_fp32 --steps 1 -o missing/dir/x.repro.tar.zst
# What could not be read at the start or written at the end is found before training too.
for option in '--save missing/dir/x.safetensors' '--init missing.safetensors'; do
    # shellcheck disable=SC2086
    exit_of 3 "$REPRO" run bert_tiny_fp32 --steps 1 -o late.repro.tar.zst $option
    [ ! -e late.repro.tar.zst ] || fail "$option: training had begun"
done
# The name that the program chooses is another one when a run of the same second has it, and both are kept.
for second in $(seq 0 99); do echo "+$second seconds"; done >seconds.txt
for name in $(date -u -f seconds.txt +%Y%m%dT%H%M%SZ); do
    echo precious >"bert_tiny_fp32-$name.repro.tar.zst"
done
exit_of 0 "$REPRO" run bert_tiny_fp32 --steps 1 --set measure.repeats=1 --set measure.warmup_steps=0
case $(tail -n 1 out.txt) in *-2.repro.tar.zst) ;; *) fail "the bundle is $(tail -n 1 out.txt)" ;; esac
"$REPRO" inspect "$(tail -n 1 out.txt)" >out.txt || fail "the bundle of the second run"
