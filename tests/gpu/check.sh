#!/bin/bash
# What only a machine with an NVIDIA GPU can tell, in the order of its worth; each part's result is written as it ends.
#
#   check.sh REPRO [PART...]      MINUTES=12 in all      DEVICE=0      PYTHON=python3 (the one that has PyTorch)
#
#   capture   what repro says of the machine against nvidia-smi, value by value           tests/gpu/capture.sh
#   ops       every operation against its literal definition; compute-sanitizer where it is
#   bits      bert_tiny_fp32 and three steps of BERT-base b32 with dropout: GPU and CPU, line by line
#   speed     matrix products beside cuBLAS in strict fp32, attention, memory-bound operations beside a copy
#   train     BERT-base b32, b64, b96 and the largest batch, beside PyTorch eager and compiled, TF32 off and on
#   bundles   the shipped recipes in full, sealed and kept; two steps of one replayed on the CPU
#
# Needs no network and builds nothing. Everything is left in ./gpu-check: log.txt, result.json, bundles, and what each part looked at.
# `make gpu-check` calls it; `make gpu-pack` puts it with a built program into one file for a machine without a checkout.
# Exit status 0 when nothing failed, 1 when something did, 7 where there is no GPU.
set -uo pipefail
export LC_ALL=C NO_COLOR=1
here=$(cd "$(dirname "$0")" && pwd)
repro=$(realpath "$1")
shift
parts=${*:-capture ops bits speed train bundles}
device=${DEVICE:-0} python=${PYTHON:-python3}
deadline=$(($(date +%s) + ${MINUTES:-12} * 60))
command -v jq >/dev/null || { [ -x "$here/tools/jq" ] && PATH=$here/tools:$PATH; }
command -v jq >/dev/null || { echo "gpu-check: jq is needed (env/setup.sh test, or a packed tree that carries it)" >&2 && exit 7; }
"$repro" selftest --backend cuda --device "$device" --json >/dev/null 2>first.err
if [ $? = 7 ]; then
    sed 's/^/gpu-check: /' first.err >&2
    rm -f first.err
    exit 7
fi
rm -rf gpu-check first.err
mkdir gpu-check
cd gpu-check || exit 1
export REPRO_KEY=$PWD/key.pem XDG_CACHE_HOME=$PWD/cache
"$repro" key new -o key.pem >/dev/null
exec > >(tee log.txt) 2>&1
echo '{}' >result.json

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)) && echo "ok      $*"; }
miss() { failed=$((failed + 1)) && echo "not ok  $*"; }
skip() { skipped=$((skipped + 1)) && echo "skip    $*"; }
left() { echo $((deadline - $(date +%s))); }
# Put the JSON on standard input into result.json under a name.
keep() { jq --arg name "$1" --slurpfile new /dev/stdin '.[$name] = $new[0]' result.json >result.new && mv result.new result.json; }
# Run with a limit of so many seconds, or what is left if that is less; 124: no time.
within() {
    local limit=$1 rest
    rest=$(left)
    shift
    [ "$rest" -gt 5 ] || return 124
    timeout -k 5 "$((limit < rest ? limit : rest))" "$@"
}
torch() { [ -n "$have_torch" ] && "$@"; }
have_torch=$("$python" -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' 2>/dev/null)

part_capture() {
    "$here/capture.sh" "$repro" | tee capture.txt
    local ok bad passed_over
    ok=$(grep -c '^ok ' capture.txt) bad=$(grep -c '^not ok ' capture.txt) passed_over=$(grep -c '^skip ' capture.txt)
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + passed_over))
    [ $((ok + bad)) -gt 0 ] || miss "capture.sh told nothing"
    jq -n --argjson ok "$ok" --argjson bad "$bad" --argjson skip "$passed_over" '{passed: $ok, failed: $bad, skipped: $skip}' | keep capture
}

part_ops() {
    if within 120 "$repro" selftest --backend cuda --device "$device" --json >ops.json 2>ops.err; then
        pass "$(jq -r '.operations | "\(length) operations, \(map(.cases) | add) cases: the bits of the definition"' ops.json)"
    else
        miss "selftest: $(tail -n 1 ops.err)"
        jq -r '.operations[]? | select(.failed > 0) | "        \(.op): \(.failed) of \(.cases) cases"' ops.json
    fi
    keep ops <ops.json
    if RP_CUDA_GEMM=rotate within 60 "$repro" selftest --backend cuda --device "$device" --json >products.json 2>products.err; then
        pass "$(jq -r '.operations[] | select(.op == "gemm") | "\(.cases) products in every way: the bits of the definition"' products.json)"
    else
        miss "products in every way: $(tail -n 1 products.err)"
    fi
    for tool in memcheck racecheck; do
        command -v compute-sanitizer >/dev/null || { skip "$tool: there is no compute-sanitizer" && continue; }
        within 100 compute-sanitizer --tool $tool --target-processes all --error-exitcode 9 \
            "$repro" selftest --backend cuda --device "$device" >sanitizer.$tool.txt 2>&1
        case $? in
        0) pass "compute-sanitizer $tool: $(grep 'ERROR SUMMARY' sanitizer.$tool.txt | tail -n 1)" ;;
        9) miss "compute-sanitizer $tool: $(grep 'ERROR SUMMARY' sanitizer.$tool.txt | tail -n 1), see sanitizer.$tool.txt" ;;
        124) skip "compute-sanitizer $tool: not done in time" ;;
        *) skip "compute-sanitizer $tool does not work here: $(tail -n 1 sanitizer.$tool.txt)" ;;
        esac
    done
}

# The same run on both backends: losses, norms and state roots of every step.
same_bits() { # NAME RECIPE OPTION...
    local name=$1 recipe=$2 backend
    shift 2
    for backend in cuda cpu; do
        within 240 "$repro" run "$recipe" --backend $backend --device "$device" "$@" --set evidence.state_root_every=1 --set measure.repeats=1 \
            --set measure.warmup_steps=0 --force -o "bits-$name-$backend.repro.tar.zst" >bits.txt 2>&1 ||
            { miss "$name on $backend: status $?: $(tail -n 1 bits.txt)" && return; }
        "$repro" inspect "bits-$name-$backend.repro.tar.zst" steps/rank0.jsonl |
            jq -c '{step, loss, mlm_loss, nsp_loss, grad_norm, state_root, tokens}' >"bits-$name-$backend.jsonl"
    done
    if cmp -s "bits-$name-cuda.jsonl" "bits-$name-cpu.jsonl"; then
        pass "$name: $(($(wc -l <"bits-$name-cuda.jsonl") - 1)) steps, the same losses, norms and state roots on GPU and CPU"
    else
        miss "$name: GPU and CPU differ, from:"
        diff "bits-$name-cuda.jsonl" "bits-$name-cpu.jsonl" | head -n 4
    fi
}

part_bits() {
    same_bits tiny bert_tiny_fp32 --set measure.timed_steps=20
    same_bits base bert_fp32 --set measure.timed_steps=3
    same_bits accumulated bert_tiny_fp32 --set measure.timed_steps=3 --set train.accumulation_steps=5
    same_bits lamb bert_lamb_fp32 --batch-size 4 --set train.accumulation_steps=1 --set measure.timed_steps=2
    cat bits-*-cuda.jsonl | jq -s '{steps: length}' | keep bits
}

part_speed() {
    within 120 "$repro" selftest --speed --backend cuda --device "$device" --json >speed.json 2>speed.err ||
        { miss "selftest --speed: $(tail -n 1 speed.err)" && return; }
    echo '[]' >cublas.json
    torch within 120 "$python" "$here/../bench/gemm_torch.py" --device "cuda:$device" <speed.json >cublas.json 2>cublas.err ||
        skip "no PyTorch with CUDA: nothing beside the products"
    jq -n --slurpfile ours speed.json --slurpfile theirs cublas.json '
        {rows: [$ours[0].speed[] as $r | ($theirs[0][] | select(.what == $r.what and .shape == $r.shape)) // null | {what: $r.what, name: $r.name,
            shape: $r.shape, us: ($r.seconds * 1e6), tflops: (if $r.flops > 0 then $r.flops / $r.seconds / 1e12 else null end),
            gbs: ($r.bytes / $r.seconds / 1e9), cublas_us: (if . then .seconds * 1e6 else null end),
            of_cublas: (if . and .seconds then .seconds / $r.seconds else null end)}]}' >table.json
    keep speed <table.json
    jq -r '.rows[] | [.what, .name, .shape, (.us * 10 | round / 10), (if .tflops then .tflops * 100 | round / 100 else "" end), (.gbs | round),
        (if .of_cublas then .of_cublas * 1000 | round / 1000 else "" end)] | @tsv' table.json |
        awk -F '\t' 'BEGIN { printf "%-30s %-18s %-16s %10s %8s %6s %9s\n", "operation", "", "size", "us", "TFLOP/s", "GB/s", "of cuBLAS" }
            { printf "%-30s %-18s %-16s %10s %8s %6s %9s\n", $1, $2, $3, $4, $5, $6, $7 }'
    jq -r '[.rows[].of_cublas | select(.)] | select(length > 0) | "geometric mean of cuBLAS strict fp32: \((map(log) | add / length | exp) * 1000 | round / 1000) over \(length) products"' table.json
    pass "measured $(jq '.rows | length' table.json) operations"
}

# Sequences a second of ours, the median of three windows.
ours() { # BATCH STEPS
    within 150 "$repro" run bert_fp32 --backend cuda --device "$device" --batch-size "$1" --set measure.warmup_steps=5 --set measure.timed_steps="$2" \
        --set measure.repeats=3 --force -o "train-b$1.repro.tar.zst" >train.txt 2>&1 ||
        { miss "BERT-base batch $1: status $?: $(tail -n 1 train.txt)" && return 1; }
    "$repro" inspect "train-b$1.repro.tar.zst" run.json |
        jq -c --arg batch "$1" '{who: "repro", batch: .plan.batch, asked: $batch, tf32: false, sequences_per_s: .results.sequences_per_s, device_bytes: (.device_bytes // null)}'
}
peer() { # BATCH VARIANT [--tf32]
    torch within 150 "$python" "$here/../bench/bert_torch.py" --device "cuda:$device" --batch "$1" --variant "$2" --warmup 5 --steps 30 ${3:+"$3"} 2>peer.err |
        jq -c '{who, batch, tf32, sequences_per_s: (.batch / (.step_s | sort | .[length / 2 | floor])), device_bytes: .peak_bytes}'
}

part_train() {
    local batch variant tf32 steps
    : >train.jsonl
    for batch in 32 96 64 max; do
        steps=30
        [ $batch != max ] || steps=5
        ours $batch $steps | tee -a train.jsonl
        [ $batch != max ] || continue
        for variant in eager compile; do
            for tf32 in "" --tf32; do
                [ "$(left)" -gt 90 ] && peer $batch $variant "$tf32" | tee -a train.jsonl
            done
        done
    done
    jq -s . train.jsonl | keep train
    jq -r -s '(map(select(.who == "repro")) | map({key: (.batch | tostring), value: .sequences_per_s}) | from_entries) as $ours
        | .[] | [.who, .batch, (if .tf32 then "TF32" else "fp32" end), (.sequences_per_s * 10 | round / 10),
                 (if $ours[.batch | tostring] then $ours[.batch | tostring] / .sequences_per_s * 1000 | round / 1000 else "" end)] | @tsv' train.jsonl |
        awk -F '\t' 'BEGIN { printf "%-18s %6s %6s %12s %16s\n", "program", "batch", "", "sequences/s", "ours over it" }
            { printf "%-18s %6s %6s %12s %16s\n", $1, $2, $3, $4, $5 }'
    if grep -q '"repro"' train.jsonl; then pass "trained with $(wc -l <train.jsonl) programs and batches"; fi
}

part_bundles() {
    local recipe status
    for recipe in bert_fp32 bert_tiny_fp32 bert_fp32_b96 bert_lamb_fp32 bert_large_fp32; do
        within 200 "$repro" run $recipe --backend cuda --device "$device" -o $recipe.repro.tar.zst >bundle.txt 2>&1
        status=$?
        case $status in
        0) pass "$recipe: $(head -n 1 bundle.txt)" ;;
        124) skip "$recipe: no time left" && continue ;;
        *) miss "$recipe: status $status: $(tail -n 1 bundle.txt)" && continue ;;
        esac
        "$repro" verify $recipe.repro.tar.zst >verify.txt 2>&1 || miss "$recipe does not verify: $(tail -n 1 verify.txt)"
    done
    if [ -e bert_fp32.repro.tar.zst ] && [ "$(left)" -gt 30 ]; then
        if CUDA_VISIBLE_DEVICES='' within 300 "$repro" verify bert_fp32.repro.tar.zst --replay 2 >replay.txt 2>&1; then
            pass "bert_fp32: two steps replayed on the CPU are bit-equal"
        else miss "replaying bert_fp32: $(tail -n 1 replay.txt)"; fi
    fi
    find . -maxdepth 1 -name '*.repro.tar.zst' -printf '%f\n' | jq -R -s 'split("\n") | map(select(. != ""))' | keep bundles
}

for part in $parts; do
    type "part_$part" >/dev/null 2>&1 || { miss "there is no part '$part'" && continue; }
    if [ "$(left)" -lt 10 ]; then
        skip "$part: no time left"
        continue
    fi
    begin=$(date +%s)
    echo "== $part"
    "part_$part"
    echo "== $part took $(($(date +%s) - begin)) s"
done
jq -n --arg torch "$have_torch" --argjson passed $passed --argjson failed $failed --argjson skipped $skipped \
    --slurpfile version <("$repro" version --json) '{version: $version[0], torch: $torch, passed: $passed, failed: $failed, skipped: $skipped}' | keep about
rm -rf cache result.new
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
