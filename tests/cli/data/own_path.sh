#!/bin/sh
# A user's own directory trains, is recorded by its digest and marked as not pinned; data that do not fit end before the first step.
# shellcheck disable=SC2086 # $short is words
. "$TEST_DIR/common.inc"
short="--steps 1 --threads 1 --batch-size 1 --set measure.ceilings=false --set measure.warmup_steps=0 --set measure.repeats=1"
"$REPRO" data make bert own --sequences 64 >out.txt
exit_of 0 "$REPRO" run bert_tiny_fp32 $short --set data.path=own -o own.repro.tar.zst
path_in() { zstd -dcq "$1" | tar -xOf - facts.json | jq -r '.recipe."data.path".value + " " + (.recipe."run.save".value // "none")'; }
# In the bundle, paths of data and of --save have no name at all, unless their owner is to be known; a recipe that names folders still resolves to it.
exit_of 0 "$REPRO" run bert_tiny_fp32 $short --set "data.path=$PWD/own/" --save "$PWD/kept.safetensors" -o hidden.repro.tar.zst
[ "$(path_in hidden.repro.tar.zst)" = "OWN SAVED" ] || fail "$(path_in hidden.repro.tar.zst)"
exit_of 0 "$REPRO" verify hidden.repro.tar.zst
exit_of 0 "$REPRO" verify hidden.repro.tar.zst --replay 1 --data own
exit_of 0 "$REPRO" run bert_tiny_fp32 $short --identify --set "data.path=$PWD/own" -o clear.repro.tar.zst
[ "$(path_in clear.repro.tar.zst)" = "$PWD/own none" ] || fail "$(path_in clear.repro.tar.zst)"
exit_of 0 "$REPRO" verify clear.repro.tar.zst
sed "s|^  archive:.*|  path: $PWD/own|; /^  sha256:/d" "$TOP/recipes/bert_tiny_fp32.yaml" >mine.yaml
exit_of 0 "$REPRO" run mine.yaml $short -o mine.repro.tar.zst
[ "$(path_in mine.repro.tar.zst)" = "OWN none" ] || fail "$(path_in mine.repro.tar.zst)"
exit_of 0 "$REPRO" verify mine.repro.tar.zst
"$REPRO" inspect own.repro.tar.zst facts.json >record.json
jq -e '.data.pinned == false and .data.archive == null' record.json >answer.txt || fail "marked as pinned"
[ "$(jq -r .data.digest record.json)" = "$("$REPRO" data check own --json | jq -r .digest)" ] || fail "another digest than data check's"
"$REPRO" report own.repro.tar.zst --format md >report.md
words report.md pinned
[ -z "$(find store -mindepth 1 -type d)" ] || fail "one's own directory was copied into the store"
"$REPRO" run bert_tiny_fp32 $short -o pinned.repro.tar.zst >out.txt 2>err.txt
"$REPRO" inspect pinned.repro.tar.zst facts.json >record.json
jq -e '.data.pinned and .data.archive == "bert_sample.tar.zst"' record.json >answer.txt || fail "the sample is not pinned"
[ -d "store/sha256-$(jq -r .data.archive_sha256 record.json)" ] || fail "no entry in the store"
# a pinned archive that is not here any more, but was unpacked before: as on the other hosts of a job
sed "s|bert_sample.tar.zst|elsewhere.tar.zst|" "$TOP/recipes/bert_tiny_fp32.yaml" >elsewhere.yaml
"$REPRO" run elsewhere.yaml $short -o elsewhere.repro.tar.zst >out.txt 2>err.txt
"$REPRO" inspect elsewhere.repro.tar.zst facts.json | jq -e --argjson data "$(jq .data record.json)" '.data.pinned and .data.digest == $data.digest and
    .data.archive_sha256 == $data.archive_sha256 and .data.archive == "elsewhere.tar.zst"' >answer.txt || fail "not the samples of the store"
exit_of 3 "$REPRO" run elsewhere.yaml --store empty --steps 1 -o missing.repro.tar.zst
words
# Written to during the run: with other bytes it ends as failed, with the same ones it does not.
"$REPRO" data make gpt tokens -n 64 --vocab-size 2048 -q >out.txt
for expected in 5 130; do
    rm -f err.txt
    "$REPRO" run gpt_tiny_fp32 ${short#--steps 1} --steps 1000000 --set data.path=tokens --set model.vocab_size=2048 \
        --set model.padded_vocab_size=2048 --set task.eod_token=2047 --force -o written.repro.tar.zst >out.txt 2>err.txt &
    parent=$!
    wait_until $parent grep -q timed err.txt
    [ $expected = 130 ] || printf X | dd of="$(find tokens -name '*.bin')" bs=1 seek=1000 conv=notrunc 2>/dev/null
    touch tokens/*
    kill -INT $parent
    status=0
    wait $parent || status=$?
    [ $status = $expected ] || fail "status $status, expected $expected: $(cat err.txt)"
    [ $expected = 130 ] || says "the data changed during the run"
    exit_of 10 "$REPRO" verify written.repro.tar.zst
done
# another length
"$REPRO" data make bert short --sequences 64 --seq-length 64 >out.txt
exit_of 4 "$REPRO" run bert_tiny_fp32 $short --set data.path=short -o short.repro.tar.zst
says "'short/bert-0000"
words
[ ! -e short.repro.tar.zst ] || fail "a bundle of a run that never began"
# a byte changed in the store
printf X | dd of="$(find store -name '*00001-of*')" bs=1 seek=1000 conv=notrunc 2>/dev/null
exit_of 5 "$REPRO" run bert_tiny_fp32 $short -o changed.repro.tar.zst
words
exit_of 5 "$REPRO" run elsewhere.yaml --steps 1 -o changed.repro.tar.zst
[ ! -e changed.repro.tar.zst ] || fail "a bundle of a run that never began"
# quoted globs and single files
exit_of 0 "$REPRO" data check 'own/*-00000-*' --json
[ "$(jq .records out.txt)" = 32 ] || fail "the glob does not find one shard"
exit_of 3 "$REPRO" data check 'own/none*'
words
mkdir text && echo words >text/a.tfrecord
exit_of 4 "$REPRO" data check text
words
