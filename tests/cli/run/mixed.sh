#!/bin/sh
# Mixed precision: the recorded losses, norms and roots of the tiny recipes in fp16 and bf16, one kind of tensor core each, with few words unless LONG=1,
# on other instruction sets too; a step that overflows is recorded as Inf and changes nothing. RP_GOLDEN_UPDATE=1 writes the recorded values.
. "$TEST_DIR/common.inc"
need jq
golden=$TOP/tests/golden/mixed_few.txt
[ "${LONG:-0}" = 0 ] || golden=$TOP/tests/golden/mixed.txt
train() { # RECIPE OPTION...
    recipe=$1
    shift
    "$REPRO" run "$recipe" --steps 2 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false -f -o run.zst "$@" \
        >out.txt 2>err.txt || { cat err.txt >&2; fail "no bundle of $recipe"; }
    "$REPRO" inspect run.zst run.json | jq -r '"\(.numerics)"'
    "$REPRO" inspect run.zst steps/rank0.jsonl | jq -r 'select(.step >= 0) | "\(.step) \(.loss) \(.grad_norm)"'
    "$REPRO" inspect run.zst run.json | jq -r '"root \(.results.state_root_last)"'
}
cores() { # RECIPE: each kind of tensor core once
    case $1 in
    bert_tiny_fp16) echo tc4 ;;
    gpt_tiny_fp16 | bert_tiny_bf16) echo tc8 ;;
    *) echo tc16 ;;
    esac
}
few_words
few() { # RECIPE: options
    case $1 in bert*) echo "$bert_few" ;; gpt*) echo "$gpt_few" ;; esac
}
# shellcheck disable=SC2046 # words
for recipe in bert_tiny_fp16 bert_tiny_bf16 gpt_tiny_fp16 gpt_tiny_bf16 resnet50_tiny_fp16 resnet50_tiny_bf16; do
    echo "$recipe"
    train "$recipe" --threads 2 --set "train.tensor_core=$(cores "$recipe")" $([ "${LONG:-0}" != 0 ] || few "$recipe")
done >lines.txt
[ -z "${RP_GOLDEN_UPDATE:-}" ] || cp lines.txt "$golden"
cmp lines.txt "$golden" || { cat lines.txt >&2; fail "other bits than recorded"; }
grep -q '^0 0x[^ ]* inf$' lines.txt || fail "no step overflowed: $(cat lines.txt)"

# another instruction set and number of threads, with few words and small images; what takes long with LONG=1
others='resnet50_tiny_fp16:scalar:1 resnet50_tiny_bf16:avx2:3 bert_tiny_bf16:avx2:1'
[ "${LONG:-0}" = 0 ] || others="$others bert_tiny_fp16:scalar:2 gpt_tiny_fp16:avx2:3 gpt_tiny_bf16:scalar:2"
for other in $others; do
    recipe=${other%%:*} isa=${other#*:}
    threads=${isa#*:} isa=${isa%:*}
    grep -qw "$isa" /proc/cpuinfo || [ "$isa" = scalar ] || continue
    case $recipe in resnet*) small="--set task.image_size=32" ;; *) small=$(few "$recipe") ;; esac
    # shellcheck disable=SC2086 # words
    {
        train "$recipe" --threads 2 --set "train.tensor_core=$(cores "$recipe")" $small >lines.txt
        train "$recipe" --isa "$isa" --threads "$threads" --set "train.tensor_core=$(cores "$recipe")" $small >again.txt
    }
    cmp lines.txt again.txt || { cat again.txt >&2; fail "$recipe, $isa: other bits"; }
done
