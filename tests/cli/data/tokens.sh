#!/bin/sh
# Files of tokens through the command line: made from texts and without, in three formats, checked, and damage is named with file, place and remedy.
. "$TEST_DIR/common.inc"
vectors=$TOP/tests/vectors
words="--vocab $vectors/bpe/vocab.json --merges $vectors/bpe/merges.txt"

# the same texts in every format and by both forms of a vocabulary
for format in llmc tokens megatron; do
    # shellcheck disable=SC2086 # several words
    "$REPRO" data make $format $format "$vectors/bpe/texts.jsonl" $words --json >$format.json
    jq -e '.documents == 132 and .tokens > 10000 and .shards == 1' $format.json >answer.txt || { cat $format.json >&2; fail "wrong counts"; }
    "$REPRO" data check $format --format $format --below tokens=500 --json >check.json
    [ "$(jq .tokens check.json)" = "$(jq .tokens $format.json)" ] || { cat check.json >&2; fail "$format: other counts than data make's"; }
    "$REPRO" data make $format again "$vectors/bpe/texts.jsonl" --tokenizer "$vectors/bpe/tokenizer.json" >out.txt
    diff -r $format again && rm -r again
done
jq -e '.documents == 132 and .sequences == 132 and .files == 2' check.json >answer.txt || fail "documents of megatron are not counted"
[ "$(jq -r .digest check.json)" = "$(find megatron -type f | sort | xargs sha256sum | cut -c1-64 | sha256sum | cut -c1-64)" ] ||
    fail "the digest is not that of sha256sum"
awk '{for (i = 1; i <= NF; i++) print $i; print 0}' "$vectors/bpe/ids.txt" >want.txt
od -An -v -w2 -tu2 tokens/text-00000-of-00001.bin | tr -d ' ' | diff - want.txt
od -An -v -w2 -tu2 megatron/text-00000-of-00001.bin | tr -d ' ' | diff - want.txt
od -An -v -w2 -tu2 -j1026 llmc/text-00000-of-00001.bin | tr -d ' ' >got.txt
sed '$d' want.txt | diff got.txt -
printf 'the fox' >one.txt
printf 'then' >two.txt
# shellcheck disable=SC2086
"$REPRO" data make megatron m.tar.zst one.txt two.txt $words --shards 2 >out.txt
[ "$("$REPRO" data list m.tar.zst | wc -l)" = 4 ] || fail "not two pairs"

# a corpus with lines that are no documents: refused, or counted
printf '{"text": "the fox", "id": 18446744073709551616, "score": NaN}\n\n{"text": "then", "text": "the"}\n' >some.jsonl
# shellcheck disable=SC2086
exit_of 4 "$REPRO" data make tokens some some.jsonl $words
grep -q "'some.jsonl', line 2: .*--skip-bad" err.txt || fail "the line and the option are not named"
# shellcheck disable=SC2086
"$REPRO" data make tokens some some.jsonl $words --skip-bad --json >some.json 2>err.txt
jq -e '.documents == 2 and .skipped == 1' some.json >answer.txt || { cat some.json >&2; fail "wrong counts"; }
grep -q "1 line left out; the first: 'some.jsonl', line 2" err.txt || fail "the line that was left out is not named"

# synthetic corpora
"$REPRO" data make gpt synthetic --sequences 20 >out.txt
"$REPRO" data check synthetic --format llmc --json >check.json
jq -e '.largest_id == 50256 and .seq_length == 1024 and .records > 1' check.json >answer.txt || { cat check.json >&2; fail "wrong counts"; }
"$REPRO" data check embedded:gpt_sample.tar.zst --format llmc --seq-length 64 --json | jq -e '.records == 2422 and .tokens == 155019' >answer.txt
"$REPRO" data make tokens wide --token-bytes 4 --vocab-size 100000 >out.txt
"$REPRO" data check wide --format tokens --token-bytes 4 --below tokens=100000 >out.txt

# usage
refused() { # STATUS ARGUMENT...: the message goes to tokens.out
    want=$1
    shift
    exit_of "$want" "$REPRO" "$@"
    words
}
refused 2 data make tokens t one.txt
refused 2 data make tokens t one.txt --vocab v.json
# shellcheck disable=SC2086
refused 2 data make bert t one.txt $words
# shellcheck disable=SC2086
refused 2 data make llmc t one.txt $words --seed 3
# shellcheck disable=SC2086
refused 2 data make llmc t $words
# shellcheck disable=SC2086
refused 2 data make llmc t one.txt two.txt $words --shards 3
refused 2 data make llmc t --vocab-size 100000
refused 2 data make tokens t --vocab-size 100000
refused 2 data make llmc t --token-bytes 4
: >empty.txt
# shellcheck disable=SC2086
refused 4 data make llmc t empty.txt $words
printf '\377' >latin.txt
# shellcheck disable=SC2086
refused 4 data make llmc t latin.txt $words
refused 4 data make llmc t one.txt --vocab "$vectors/bpe/vocab.json" --merges two.txt
[ ! -e t ] || fail "a directory for data that were not made"

# damage
refused 4 data check synthetic --format llmc --below tokens=1000
refused 3 data check wide --format megatron
refused 4 data check wide --format llmc
refused 4 data check synthetic --format llmc --seq-length 65000
refused 4 data check synthetic --format tokens
printf 'more' >>synthetic/gpt-00000-of-00001.bin
refused 4 data check synthetic --format llmc
truncate -s -4 synthetic/gpt-00000-of-00001.bin
truncate -s -2 synthetic/gpt-00000-of-00001.bin
refused 4 data check synthetic --format llmc
truncate -s -1 megatron/text-00000-of-00001.idx
refused 4 data check megatron/text-00000-of-00001 --format megatron
rm megatron/text-00000-of-00001.idx
refused 3 data check megatron --format megatron

# a clone without git-lfs: the pointer is named wherever data or weights are read
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1234567\n' 7 >pointer
mkdir -p images/c0
for file in images/c0/a.jpg data.tar.zst weights.safetensors a.rec a.idx; do
    cp pointer "$file"
done
for command in "data check images --format image_folder" "data check a.rec --format recordio" "data list data.tar.zst" \
    "data unpack data.tar.zst" "run gpt_tiny_fp32 --init weights.safetensors --no-ledger -o r.repro.tar.zst"; do
    # shellcheck disable=SC2086 # several words
    exit_of 4 "$REPRO" $command
    says "is a Git LFS pointer, not the file itself: 'git lfs pull' fetches that"
done
