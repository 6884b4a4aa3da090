#!/bin/sh
# A log given to compare, or a folder of logs: the message has the import to run instead, which reads it.
. "$TEST_DIR/common.inc"
need jq
corpus=$TOP/tests/fuzz/corpus/import
n=0
formats=$(sed -n 's/^FORMAT(\([a-z0-9_]*\),.*/\1/p' "$TOP/src/import/formats.def")
for format in $formats; do
    case $format in
    csv) from=wandb_history.jsonl ;;
    dlperf) from=oneflow.log ;;
    *) from=$format.log ;;
    esac
    mkdir "$format"
    tail -c +3 "$corpus/$from" >"$format/1.txt" # the first two bytes are the fuzz target's
    for operand in "$format/1.txt" "$format"; do
        exit_of 4 "$REPRO" compare "$operand" --json
        command=$(jq -r '.error.message | capture("'"'"'repro (?<c>import [^'"'"']*) -o results.json'"'"'").c' out.txt)
        [ "${command%% "$format/"*}" = "import $format" ] || fail "$operand: $(cat out.txt)"
        # shellcheck disable=SC2086 # words of a command line, with a pattern
        exit_of 0 "$REPRO" $command -o results.json --force --set global_batch=16
        n=$((n + 1))
    done
done
[ $n -ge 22 ] || fail "$n operands tried"
for name in hf_trainer.json nccl.json; do # one document, not a line for each result
    tail -c +3 "$corpus/$name" >"$name"
    exit_of 4 "$REPRO" compare "$name"
    says "import ${name%.json} $name "
done
printf 'hello\n' >notes.txt
exit_of 4 "$REPRO" compare notes.txt
says 'neither a bundle nor'
mkdir empty
exit_of 3 "$REPRO" compare empty
says 'is a directory'
