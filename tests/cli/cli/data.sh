#!/bin/sh
# Sample data through the command line: made the same twice, checked, packed, listed, unpacked, and damage is found and named.
. "$TEST_DIR/common.inc"
small="--sequences 40 --seq-length 32 --max-predictions-per-seq 5 --shards 2 --vocab-size 5000"
# shellcheck disable=SC2086 # several words
"$REPRO" data make bert one $small >out.txt
[ "$(cat out.txt)" = one ] || fail "the path is not printed"
# shellcheck disable=SC2086
"$REPRO" data make bert two $small --json | jq -e '.sequences == 40 and .shards == 2' >answer.txt
diff -r one two
# shellcheck disable=SC2086
"$REPRO" data make bert other $small --seed 2 >out.txt
diff -rq one other >answer.txt && fail "another seed gives the same bytes"
# shellcheck disable=SC2086
exit_of 2 "$REPRO" data make bert one --seq-length 4
exit_of 2 "$REPRO" data make bert one --sequences 3 --shards 4
words
exit_of 2 "$REPRO" data make imagenet one
says "'imagenet'"
says bert
# shellcheck disable=SC2086
"$REPRO" data make bert_tfrecord same $small >out.txt
diff -r one same
"$REPRO" data check one --json >check.json
jq -e '.records == 40 and .seq_length == 32 and .max_predictions_per_seq == 5 and .files == 2' check.json >answer.txt || { cat check.json >&2; fail "wrong counts"; }
[ "$(jq -r .digest check.json)" = "$(find one -type f | sort | xargs sha256sum | cut -c1-64 | sha256sum | cut -c1-64)" ] || fail "the digest is not that of sha256sum"
"$REPRO" data check one --format bert_tfrecord --json | cmp - check.json
[ "$(jq -r .format check.json)" = bert_tfrecord ] || fail "the format is not reported"
"$REPRO" data check one >text.txt
sed 's/  .*//' text.txt
exit_of 2 "$REPRO" data check one --format imagenet
says "'imagenet'"
says bert_tfrecord
exit_of 4 "$REPRO" data check one --below input_ids=500
says record
says input_ids
exit_of 4 "$REPRO" data check one --below next_sentence_labels=1
says next_sentence_labels
exit_of 0 "$REPRO" data check one --below input_ids=5000 --below masked_lm_ids=5000
for wrong in input_ids input_ids= input_ids=0 input_ids=x ids=500 input_ids=5000x =5; do
    exit_of 2 "$REPRO" data check one --below "$wrong"
    says "'$wrong'"
    says masked_lm_ids
done
# shellcheck disable=SC2086
"$REPRO" data make bert s.tar.zst $small >out.txt
"$REPRO" data list s.tar.zst >members.txt
[ "$(wc -l <members.txt)" = 2 ] || { cat members.txt >&2; fail "not two members"; }
dir=$("$REPRO" data unpack s.tar.zst --store st)
[ "${dir##*/}" = "sha256-$(sha256sum <s.tar.zst | cut -c1-64)" ] || fail "unpacked into $dir"
[ "$("$REPRO" data check "$dir" --json | jq -r .digest)" = "$(jq -r .digest check.json)" ] || fail "the unpacked files differ"
# every other archive that is written or read: the libraries of this program have no more than it calls
(cd one && zip -q ../s.zip ./*)
for ending in tar tar.gz tar.xz tar.bz2 tar.lz4 zip; do
    # shellcheck disable=SC2086
    [ "$ending" = zip ] || "$REPRO" data make bert "s.$ending" $small >out.txt
    dir2=$("$REPRO" data unpack "s.$ending" --store st3)
    [ "$("$REPRO" data check "$dir2" --json | jq -r .digest)" = "$(jq -r .digest check.json)" ] || fail "s.$ending: the unpacked files differ"
done
rm s.zip
"$REPRO" data list --store st --json | jq -e '(.archives | length == 1) and (.embedded | type == "array")' >answer.txt
# the embedded archive by its name, and a file of that name before it
name=$("$REPRO" data list --json | jq -r '.embedded[0].name')
"$REPRO" data list "$name" >members.txt
[ -s members.txt ] || fail "no members of the embedded archive"
dir2=$("$REPRO" data unpack "$name" --store st2)
[ "$(find "$dir2" -name '*.tfrecord' | wc -l)" = "$(wc -l <members.txt)" ] || fail "unpacked into $dir2"
cp s.tar.zst "$name"
dir2=$("$REPRO" data unpack "$name" --store st2)
[ "${dir2##*/}" = "${dir##*/}" ] || fail "unpacked into $dir2, not the file's"
exit_of 5 "$REPRO" data unpack s.tar.zst --store st --sha256 0000000000000000000000000000000000000000000000000000000000000000
exit_of 2 "$REPRO" data unpack s.tar.zst --store st --sha256 00
exit_of 0 "$REPRO" data check --store st
exit_of 0 "$REPRO" data check --store empty
says_in "the store empty is empty" out.txt
# a name that promises an archive which is not written makes no directory of that name
# shellcheck disable=SC2086
exit_of 2 "$REPRO" data make bert s.zip $small
[ ! -e s.zip ] || fail "s.zip was made"
# one byte of one record
file=$(find "$dir" -name '*.tfrecord' | sort | tail -n 1)
chmod u+w "$file"
printf 'X' | dd of="$file" bs=1 seek=40 conv=notrunc 2>/dev/null
exit_of 5 "$REPRO" data check --store st
exit_of 4 "$REPRO" data check "$dir"
says "${file##*/}"
words
