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
expect "auto scalar avx2 avx512" repro run --isa =
expect "bert_tiny_fp32 bert_tiny_fp16 bert_tiny_bf16" repro run bert_t
expect "gpt" repro recipes keys g
expect "gpt" repro recipes list ""
expect "gpt/MP_PP_1x8x4_512_2304x24 gpt/MP_PP_1x8x4_512_2304x24_fp16" repro run gpt/MP_PP
expect "--encrypt" repro key new --enc
expect "replicate report recipes" repro help re
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
