#!/bin/sh
# Replay trains the first steps again: the same bits elsewhere, the first divergence by name, and never the owner's paths.
. "$TEST_DIR/common.inc"
make_bundle --save start.safetensors
exit_of 0 "$REPRO" verify a.repro.tar.zst --replay 2 --threads 2 --isa scalar
says "bit-equal: 2 steps and 2 state roots"
[ -f start.safetensors ] || fail "nothing saved"
rm start.safetensors
exit_of 0 "$REPRO" verify a.repro.tar.zst --replay 99
says "bit-equal: 2 steps"
[ ! -e start.safetensors ] || fail "a replay wrote the file that the recorded run.save names"

make_bundle --force --save one.safetensors
make_bundle --force --set seed.init=77 --save two.safetensors
make_bundle --force --init one.safetensors
exit_of 7 "$REPRO" verify a.repro.tar.zst --replay 1
says "name it with --init"
exit_of 0 "$REPRO" verify a.repro.tar.zst --replay 1 --init one.safetensors
exit_of 5 "$REPRO" verify a.repro.tar.zst --replay 1 --init two.safetensors
says "the state before the first step differs"
says "first tensor that differs: "

"$REPRO" data unpack "$TOP/recipes/bert_sample.tar.zst" --store store >dir.txt
make_bundle --force --set "data.path=$(cat dir.txt)"
exit_of 0 "$REPRO" verify a.repro.tar.zst
says "not pinned"
exit_of 7 "$REPRO" verify a.repro.tar.zst --replay 1
says "name them with --data"
exit_of 0 "$REPRO" verify a.repro.tar.zst --replay 1 --data "$(cat dir.txt)"
mkdir other
for f in "$(cat dir.txt)"/*; do cp "$f" other; done
for f in other/*; do cat "$f" "$f" >twice && mv twice "$f" && break; done
exit_of 5 "$REPRO" verify a.repro.tar.zst --replay 1 --data other
says "digest"
