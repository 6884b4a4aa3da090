#!/bin/sh
# --save and --init of directories: the same bits as of one file, what is lacking is recorded, and what does not fit is refused before the ledger.
. "$TEST_DIR/common.inc"
need jq
export REPRO_LEDGER="$PWD/ledger.jsonl"
entries() {
    "$REPRO" ledger list --json | jq '.lines | length'
}
root_of() { # BUNDLE: the state root after the last step
    "$REPRO" inspect "$1" steps/rank0.jsonl | jq -r 'select(.state_root) | .state_root' | tail -n 1
}
recorded() { # BUNDLE FILTER
    "$REPRO" inspect "$1" facts.json | jq -r "$2"
}
tiny=bert_tiny_fp32
make_bundle file.zst --save whole.safetensors
make_bundle dir.zst --save made/
[ "$(find made -type f | sort | tr '\n' ' ')" = "made/config.json made/model.safetensors made/optimizer.safetensors " ] || fail "$(find made)"
[ "$(jq -r '.architectures[0], .model_type, .hidden_size' made/config.json | tr '\n' ' ')" = "BertForPreTraining bert 128 " ] || fail "config.json"
make_bundle on_file.zst --init whole.safetensors
make_bundle on_dir.zst --init made --save made --force
[ "$(root_of on_file.zst)" = "$(root_of on_dir.zst)" ] || fail "a directory does not continue the run as a file does"
[ "$(recorded on_dir.zst '.init.optimizer_state, .init.steps')" = "$(printf 'true\n2')" ] || fail "$(recorded on_dir.zst .init)"
[ "$(recorded dir.zst .init)" = null ] || fail "a run from a seed has files"
[ -z "$(find . -name '*.part')" ] || fail "unfinished files"
exit_of 0 "$REPRO" verify on_dir.zst
make_bundle no_slots.zst --init made/model.safetensors
[ "$(recorded no_slots.zst '.init.optimizer_state')" = false ] || fail "moments of a file without them"

# Weights in 16 bits, for other tools: half the bytes, no state to continue from, and they load.
for type in fp16 bf16; do
    make_bundle "low_$type.zst" --save "$type/" --set run.save_precision=$type
    [ "$(find $type -type f | sort | tr '\n' ' ')" = "$type/config.json $type/model.safetensors " ] || fail "$(find $type)"
    [ "$(($(wc -c <made/model.safetensors) / 1000))" -gt "$(($(wc -c <$type/model.safetensors) * 19 / 10000))" ] || fail "$type is not half as large"
    make_bundle "from_$type.zst" --init $type
    [ "$(recorded "from_$type.zst" '.init.types[], .init.optimizer_state')" = "$(printf '%s\nfalse' "$(echo $type | sed "s/fp16/F16/; s/bf16/BF16/")")" ] ||
        fail "$type: $(recorded "from_$type.zst" .init)"
done
[ "$(jq -r .torch_dtype bf16/config.json fp16/config.json | tr '\n' ' ')" = "bfloat16 float16 " ] || fail "config.json has another type"

before=$(entries)
[ "$before" -gt 0 ] || fail "no ledger found"
refused() { # STATUS OPTION...
    status=$1
    shift
    exit_of "$status" "$REPRO" run bert_tiny_fp32 --steps 1 -o never.zst "$@"
    words
    [ ! -e never.zst ] || fail "a bundle was sealed: $*"
    [ "$(entries)" = "$before" ] || fail "the ledger has an entry: $*"
}
refused 4 --init made --set model.hidden_dropout_prob=0.25
refused 4 --init made/model.safetensors --set model.num_hidden_layers=1
refused 4 --init made/config.json
refused 3 --init .
refused 2 --save made
mkdir -p taken/model.safetensors
refused 2 --save taken --force
refused 3 --save missing/dir/
refused 2 --save low.safetensors --set run.save_precision=bf16
# A stranger's recipe makes no directory outside, also not through a link.
mkdir elsewhere here
ln -s ../elsewhere here/out
cd here
for save in out/ out/new/ ../elsewhere/; do
    "$REPRO" recipes show bert_tiny_fp32 >foreign.yaml
    printf 'run: {save: "%s"}\n' "$save" >>foreign.yaml
    exit_of 2 "$REPRO" run foreign.yaml --steps 1 -o never.zst
    words
done
[ -z "$(find ../elsewhere -mindepth 1)" ] || fail "a recipe wrote outside"
