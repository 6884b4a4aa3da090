#!/bin/sh
# BERT-base, GPT-2 124M or ResNet-50 training, strict fp32, against PyTorch: they take turns, so that a drifting clock or a busy neighbour meets both.
# amp: BERT-base in bf16, whose sums of a tensor core we compute in software, against PyTorch's bf16 autocast and its fp32.
# usage: training.sh bert|gpt|resnet50|amp [BUILD]      environment: THREADS=2 ROUNDS=3 STEPS=3 BATCH=32 (of gpt 4, of amp 8)
#        VARIANTS="eager compile" (of amp "eager bf16")  PEERS=BUILD/peers
# The table goes to standard output, raw records to BUILD/bench/MODEL.jsonl: one object per program and round.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
model=$1
build=$(cd "${2:-$top/build}" && pwd)
case $model in
bert) recipe=bert_fp32 default=32 ;;
gpt) recipe=gpt2_124m_fp32 default=4 ;;
resnet50) recipe=resnet50_fp32 default=32 ;;
amp) recipe=bert_bf16 default=8 ;;
*) echo "training.sh: unknown model '$model', expected bert, gpt, resnet50 or amp" >&2; exit 2 ;;
esac
script=$model variants='eager compile'
[ "$model" != amp ] || script=bert variants='eager bf16'
out=$build/bench
venv=${PEERS:-$build/peers}
threads=${THREADS:-2} rounds=${ROUNDS:-3} steps=${STEPS:-3} batch=${BATCH:-$default}
mkdir -p "$out"

. "$top/tests/bench/common.inc"
have_torch "$venv"

# One JSON object with the seconds of every timed step, from the step records of the bundle.
ours() {
    bundle=$out/$model-$1.repro.tar.zst
    "$build/repro" run "$recipe" --threads "$threads" --batch-size "$batch" --key "$out/key.pem" --force -o "$bundle" \
        --set measure.warmup_steps=1 --set measure.timed_steps="$steps" --set measure.repeats=1 >/dev/null
    tar --zstd -xOf "$bundle" --wildcards '*run.json' >"$out/run.json"
    tar --zstd -xOf "$bundle" --wildcards '*steps/rank0.jsonl' | jq -c -s --slurpfile run "$out/run.json" --argjson threads "$threads" \
        '{who: "repro", threads: $threads, batch: ([.[] | select(.phase == "timed")][0].samples),
          step_s: [.[] | select(.phase == "timed") | (.end_ns - .start_ns) / 1e9],
          gemm_flops_per_s: $run[0].ceilings.before.gemm_flops_per_s, peak_bytes: $run[0].peak_rss_bytes, state_roots_s: $run[0].results.state_roots.seconds,
          around_steps: ($run[0].results.between_steps_s / ([$run[0].results.windows[].seconds] | add))}'
}

peer() {
    "$top/tests/bench/peer.sh" "$venv/bin/python" "$top/tests/bench/${script}_torch.py" --threads "$threads" --batch "$batch" --steps "$steps" \
        --variant "$1"
}

printf 'PyTorch %s\n' "$("$top/tests/bench/peer.sh" "$venv/bin/python" -c 'import torch; print(torch.__version__)')"
[ -e "$out/key.pem" ] || "$build/repro" key new -o "$out/key.pem" >/dev/null
: >"$out/$model.jsonl"
round=1
while [ "$round" -le "$rounds" ]; do
    # shellcheck disable=SC2086
    for who in $(printf '%s\n' repro ${VARIANTS:-$variants} | shuf); do # a new order every round
        case $who in
        repro) ours "$round" ;;
        *) peer "$who" ;;
        esac >>"$out/$model.jsonl"
    done
    round=$((round + 1))
done

# Medians over all timed steps of all rounds; ratio = their seconds / ours.
jq -r -s '
    def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    group_by(.who) | map({who: .[0].who, n: (map(.step_s[]) | length), batch: .[0].batch, s: (map(.step_s[]) | median),
                          least: (map(.step_s[]) | min), most: (map(.step_s[]) | max), gb: ((map(.peak_bytes // 0) | max) / 1e9)})
    | (map(select(.who == "repro"))[0].s) as $ours
    | ["program", "steps", "median s", "min s", "max s", "samples/s", "peak GB", "speed-up of ours"],
      (.[] | [.who, .n, .s, .least, .most, .batch / .s, .gb, .s / $ours | if type == "number" then . * 1000 | round / 1000 else . end])
    | @tsv' "$out/$model.jsonl" |
    awk -F '\t' '{ printf "%-16s %6s %9s %8s %8s %12s %8s  %s\n", $1, $2, $3, $4, $5, $6, $7, $8 }'
jq -r -s 'map(select(.who == "repro")) | "state roots, outside the timed window: \(map(.state_roots_s) | max) s a run; around the steps inside it: \(
    map(.around_steps) | max * 10000 | round / 100) % of its time"' "$out/$model.jsonl"
jq -r -s 'group_by(.who) | map("\(.[0].who) \(map(.gemm_flops_per_s // 0) | max / 1e9 | round)") | "matrix products alone, GFLOP/s: \(join(", "))"' "$out/$model.jsonl"
