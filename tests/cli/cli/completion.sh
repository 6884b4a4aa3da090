#!/bin/bash
# The completion scripts are valid shell, and complete commands, subcommands, options, choices and recipes from the table.
. "$TEST_DIR/common.inc"
"$REPRO" help --completion bash >repro.bash
bash -n repro.bash
# shellcheck source=/dev/null
. ./repro.bash
expect() { # EXPECTED WORD...: the last word is being typed
    want=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _repro 2>/dev/null || : # compopt works only while completing
    [ "${COMPREPLY[*]}" = "$want" ] || fail "'$*' completes to '${COMPREPLY[*]}', expected '$want'"
}
expect "verify version" repro ve
expect "new show trust" repro key ""
expect "show" repro recipes s
expect "--isa" repro run --is
expect "avx2 avx512" repro run x --isa av
expect "avx2 avx512" repro run x --isa = av
expect "auto scalar avx2 avx512 neon" repro run --isa =
expect "bert_tiny_fp32 bert_tiny_fp16 bert_tiny_bf16" repro run bert_t
expect "gpt" repro recipes keys g
expect "gpt" repro recipes list ""
expect "gpt/MP_PP_1x8x4_512_2304x24 gpt/MP_PP_1x8x4_512_2304x24_fp16" repro run gpt/MP_PP
expect "--encrypt" repro key new --enc
expect "report replicate recipes" repro help re
# names of lists: keys of --set, published tables, kinds, formats, probes, fields, schemas
expect "train.batch_size=" repro run x --set train.bat
expect "train.batch_size=" repro estimate -s train.bat
expect "k8s-indexed-job k8s-jobset" repro launch k8
expect "bert_tiny_fp32 bert_tiny_fp16 bert_tiny_bf16" repro launch srun --recipe bert_t
expect "nccl" repro import ncc
expect "mllog" repro export ml
expect "megatron" repro data make meg
expect "megatron" repro data bench --format meg
expect "cpu" repro capture --probe cp
expect "cpu.model_name" repro capture --explain cpu.model_n
expect "dgx-h100" repro estimate --machine dgx-h10
expect "torchrun" repro run --launcher torchr
expect "telemetry" repro schema tele
expect "published:gpt_v100" repro compare published:gp
expect "gpt_v100" repro compare x published : gp
touch bert_t.yaml "with blank"
expect "bert_tiny_fp32 bert_tiny_fp16 bert_tiny_bf16 bert_t.yaml" repro run bert_t
expect "with blank" repro verify wi
expect "with blank" repro verify --trust wi
"$REPRO" help --json >table.json
commands >names.txt
while read -r name; do
    # shellcheck disable=SC2086
    set -- repro $name --
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _repro 2>/dev/null || : # compopt works only while completing
    for option in $(jq -r --arg n "$name" '.commands[] | select(.name == $n).options[].name' table.json) json quiet help; do
        case " ${COMPREPLY[*]} " in *" --$option "*) ;; *) fail "--$option of '$name' is not completed" ;; esac
    done
done <names.txt
"$REPRO" help --completion zsh >_repro
head -n 1 _repro | grep -qx '#compdef repro' || fail "zsh would not find the command"
if command -v zsh >/dev/null; then zsh -n _repro; fi
# fish: every option of every command, the names of lists, and the same scripts are valid there
"$REPRO" help --completion fish >repro.fish
while read -r name; do
    for option in $(jq -r --arg n "$name" '.commands[] | select(.name == $n).options[].name' table.json); do
        grep -q "^complete -c repro -n '__repro_is $name' -l $option " repro.fish || fail "fish: --$option of '$name' is not completed"
    done
done <names.txt
grep -q "^complete -c repro -n '__repro_is run' -l set -s s -x -a '.* train.batch_size= " repro.fish || fail "fish: no keys"
if command -v fish >/dev/null; then
    fish -n repro.fish || fail "fish: not a valid script"
    in_fish() { HOME=$PWD fish --no-config -c 'source repro.fish; complete -C $argv[1] | string split -f1 \t | string join " "' "$1"; }
    [ "$(in_fish 'repro key ')" = 'new show trust' ] || fail "fish: repro key completes to '$(in_fish 'repro key ')'"
    [ "$(in_fish 'repro run x --isa av')" = 'avx2 avx512' ] || fail "fish: --isa completes to '$(in_fish 'repro run x --isa av')'"
    [ "$(in_fish 'repro ve')" = 'verify version' ] || fail "fish: ve completes to '$(in_fish 'repro ve')'"
    [ "$(in_fish 'repro run --set train.bat')" = 'train.batch_size=' ] || fail "fish: --set completes to '$(in_fish 'repro run --set train.bat')'"
fi
