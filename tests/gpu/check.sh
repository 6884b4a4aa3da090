#!/bin/bash
# What only a machine with an NVIDIA GPU can tell, in the order of its worth; each part's result is written as it ends.
#
#   check.sh REPRO [PART...]      MINUTES=9 in all      DEVICE=0      PYTHON=python3 (the one that has PyTorch)
#   KEEP=DIR: everything so far in gpu-check.tar.gz there, after each part, for a machine that may be taken away
#
#   capture    what repro says of the machine against nvidia-smi, value by value           tests/gpu/capture.sh
#   ops        every operation against its literal definition
#   bits       the tiny recipes, steps of BERT-base b32 with dropout, GPT-2 124M b2 and ResNet-50 b4: GPU and CPU, line by line
#   ranks      two ranks that share the GPU and one on it beside one on processors, by sockets; with several GPUs all of them, by NCCL, with and
#              without the exchange during the backward pass: the bits of one rank
#   train      BERT-base b32, b96, the largest batch and b64, GPT-2 124M b4 x 1024, ResNet-50 b128 and the largest batch: sequences, tokens and
#              images a second
#   bundle     the recipe bert_fp32 in full, sealed and kept; two steps of it replayed on the CPU
#   speed      matrix products beside cuBLAS in strict fp32, causal attention beside scaled_dot_product_attention, convolutions beside cuDNN in
#              strict fp32 and channels last, memory-bound operations beside a copy
#   peers      the same training by PyTorch, compiled and eager, TF32 off and on, as far as time goes
#   bundles    the other recipes in full, sealed and kept
#   sanitizer  the operations under compute-sanitizer: memcheck and racecheck
#
# Needs no network and builds nothing. Everything is left in ./gpu-check: log.txt, result.json, bundles with key.pem that checks them, and
# what each part looked at. `make gpu-check` calls it; `make gpu-pack` puts it with a built program into one file for a machine without a
# checkout. Exit status 0 when nothing failed, 1 when something did, 7 where there is no GPU. What there is no time for is skipped, not failed.
set -uo pipefail
export LC_ALL=C NO_COLOR=1 PATH=$PATH:/usr/local/nvidia/bin
here=$(cd "$(dirname "$0")" && pwd)
repro=$(realpath "$1")
shift
parts=${*:-capture ops bits ranks train bundle speed peers bundles sanitizer}
device=${DEVICE:-0} python=${PYTHON:-python3} keep=${KEEP:+$(realpath "$KEEP")}
deadline=$(($(date +%s) + ${MINUTES:-9} * 60))
command -v jq >/dev/null || { [ -x "$here/tools/jq" ] && PATH=$here/tools:$PATH; }
command -v jq >/dev/null || { echo "gpu-check: jq is needed (env/setup.sh test, or a packed tree that carries it)" >&2 && exit 7; }
# A plan opens the device for its memory: the shortest way to know that there is one.
timeout -k 5 90 "$repro" run bert_tiny_fp32 --plan --backend cuda --device "$device" --json >/dev/null 2>first.err || {
    status=$?
    sed 's/^/gpu-check: /' first.err >&2
    [ $status != 124 ] || echo "gpu-check: the driver does not answer within 90 s" >&2
    rm -f first.err
    exit 7
}
rm -rf gpu-check first.err
mkdir gpu-check
cd gpu-check || exit 1
private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
export REPRO_KEY=$private/key.pem XDG_CACHE_HOME=$private/cache
"$repro" key new -o "$REPRO_KEY" >/dev/null && "$repro" key show "$REPRO_KEY" | sed -n '/^-----BEGIN PUBLIC/,/^-----END/p' >key.pem
exec > >(tee log.txt) 2>&1 8>&1
echo '{}' >result.json

passed=0 failed=0 skipped=0 done_parts='' child=''
pass() { passed=$((passed + 1)) && echo "ok      $*"; }
miss() { failed=$((failed + 1)) && echo "not ok  $*"; }
skip() { skipped=$((skipped + 1)) && echo "skip    $*"; }
left() { echo $((deadline - $(date +%s))); }
# Put the JSON of a file into result.json under a name.
keep() {
    if [ -s "$2" ] && jq --arg name "$1" --slurpfile new "$2" '.[$name] = $new[0]' result.json >result.new 2>/dev/null; then
        mv result.new result.json
    fi
}
# Run with a limit of so many seconds. 124 or 137: it took longer; 75: the time of all is over.
within() {
    local limit=$1 rest status=0
    rest=$(left)
    shift
    [ "$rest" -gt 5 ] || return 75
    timeout -k 5 "$((limit < rest ? limit : rest))" "$@" <&0 & # a shell that waits hears signals
    child=$!
    wait $child || status=$?
    child=''
    case $status in 124 | 137) [ "$limit" -lt "$rest" ] || status=75 ;; esac
    return $status
}
# What became of something that ended with this status: skipped for want of time, or failed.
lost() { # WHAT STATUS FILE
    case $2 in
    75) skip "$1: no time left" ;;
    124 | 137) miss "$1: not done within its limit: $(tail -n 1 "$3")" ;;
    *) miss "$1: status $2: $(tail -n 1 "$3")" ;;
    esac
}
# So far, for whoever finds it.
note() {
    jq -n --arg torch "$have_torch" --arg parts "$done_parts" --argjson passed $passed --argjson failed $failed --argjson skipped $skipped \
        --slurpfile version version.json '{version: $version[0], torch: $torch, parts: ($parts | split(" ") | map(select(. != ""))),
            passed: $passed, failed: $failed, skipped: $skipped}' >about.json
    keep about about.json
    [ -n "$keep" ] || return 0
    tar -C .. -czf "$keep/gpu-check.new" gpu-check 2>/dev/null
    [ $? -gt 1 ] || mv "$keep/gpu-check.new" "$keep/gpu-check.tar.gz" # 1: the log grew meanwhile
}
"$repro" version --json >version.json
timeout -k 5 20 nvidia-smi -q >smi.txt 2>&1
have_torch=$(timeout -k 5 90 "$python" -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' 2>/dev/null)
torch() { [ -n "$have_torch" ] && "$@"; }
cut_off() {
    exec >&8 2>&8 # whatever was under way wrote elsewhere
    [ -z "$child" ] || kill "$child"
    miss "ended from outside"
    note
    exit 1
}
trap cut_off TERM INT HUP

part_capture() {
    local ok bad passed_over status=0
    within 120 "$here/capture.sh" "$repro" >capture.txt 2>&1 || status=$?
    cat capture.txt
    case $status in 0 | 1) ;; 7) skip "capture: $(tail -n 1 capture.txt)" && return ;; *) lost capture.sh $status capture.txt ;; esac
    ok=$(grep -c '^ok ' capture.txt) bad=$(grep -c '^not ok ' capture.txt) passed_over=$(grep -c '^skip ' capture.txt)
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + passed_over))
    [ $((ok + bad)) -gt 0 ] || miss "capture.sh told nothing"
    jq -n --argjson ok "$ok" --argjson bad "$bad" --argjson skip "$passed_over" '{passed: $ok, failed: $bad, skipped: $skip}' >counts.json
    keep capture counts.json
}

part_ops() {
    local status=0
    within 120 "$repro" selftest --backend cuda --device "$device" --json >ops.json 2>ops.err || status=$?
    keep ops ops.json
    if [ $status = 0 ]; then
        pass "$(jq -r '.operations | "\(length) operations, \(map(.cases) | add) cases: the bits of the definition"' ops.json)"
    else
        lost selftest $status ops.err
        jq -r '.operations[]? | select(.failed > 0) | "        \(.op): \(.failed) of \(.cases) cases"' ops.json
    fi
    status=0
    RP_CUDA_GEMM=rotate within 90 "$repro" selftest --backend cuda --device "$device" --json >products.json 2>products.err || status=$?
    if [ $status = 0 ]; then
        pass "$(jq -r '.operations[] | select(.op == "gemm") | "\(.cases) products in every way: the bits of the definition"' products.json)"
    else lost "products in every way" $status products.err; fi
}

# The same run on both backends: losses, norms and state roots of every step.
same_bits() { # NAME RECIPE OPTION...
    local name=$1 recipe=$2 backend
    shift 2
    for backend in cuda cpu; do
        within 240 "$repro" run "$recipe" --backend $backend --device "$device" "$@" --set evidence.state_root_every=1 --set measure.repeats=1 \
            --set measure.warmup_steps=0 --set measure.ceilings=false --force -o "bits-$name-$backend.repro.tar.zst" >bits.txt 2>&1 ||
            { lost "$name on $backend" $? bits.txt && return; }
        "$repro" inspect "bits-$name-$backend.repro.tar.zst" steps/rank0.jsonl |
            jq -c '{step, loss, loss_parts, grad_norm, state_root, counters}' >"bits-$name-$backend.jsonl"
    done
    if [ -s "bits-$name-cpu.jsonl" ] && cmp -s "bits-$name-cuda.jsonl" "bits-$name-cpu.jsonl"; then
        pass "$name: $(($(wc -l <"bits-$name-cuda.jsonl") - 1)) steps, the same losses, norms and state roots on GPU and CPU"
    else
        miss "$name: GPU and CPU differ, from:"
        diff "bits-$name-cuda.jsonl" "bits-$name-cpu.jsonl" | head -n 4
    fi
    jq -n --arg name "$name" --slurpfile gpu "bits-$name-cuda.jsonl" --slurpfile cpu "bits-$name-cpu.jsonl" \
        '{name: $name, steps: ($gpu | length), equal: ($gpu == $cpu)}' >>bits.jsonl
    jq -s . bits.jsonl >bits.json
    keep bits bits.json
}

part_bits() {
    : >bits.jsonl
    same_bits tiny bert_tiny_fp32 --set measure.timed_steps=20
    same_bits base bert_fp32 --set measure.timed_steps=3
    same_bits accumulated bert_tiny_fp32 --set measure.timed_steps=3 --set train.accumulation_steps=5
    same_bits gpt gpt_tiny_fp32 --set measure.timed_steps=10
    same_bits documents gpt_tiny_fp32 --set measure.timed_steps=3 --set train.recompute=full --set parallel.tensor=2 \
        --set task.reset_position_ids=true --set task.reset_attention_mask=true --set task.eod_mask_loss=true
    same_bits gpt2 gpt2_124m_fp32 --batch-size 2 --set measure.timed_steps=2
    same_bits resnet_tiny resnet50_tiny_fp32 --set measure.timed_steps=10
    same_bits resnet resnet50_fp32 --batch-size 4 --set measure.timed_steps=1
    same_bits lamb bert_lamb_fp32 --batch-size 4 --set train.accumulation_steps=1 --set measure.timed_steps=2
}

# A job of several ranks against one rank on the CPU, both of the tiny BERT in four micro-batches ($SMALLER: options that make it quicker).
ranked() { # WHAT RANKS FILE STATUS
    [ "$4" = 0 ] || { lost "$1" "$4" "$3" && return; }
    local rank
    for rank in $(seq 0 $(($2 - 1))); do
        "$repro" inspect ranks.repro.tar.zst "steps/rank$rank.jsonl" | jq -c '{step, loss, loss_parts, grad_norm, state_root}' >ranks.jsonl
        cmp -s ranks.jsonl one.jsonl || { miss "$1: rank $rank has other bits than one rank" && diff ranks.jsonl one.jsonl | head -n 4 && return; }
    done
    "$repro" verify ranks.repro.tar.zst --trust key.pem >verify.txt 2>&1 || { miss "$1 does not verify: $(tail -n 1 verify.txt)" && return; }
    "$repro" inspect ranks.repro.tar.zst run.json | jq --arg what "$1" '{what: $what, transport: .world.rank[0].exchange.transport,
        devices: [.world.rank[].device | .name // .kind], bytes_per_step: .world.rank[0].exchange.bytes_per_step, exchange_s: [.world.rank[].exchange_s],
        overlap_s: [.world.rank[].overlap_s], wait_s: [.world.rank[].wait_s]}' >>ranks.list
    pass "$1: the bits of one rank, $(jq -s -r '.[-1] | .transport' ranks.list)"
}
part_ranks() {
    local status=0 gpus other port=$((20000 + $$ % 20000)) all
    # shellcheck disable=SC2206 # words
    all=(bert_tiny_fp32 --set train.accumulation_steps=4 --set measure.repeats=1 --set measure.warmup_steps=0
        --set measure.ceilings=false --set evidence.state_root_every=1 --no-ledger --force ${SMALLER:---set measure.timed_steps=3})
    : >ranks.list
    within 120 "$repro" run "${all[@]}" --backend cpu -o one.repro.tar.zst >ranks.txt 2>&1 || { lost "one rank" $? ranks.txt && return; }
    "$repro" inspect one.repro.tar.zst steps/rank0.jsonl | jq -c '{step, loss, loss_parts, grad_norm, state_root}' >one.jsonl
    CUDA_VISIBLE_DEVICES=$device within 120 "$repro" run "${all[@]}" --backend cuda --ranks 2 --set run.transport=sockets -o ranks.repro.tar.zst >ranks.txt 2>&1 || status=$?
    ranked "two ranks that share the GPU" 2 ranks.txt $status
    "$repro" launch key >"$private/job" && chmod 600 "$private/job"
    within 120 "$repro" run "${all[@]}" --backend cpu --threads 1 --set run.transport=sockets --nodes 2 --node-rank 1 --join 127.0.0.1:$port \
        --job-key "$private/job" -o ranks.repro.tar.zst >other.txt 2>&1 &
    other=$! status=0
    within 120 "$repro" run "${all[@]}" --backend cuda --device "$device" --set run.transport=sockets --nodes 2 --node-rank 0 --join 127.0.0.1:$port \
        --job-key "$private/job" -o ranks.repro.tar.zst >ranks.txt 2>&1 || status=$?
    wait $other || :
    ranked "a rank on the GPU beside one on processors" 2 ranks.txt $status
    gpus=$(timeout -k 5 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
    if [ "$gpus" -lt 2 ]; then
        skip "ranks by NCCL: there is one GPU"
    else
        [ "$gpus" -le 4 ] || gpus=4
        for other in off 64; do
            status=0
            within 120 "$repro" run "${all[@]}" --backend cuda --ranks "$gpus" --set run.overlap_kib=$other -o ranks.repro.tar.zst >ranks.txt 2>&1 || status=$?
            ranked "$gpus GPUs by NCCL, run.overlap_kib $other" "$gpus" ranks.txt $status
        done
    fi
    jq -s . ranks.list >ranks.json
    keep ranks ranks.json
}

# Names of the models: of the recipe, and for people; tokens of a sample, or null.
recipe_of() { case $1 in gpt) echo gpt2_124m_fp32 ;; *) echo "$1_fp32" ;; esac }
name_of() { case $1 in bert) echo BERT-base ;; gpt) echo "GPT-2 124M" ;; *) echo ResNet-50 ;; esac }
length_of() { case $1 in bert) echo 128 ;; gpt) echo 1024 ;; *) echo null ;; esac }
# Samples (sequences or images) a second of ours, the median of three windows.
ours() { # MODEL BATCH WARM-UP STEPS
    local name
    name="$(name_of "$1") batch $2"
    within 150 "$repro" run "$(recipe_of "$1")" --backend cuda --device "$device" --batch-size "$2" --set measure.warmup_steps="$3" \
        --set measure.timed_steps="$4" --set measure.repeats=3 --force -o "train-$1-b$2.repro.tar.zst" >train.txt 2>&1 ||
        { lost "$name" $? train.txt && return; }
    "$repro" inspect "train-$1-b$2.repro.tar.zst" run.json |
        jq -c --arg model "$1" --arg batch "$2" --argjson length "$(length_of "$1")" '.results.throughput.value as $x | {who: "repro",
            model: $model, batch: .plan.batch, asked: $batch, tf32: false, samples_per_s: $x,
            tokens_per_s: (if $length then $x * $length else null end), device_bytes: (.device_bytes // null)}' >>train.jsonl
    pass "$name: $(tail -n 1 train.jsonl)"
}
peer() { # MODEL BATCH VARIANT [--tf32]
    local name status=0
    name="PyTorch $3, $(name_of "$1") batch $2${4:+ $4}"
    within 120 "$python" "$here/../bench/$1_torch.py" --device "cuda:$device" --batch "$2" --variant "$3" --warmup 5 --steps 30 ${4:+"$4"} \
        >peer.json 2>peer.err || status=$?
    if [ $status = 0 ] && jq -c --arg model "$1" '(.batch / (.step_s | sort | .[length / 2 | floor])) as $x | {who, model: $model, batch, tf32,
            samples_per_s: $x, tokens_per_s: (if .seq then $x * .seq else null end), device_bytes: .peak_bytes}' peer.json >>train.jsonl; then
        pass "$name: $(tail -n 1 train.jsonl)"
    else skip "$name: status $status: $(tail -n 1 peer.err)"; fi
}
train_table() {
    jq -s . train.jsonl >train.json
    keep train train.json
    jq -r -s '(map(select(.who == "repro")) | map({key: "\(.model) \(.batch)", value: .samples_per_s}) | from_entries) as $ours
        | .[] | $ours["\(.model) \(.batch)"] as $mine | [.who, .model, .batch, (if .tf32 then "TF32" else "fp32" end),
            (.samples_per_s * 10 | round / 10), (.tokens_per_s // "" | if . == "" then . else round end),
            (if $mine then $mine / .samples_per_s * 1000 | round / 1000 else "" end)] | @tsv' train.jsonl |
        awk -F '\t' 'BEGIN {
                printf "%-18s %-8s %6s %6s %12s %12s %16s\n", "program", "model", "batch", "", "samples/s", "tokens/s", "ours over it"
            }
            { printf "%-18s %-8s %6s %6s %12s %12s %16s\n", $1, $2, $3, $4, $5, $6, $7 }'
}

part_train() {
    : >train.jsonl
    ours bert 32 5 30
    ours gpt 4 5 30
    ours resnet50 128 5 20
    ours bert 96 5 15
    ours bert max 2 3
    ours resnet50 max 2 3
    ours bert 64 5 15
    train_table
}

part_peers() {
    local what variant tf32
    torch true || { skip "no PyTorch with CUDA: nothing beside the training" && return; }
    for tf32 in "" --tf32; do
        for what in "bert 32" "gpt 4" "resnet50 128" "bert 96" "bert 64"; do
            for variant in compile eager; do
                [ "$(left)" -gt 20 ] || { skip "PyTorch $variant, $what${tf32:+ $tf32}: no time left" && continue; }
                # shellcheck disable=SC2086 # words
                peer $what $variant $tf32
            done
        done
    done
    train_table
}

recipe_in_full() { # RECIPE
    within 200 "$repro" run "$1" --backend cuda --device "$device" --force -o "$1.repro.tar.zst" >bundle.txt 2>&1 || { lost "$1" $? bundle.txt && return 1; }
    pass "$1: $(grep -E ' (sequences|images)/s, ' bundle.txt | tail -n 1)"
    timeout -k 5 60 "$repro" verify "$1.repro.tar.zst" --trust key.pem >verify.txt 2>&1 || miss "$1 does not verify: $(tail -n 1 verify.txt)"
    find . -maxdepth 1 -name '*.repro.tar.zst' -printf '%f\n' | jq -R -s 'split("\n") | map(select(. != "")) | sort' >bundles.json
    keep bundles bundles.json
}

part_bundle() {
    recipe_in_full bert_fp32 || return
    if CUDA_VISIBLE_DEVICES='' within 200 "$repro" verify bert_fp32.repro.tar.zst --trust key.pem --replay 2 >replay.txt 2>&1; then
        pass "bert_fp32: two steps replayed on the CPU are bit-equal"
    else lost "replaying bert_fp32" $? replay.txt; fi
}

part_bundles() {
    local recipe
    for recipe in bert_tiny_fp32 gpt2_124m_fp32 gpt_tiny_fp32 resnet50_fp32 resnet50_tiny_fp32 bert_fp32_b96 bert_lamb_fp32 bert_large_fp32; do recipe_in_full $recipe; done
}

part_speed() {
    within 90 "$repro" selftest --speed --backend cuda --device "$device" --json >speed.json 2>speed.err || { lost "selftest --speed" $? speed.err && return; }
    torch within 90 "$python" "$here/../bench/speed_torch.py" --device "cuda:$device" <speed.json >theirs.json 2>theirs.err || :
    { [ -s theirs.json ] && jq -e 'type == "array"' theirs.json >/dev/null 2>&1; } ||
        { echo '[]' >theirs.json && skip "no PyTorch with CUDA, or no time: nothing beside the products, attention and convolutions"; }
    jq -n --slurpfile ours speed.json --slurpfile theirs theirs.json '
        {rows: [$ours[0].speed[] as $r | ($theirs[0][] | select(.what == $r.what and .name == $r.name and .shape == $r.shape)) // null |
            {what: $r.what, name: $r.name, shape: $r.shape, us: ($r.seconds * 1e6), tflops: (if $r.flops > 0 then $r.flops / $r.seconds / 1e12 else null end),
            gbs: ($r.bytes / $r.seconds / 1e9), peer_us: (if . then .seconds * 1e6 else null end),
            of_peer: (if . and .seconds then .seconds / $r.seconds else null end)}]}' >table.json
    keep speed table.json
    jq -r '.rows[] | [.what, .name, .shape, (.us * 10 | round / 10), (if .tflops then .tflops * 100 | round / 100 else "" end), (.gbs | round),
        (if .of_peer then .of_peer * 1000 | round / 1000 else "" end)] | @tsv' table.json |
        awk -F '\t' 'BEGIN { printf "%-30s %-18s %-16s %10s %8s %6s %9s\n", "operation", "", "size", "us", "TFLOP/s", "GB/s", "of theirs" }
            { printf "%-30s %-18s %-16s %10s %8s %6s %9s\n", $1, $2, $3, $4, $5, $6, $7 }'
    jq -r 'def peer: if test("attention") then "scaled_dot_product_attention" elif test("^convolution") then "cuDNN" else "cuBLAS" end;
        (.rows | map(select(.of_peer)) | group_by(.what | peer))[] | "geometric mean of \(.[0].what | peer) in strict fp32: \(
            (map(.of_peer | log) | add / length | exp) * 1000 | round / 1000) over \(length) sizes"' table.json
    if jq -e '.rows | length > 0' table.json >/dev/null; then pass "measured $(jq '.rows | length' table.json) operations"; else miss "nothing was measured"; fi
}

part_sanitizer() {
    local tool
    command -v compute-sanitizer >/dev/null || { skip "there is no compute-sanitizer" && return; }
    for tool in memcheck racecheck; do
        within 300 compute-sanitizer --tool $tool --target-processes all --error-exitcode 9 \
            "$repro" selftest --backend cuda --device "$device" 2>&1 | head -c 1000000 >sanitizer.$tool.txt
        case ${PIPESTATUS[0]} in
        0) pass "compute-sanitizer $tool: $(grep 'ERROR SUMMARY' sanitizer.$tool.txt | tail -n 1)" ;;
        9) miss "compute-sanitizer $tool: $(grep 'ERROR SUMMARY' sanitizer.$tool.txt | tail -n 1), see sanitizer.$tool.txt" ;;
        75 | 124 | 137) skip "compute-sanitizer $tool: not done in time" ;;
        *) skip "compute-sanitizer $tool does not work here: $(tail -n 1 sanitizer.$tool.txt)" ;;
        esac
    done
}

note
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
    done_parts="$done_parts $part"
    note
done
rm -f result.new
echo "$passed passed, $failed failed, $skipped skipped"
note
[ "$failed" = 0 ]
