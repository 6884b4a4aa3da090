#!/bin/sh
# A mistake that never reached training is no attempt: a message and a status, no line in the ledger, no bundle.
. "$TEST_DIR/common.inc"
export REPRO_LEDGER="$PWD/ledger.jsonl"
refused() { # STATUS OPTION...
    expected=$1
    shift
    exit_of "$expected" "$REPRO" run bert_tiny_fp32 --steps 1 -o no.zst "$@"
    [ ! -e no.zst ] || fail "$*: a bundle was sealed"
    [ ! -s out.txt ] || fail "$*: a result"
    [ ! -e ledger.jsonl ] || fail "$*: a line in the ledger"
}
# samples of another length, with values out of range, and files of another format
"$REPRO" data make bert short --sequences 64 --seq-length 64 >make.txt
refused 4 --set data.path=short
words
"$REPRO" data make bert own --sequences 64 >make.txt
refused 4 --set data.path=own --set model.vocab_size=500
words
mkdir odd
printf 'no records' >odd/a.tfrecord
refused 4 --set data.path=odd
words
# a GPU that this machine, or this build, does not have
refused 7 --backend cuda --device 99
# --init of something that is no checkpoint, or of another model
mkdir empty
refused 3 --init empty
"$REPRO" data make bert text --sequences 4 >make.txt
for file in text/*; do
    refused 4 --init "$file"
    break
done
"$REPRO" run bert_tiny_fp32 --threads 1 --steps 1 --no-ledger --save other.safetensors -o other.zst >run.txt 2>err.txt || fail "no checkpoint"
refused 4 --init other.safetensors --set model.num_hidden_layers=1
words
refused 4 --init other.safetensors --set model.num_hidden_layers=3
words
tiny=bert_tiny_fp32
make_bundle good.zst --set data.path=own --set measure.ceilings=false
[ "$(wc -l <ledger.jsonl)" = 2 ] || fail "the run that trained has no lines"
