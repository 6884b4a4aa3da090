#!/bin/sh
# ResNet-50: the recorded losses, norms and root of resnet50_tiny_fp32 in every instruction set, with activations computed again, and with any number
# of threads that decode; replay; a checkpoint is continued; LARS and schedules by epochs; what is wrong with data or settings ends with its place.
# RP_GOLDEN_UPDATE=1 writes the recorded values.
. "$TEST_DIR/common.inc"
need jq
golden=$TOP/tests/golden/resnet50_tiny_fp32.txt
steps=3
train() { # FILE OPTION...
    file=$1
    shift
    "$REPRO" run resnet50_tiny_fp32 --steps "$steps" --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -o "$file" "$@" >out.txt 2>err.txt ||
        { cat err.txt >&2; fail "no bundle $file"; }
    "$REPRO" inspect "$file" steps/rank0.jsonl | jq -r 'select(.step >= 0) | "\(.step) \(.loss) \(.grad_norm) \(.counters.correct)"' >lines.txt
    "$REPRO" inspect "$file" run.json | jq -r '"root \(.results.state_root_last)"' >>lines.txt
}
train plain.zst --threads 2
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp lines.txt "$golden"
cmp lines.txt "$golden" || { cat lines.txt >&2; fail "other bits than recorded"; }
grep -q 'images/s' out.txt || fail "the unit: $(cat out.txt)"
for isa in scalar avx2; do
    grep -qw "$isa" /proc/cpuinfo || [ "$isa" = scalar ] || continue
    train again.zst --isa "$isa" --threads 1 --set train.recompute=selective --set data.threads=3
    cmp lines.txt "$golden" || { cat lines.txt >&2; fail "$isa, recompute selective: other bits"; }
    rm again.zst
done
"$REPRO" verify plain.zst --replay 2 >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay"; }
grep -q '^passed *replay  *bit-equal' verify.txt || fail "$(grep replay verify.txt)"

# A run in two parts: running statistics and momentum are in the file, convolutions as other tools have them.
steps=1
train first.zst --save half.safetensors
steps=2
train rest.zst --init half.safetensors
[ "$(tail -n 1 lines.txt)" = "$(tail -n 1 "$golden")" ] || fail "a run in two parts ends in another state"
cp lines.txt rest_lines.txt
# The same from a directory, which of this model has no config.json; one of others belongs to another architecture.
steps=1
train first_dir.zst --save half/
steps=2
train rest_dir.zst --init half
[ "$(tail -n 1 lines.txt)" = "$(tail -n 1 "$golden")" ] || fail "a run in two parts by a directory ends in another state"
[ ! -e half/config.json ] || fail "a config.json of torchvision"
echo '{}' >half/config.json
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --steps 1 -o never.zst --init half
words
size=$(od -A n -t u8 -N 8 half.safetensors | tr -d ' ')
dd if=half.safetensors bs=1 skip=8 count="$size" 2>/dev/null >header.json
jq -e '."layer2.0.conv2.weight".shape == [16, 16, 3, 3] and ."conv1.weight".shape == [8, 3, 7, 7] and has("layer2.0.downsample.1.running_var")
    and has("optimizer.momentum.fc.bias")' header.json >/dev/null || fail "the file: $(head -c 300 header.json)"

# PyTorch's counters of batches: one more for each step, from what a file has, or its optimizer state has seen.
counter() { # FILE: that of bn1
    length=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    at=$(dd if="$1" bs=1 skip=8 count="$length" 2>/dev/null | jq '."bn1.num_batches_tracked" | select(.dtype == "I64" and .shape == []) | .data_offsets[0]')
    od -A n -t d8 -j $((8 + length + at)) -N 8 "$1" | tr -d ' '
}
[ "$(jq '[keys[] | select(endswith(".num_batches_tracked"))] | length' header.json)" = "$(jq '[keys[] | select(endswith(".running_mean"))] | length' header.json)" ] ||
    fail "norms without a counter"
[ "$(counter half.safetensors) $(counter half/model.safetensors)" = '1 1' ] || fail "counters after a step: $(counter half.safetensors)"
at=$((8 + size + $(jq '."bn1.num_batches_tracked".data_offsets[0]' header.json)))
cp half.safetensors counted.safetensors
printf '\051\001\000\000\000\000\000\000' | dd of=counted.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
steps=2
train more.zst --init counted.safetensors --save more.safetensors
[ "$(counter more.safetensors)" = 299 ] || fail "297 batches before, two steps: $(counter more.safetensors)"
cmp lines.txt rest_lines.txt || fail "a counter changes the training"
sed 's/num_batches_tracked/num_batches_trackeD/g' header.json >none.json # of no tensor here
{ head -c 8 half.safetensors && cat none.json && tail -c +$((9 + size)) half.safetensors; } >none.safetensors
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --steps 1 -o never.zst --init none.safetensors
words
printf '\377\377\377\377\377\377\377\377' | dd of=counted.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --steps 1 -o never.zst --init counted.safetensors
words
{ head -c 8 half.safetensors && sed 's/"I64"/"F64"/' header.json && tail -c +$((9 + size)) half.safetensors; } >counted.safetensors
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --steps 1 -o never.zst --init counted.safetensors
words

steps=3
train lars.zst --set optimizer.name=lars --set optimizer.learning_rate=2 --set schedule.decay=quadratic --set optimizer.weight_decay_form=loss
jq -e '.loss_parts.weight_decay != "0x0p+0"' <<END >/dev/null || fail "the loss has no part of the weights"
$("$REPRO" inspect lars.zst steps/rank0.jsonl | tail -n 1)
END
"$REPRO" verify lars.zst --replay 3 --isa avx2 >verify.txt 2>err.txt || { cat verify.txt err.txt >&2; fail "replay of lars"; }

# By whole epochs the rate changes between them alone: here after steps 2 and 4.
steps=5
train epochs.zst --set schedule.whole_epochs=true --set schedule.steps_per_epoch=2 --set schedule.warmup_steps=4 --set schedule.total_steps=20
"$REPRO" inspect epochs.zst steps/rank0.jsonl | jq -s -e 'map(select(.step >= 0) | .learning_rate) | .[0] == .[1] and .[0] != .[2] and .[2] == .[3] and .[4] == 0.05' >/dev/null ||
    fail "rates: $("$REPRO" inspect epochs.zst steps/rank0.jsonl | jq -c .learning_rate | tr '\n' ' ')"

# Damaged images end a run, or are replaced and counted: of 6 in file order the second, so 6 of the 32 of two steps. Waiting fits into its pause.
mkdir -p folder/n01 folder/n02
cp "$TOP/tests/fuzz/corpus/jpeg/420.jpg" "$TOP/tests/fuzz/corpus/jpeg/gray.jpg" folder/n01/
cp "$TOP/tests/fuzz/corpus/jpeg/progressive.jpg" "$TOP/tests/fuzz/corpus/jpeg/exif.jpg" "$TOP/tests/fuzz/corpus/jpeg/cmyk.jpg" folder/n02/
head -c 300 folder/n01/420.jpg >folder/n01/cut.jpg
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --set data.format=image_folder --set data.path="$PWD/folder" --set data.shuffle=false -o cut.zst
rm -f cut.zst
steps=2
train skip.zst --set data.format=image_folder --set data.path="$PWD/folder" --set data.shuffle=false --set data.skip_damaged=true
documents skip.zst | jq -e '.facts.skipped_samples == 6 and .run.results.input.waited_s > 0 and .run.results.input.share < 1' >/dev/null || fail "not counted"
"$REPRO" inspect skip.zst steps/rank0.jsonl | jq -s -e '.[1:] | all(.input_ns > 0) and .[1].input_ns <= .[1].start_ns - .[0].end_ns' >/dev/null || fail "waiting"
"$REPRO" report skip.zst --format md | grep -q 'replaced | 6 samples |$' || fail "the report does not count them"
"$REPRO" inspect plain.zst facts.json | jq -e '.skipped_samples == null' >/dev/null || fail "counted where none may be skipped"
# The plan has room for images of a photograph's size in each thread that decodes.
documents plain.zst | jq -e '.facts.plan.decoder_bytes > 2000000 and .facts.plan.decoder_bytes < 6000000 and
    .run.peak_rss_bytes < .facts.plan.total_bytes + 8388608' >/dev/null || fail "plan: $(documents plain.zst | jq -c '[.facts.plan, .run.peak_rss_bytes]')"

exit_of 2 "$REPRO" run resnet50_tiny_fp32 --set model.num_classes=0 -o a.zst
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --set model.num_classes=2 -o a.zst
exit_of 2 "$REPRO" run resnet50_tiny_fp32 --set task.image_size=4 -o a.zst
exit_of 2 "$REPRO" run resnet50_tiny_fp32 --init plain.zst --set model.blocks=3,4,6 -o a.zst
