#!/bin/sh
# A run is repeated from its bundle alone: the same bits, a bundle that points at the first, and a check of both together.
. "$TEST_DIR/common.inc"
short_run first.repro.tar.zst --isa scalar --set train.batch_size=4
exit_of 0 "$REPRO" replicate first.repro.tar.zst --threads 2 -o second.repro.tar.zst
words err.txt '^original,'
words out.txt '^bits '
[ "$(tail -n 1 out.txt)" = second.repro.tar.zst ] || fail "the last line of stdout is not the bundle"
agreement() { # STATUS ARGUMENT...: the state of the check
    expected=$1
    shift
    exit_of "$expected" "$REPRO" verify --json --no-ledger "$@"
    jq -r '.checks[] | select(.check == "agreement").state' out.txt
}
[ "$(agreement 0 second.repro.tar.zst)" = note ] || fail "the original was not given"
[ "$(agreement 0 second.repro.tar.zst --original first.repro.tar.zst)" = note ] || fail "bits that can be copied are no note"
says_in 'equal bits can be copied' out.txt
steps=$("$REPRO" inspect second.repro.tar.zst steps/rank0.jsonl | wc -l)
[ "$(agreement 0 second.repro.tar.zst --original first.repro.tar.zst --replay "$steps")" = passed ] || fail "the original was given, and keyed roots replayed"
documents second.repro.tar.zst >both.json
statement=$("$REPRO" inspect first.repro.tar.zst statement.dsse.json | sha256sum | cut -c 1-64)
jq -e --arg s "$statement" '(.facts | .replicates.statement == $s and .recipe["train.batch_size"].value == 4) and
    [.run.agreement.settings[].key] == ["run.isa", "run.threads"]' both.json >answer.txt || { jq .run.agreement.settings both.json >&2; fail "not its settings"; }
"$REPRO" inspect second.repro.tar.zst statement.dsse.json | jq -r .payload | base64 -d | jq -e --arg s "$statement" \
    '.predicate.replicates == {statement: $s, bundle: "first.repro.tar.zst", signer: .predicate.replicates.signer}' >answer.txt ||
    fail "the statement does not point at the first run"
jq -es '.[2].event == "started" and .[2].replicates == $s' --arg s "$statement" ledger.jsonl >answer.txt || fail "not in the ledger"

# equal bits count where they were computed here, for the key that signed: roots can be copied
printf 'bits_equal: true\n' >mine.yaml
exit_of 9 "$REPRO" verify second.repro.tar.zst --original first.repro.tar.zst --policy mine.yaml --no-ledger
exit_of 0 "$REPRO" verify second.repro.tar.zst --original first.repro.tar.zst --policy mine.yaml --no-ledger --replay "$steps"
# another run is not the original, and a run that repeats none has none
[ "$(agreement 5 second.repro.tar.zst --original second.repro.tar.zst)" = failed ] || fail "its own original"
[ "$(agreement 5 first.repro.tar.zst --original second.repro.tar.zst)" = failed ] || fail "an original of no replication"
# what does not verify is not repeated
head -c 2000 first.repro.tar.zst >cut.repro.tar.zst
exit_of 4 "$REPRO" replicate cut.repro.tar.zst -o not.repro.tar.zst
words
"$REPRO" key new -o other.key >other.txt
sed -n '3,$p' other.txt >other.pem
exit_of 6 "$REPRO" replicate first.repro.tar.zst --trust other.pem -o not.repro.tar.zst
[ ! -e not.repro.tar.zst ] || fail "a bundle was written"
# only where it runs is free
exit_of 2 "$REPRO" replicate first.repro.tar.zst --set train.batch_size=8
exit_of 2 "$REPRO" replicate first.repro.tar.zst --init first.repro.tar.zst
# samples of the owner have to be named, and to be the same
mkdir mine theirs
"$REPRO" data unpack bert_sample.tar.zst >unpacked.txt
find "$(sed -n '$p' unpacked.txt)" -name '*.tfrecord' -exec cp {} mine/ \;
[ -n "$(find mine -name '*.tfrecord')" ] || { cat unpacked.txt >&2; fail "no samples"; }
tiny=bert_tiny_fp32
short_run own.repro.tar.zst --set data.path=mine
exit_of 7 "$REPRO" replicate own.repro.tar.zst -o not.repro.tar.zst
words
cp mine/* theirs/
cat mine/*.tfrecord >theirs/z.tfrecord
exit_of 5 "$REPRO" replicate own.repro.tar.zst --data theirs -o not.repro.tar.zst
words
mv mine here
exit_of 0 "$REPRO" replicate own.repro.tar.zst --data here --json -o third.repro.tar.zst
jq -e '.agreement.bits.equal == true and .bundle == "third.repro.tar.zst"' out.txt >answer.txt || fail "own data, other bits"
exit_of 0 "$REPRO" verify third.repro.tar.zst --original own.repro.tar.zst --no-ledger
