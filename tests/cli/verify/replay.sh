#!/bin/sh
# Replay trains the first steps again: the same bits elsewhere, the first divergence by name, and never the owner's paths.
. "$TEST_DIR/common.inc"
make_bundle a.repro.tar.zst --save start.safetensors
check 0 replay a.repro.tar.zst --replay 2 --threads 2 --isa scalar
[ -f start.safetensors ] || fail "nothing saved"
rm start.safetensors
check 0 replay a.repro.tar.zst --replay 99
[ ! -e start.safetensors ] || fail "a replay wrote the file that the recorded run.save names"

# From the middle: the state that a shorter run saved, whose root the longer one recorded there.
make_bundle a.repro.tar.zst --force --save two.safetensors
long="--threads 1 --steps 3 --set measure.warmup_steps=1 --set measure.repeats=1 --set train.accumulation_steps=1 --set evidence.state_root_every=2"
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run resnet50_tiny_fp32 $long -o long.repro.tar.zst --save four.safetensors
mkdir tmp
export TMPDIR="$PWD/tmp"
check 0 replay long.repro.tar.zst --replay 2:2 --init two.safetensors --state four.safetensors --isa scalar
sed -n 's/.*replay: steps 2 to 3, \([0-9.]*\) to \([0-9.]*\) s here$/\1 \2/p' err.txt >estimate
{ read -r least most <estimate && [ "$(printf '%s\n' "$least" "$most" | sort -g | head -n 1)" = "$least" ]; } || fail "no estimate: $(cat err.txt)"
# tensor roots are a claim where roots took so much time, beside other work, that the check of state roots has a note
check 0 claims long.repro.tar.zst --replay 2:2 --init two.safetensors | sed 's/ tensor_root (name init final),//'
check 5 replay long.repro.tar.zst --replay 2:2 --init four.safetensors
check 5 replay long.repro.tar.zst --replay 4 --state two.safetensors
check 7 replay long.repro.tar.zst --replay 2:2
check 7 replay long.repro.tar.zst --replay 4:1
check 7 replay long.repro.tar.zst --replay 1 --data none
mkdir samples
check 7 replay long.repro.tar.zst --replay 1 --data samples
check 0 replay long.repro.tar.zst --replay 0:4
for wrong in 0 -1 1: :1 a 1:0 1:2:3 2x 99999999999999999999; do
    refuse 2 long.repro.tar.zst "--replay=$wrong"
done
refuse 2 long.repro.tar.zst --state two.safetensors

# What a replay may take is the verifier's choice.
check 0 replay long.repro.tar.zst --replay 4 --replay-limit 10m,100G
for small in 1h,1M 1m,2M; do
    exit_of 7 "$REPRO" verify --json long.repro.tar.zst --replay 4 --replay-limit "$small"
    jq -e '.verdict == "inconclusive" and any(.checks[]; .check == "replay" and .state == "skipped" and (.text | contains("--replay-limit") and (contains(" 0.0") | not)))' \
        out.txt >/dev/null || { cat out.txt >&2; fail "$small: not bounded"; }
done
for wrong in 0s 1 s 1d '1h,' 1h,8 1h,G -1s 1h,8G,1 9999999999999999999h; do
    refuse 2 long.repro.tar.zst --replay 1 "--replay-limit=$wrong"
done
refuse 2 long.repro.tar.zst --replay-limit 1h
rmdir tmp || fail "a replay's state was left behind"
unset TMPDIR

make_bundle a.repro.tar.zst --force --save one.safetensors
make_bundle a.repro.tar.zst --force --set seed.init=77 --save two.safetensors
make_bundle a.repro.tar.zst --force --init one.safetensors
check 7 replay a.repro.tar.zst --replay 1
check 0 replay a.repro.tar.zst --replay 1 --init one.safetensors
check 5 replay a.repro.tar.zst --replay 1 --init two.safetensors

"$REPRO" data unpack "$TOP/recipes/imagenet_sample.tar.zst" --store store >dir.txt
make_bundle a.repro.tar.zst --force --set "data.path=$(cat dir.txt)"
check 7 replay a.repro.tar.zst --replay 1
check 0 replay a.repro.tar.zst --replay 1 --data "$(cat dir.txt)"
mkdir other
for f in "$(cat dir.txt)"/*; do cp "$f" other; done
for f in other/*; do cat "$f" "$f" >twice && mv twice "$f" && break; done
check 5 replay a.repro.tar.zst --replay 1 --data other
