# shellcheck shell=bash disable=SC2154,SC2034 # check.sh owns the variables
# Parts of check.sh that train: bits, mixed, ranks, train, train16, sizes, bundle, bundles, recipes.

# repro run on the GPU, which may be silent for $hang_seconds: results in run.txt, messages in run.err.
run_on_gpu() { # SECONDS RECIPE OPTION...
    local limit=$1 recipe=$2
    shift 2
    within "$limit" "$repro" run "$recipe" --backend cuda --set run.hang_seconds="$hang_seconds" --force "$@" \
        >run.txt 2>run.err
}

bits_row() { # NAME EQUAL: true, false, or null where one of the runs failed
    jq -n --arg name "$1" --argjson equal "$2" --argjson steps "$(wc -l 2>/dev/null <"$1-cuda.jsonl" || echo null)" \
        '{name: $name, steps: $steps, equal: $equal}' >>bits.jsonl
    put_lines bits bits.jsonl
}
# The same run on both backends: losses, norms and state roots of every step.
same_bits() { # NAME RECIPE OPTION...
    local name=$1 recipe=$2 backend core equal=false
    shift 2
    may "$name" || return 0
    set -- "$@" --set evidence.state_root_every=1 --set measure.repeats=1 --set measure.warmup_steps=0 \
        --set measure.ceilings=false
    run_on_gpu 60 "$recipe" --device "$device" "$@" -o "$name-cuda.repro.tar.zst" || {
        lost_on_gpu "$name on the GPU" $? run.err
        bits_row "$name" null
        return
    }
    core=$("$repro" inspect "$name-cuda.repro.tar.zst" facts.json | jq -r '.recipe["train.tensor_core"].value // "auto"')
    [ "$core" = auto ] || set -- "$@" --set "train.tensor_core=$core" # whose sums the CPU computes
    within 90 "$repro" run "$recipe" --backend cpu --force "$@" -o "$name-cpu.repro.tar.zst" >run.txt 2>run.err || {
        lost "$name on the CPU" $? run.err
        bits_row "$name" null
        return
    }
    for backend in cuda cpu; do
        "$repro" inspect "$name-$backend.repro.tar.zst" steps/rank0.jsonl |
            jq -c '{step, loss, loss_parts, grad_norm, state_root, counters}' >"$name-$backend.jsonl"
    done
    if [ -s "$name-cpu.jsonl" ] && cmp -s "$name-cuda.jsonl" "$name-cpu.jsonl"; then
        equal=true
        pass "$name: $(($(wc -l <"$name-cuda.jsonl") - 1)) steps, the same losses, norms and state roots on GPU and CPU"
    else
        diff "$name-cuda.jsonl" "$name-cpu.jsonl" >diff.txt
        log diff.txt
        miss "$name: GPU and CPU differ from $(jq -s -r --slurpfile cpu "$name-cpu.jsonl" '. as $gpu
            | [range(length) | select($gpu[.] != $cpu[.])][0]
            | "step \($gpu[.].step): loss \($gpu[.].loss) and \($cpu[.].loss)"' "$name-cuda.jsonl" 2>/dev/null)"
    fi
    bits_row "$name" $equal
}
part_bits() {
    same_bits tiny bert_tiny_fp32 --set measure.timed_steps=20
    same_bits gpt gpt_tiny_fp32 --set measure.timed_steps=10
    same_bits resnet_tiny resnet50_tiny_fp32 --set measure.timed_steps=10
    same_bits base bert_fp32 --set measure.timed_steps=3
    same_bits gpt2 gpt2_124m_fp32 --batch-size 2 --set measure.timed_steps=2
    same_bits resnet resnet50_fp32 --batch-size 4 --set measure.timed_steps=1
    same_bits accumulated bert_tiny_fp32 --set measure.timed_steps=3 --set train.accumulation_steps=5
    same_bits documents gpt_tiny_fp32 --set measure.timed_steps=3 --set train.recompute=full --set parallel.tensor=2 \
        --set task.reset_position_ids=true --set task.reset_attention_mask=true --set task.eod_mask_loss=true
    same_bits lamb bert_lamb_fp32 --batch-size 4 --set train.accumulation_steps=1 --set measure.timed_steps=2
}
# One pass of the self-test in mixed precision.
mixed_pass() { # NAME WHAT
    local status=0 found
    may "$2" || return 0
    selftest "$1" 100 --tensor-core || status=$?
    if [ $status = 0 ]; then
        pass "$2: $found"
    else
        log "$1.err"
        echo "$found" >"$1.found"
        lost_on_gpu "$2" $status "$1.found" "$(how_it_stopped "$1.json" $status)"
    fi
}
# The same in mixed precision, which the GPU proves to itself before each run: operations, first without wgmma, then
# with every kernel of products in turn, and runs. If wgmma stops the GPU, runs go on without it.
part_mixed() {
    local -x RP_CUDA_GEMM=mma
    mixed_pass mixed "operations in mixed precision without wgmma"
    if [ -z "$stop" ]; then
        RP_CUDA_GEMM=rotate mixed_pass mixed_every "operations in mixed precision, every GEMM kernel in turn"
        case $stop in
        hang | crash)
            [ "$dead" = 1 ] || {
                stop='' stopped_kinds=${stopped_kinds% "$kind"}
                note "runs in mixed precision are without wgmma"
            }
            ;;
        '') unset RP_CUDA_GEMM ;;
        esac
    fi
    same_bits bert_fp16 bert_tiny_fp16 --set measure.timed_steps=10
    same_bits gpt_fp16 gpt_tiny_fp16 --set measure.timed_steps=5
    same_bits resnet_fp16 resnet50_tiny_fp16 --set measure.timed_steps=5
    same_bits bert_bf16 bert_tiny_bf16 --set measure.timed_steps=10
    same_bits resnet_bf16 resnet50_tiny_bf16 --set measure.timed_steps=5
    same_bits base_bf16 bert_bf16 --batch-size 4 --set measure.timed_steps=5
}

# Losses, norms and state roots of a rank.
steps_of_rank() { # BUNDLE RANK
    "$repro" inspect "$1" "steps/rank$2.jsonl" | jq -c '{step, loss, loss_parts, grad_norm, state_root}'
}
# A job of several ranks against one rank on the CPU, both of the tiny BERT in four micro-batches ($SMALLER: options
# that make it quicker).
compare_ranks() { # WHAT RANKS STATUS
    [ "$3" = 0 ] || { lost_on_gpu "$1" "$3" run.err && return; }
    local rank
    for rank in $(seq 0 $(($2 - 1))); do
        steps_of_rank ranks.repro.tar.zst "$rank" >ranks.jsonl
        cmp -s ranks.jsonl one.jsonl || {
            diff ranks.jsonl one.jsonl >diff.txt
            log diff.txt
            miss "$1: rank $rank has other bits than one rank" && return
        }
    done
    within 60 "$repro" verify ranks.repro.tar.zst --trust ../key.pem >verify.txt 2>&1 || {
        lost "$1: verifying the bundle" $? verify.txt
        return
    }
    documents ranks.repro.tar.zst | jq --arg what "$1" '
        def transport: [(select(.nccl) | "NCCL \(.nccl)"), (select(.shared_memory == 1) | "1 rank by shared memory"),
            (select(.shared_memory > 1) | "\(.shared_memory) ranks by shared memory"), (select(.tls > 0) | "\(.tls) by TLS")] | join(", ");
        .facts.rank as $facts | .run.rank as $run | {what: $what, transport: ($facts[0].exchange.connections | transport),
        devices: [$facts[].device | .name // .kind], bytes_per_step: $facts[0].exchange.bytes_per_step,
        exchange_s: [$run[].exchange_s], overlap_s: [$run[].overlap_s], wait_s: [$run[].wait_s]}' >>list.jsonl || {
        miss "$1: its documents have no ranks"
        return
    }
    pass "$1: the bits of one rank, $(jq -s -r '.[-1] | .transport' list.jsonl)"
}
# One rank on the GPU and one on processors, as two nodes of a job.
mixed_ranks() { # OPTION...
    local status=0 other port=${TEST_PORT:-$((20000 + $$ % 12000))}
    "$repro" launch key >"$private/job" && chmod 600 "$private/job"
    set -- "$@" --set run.transport=sockets --nodes 2 --join "127.0.0.1:$port" --job-key "$private/job" \
        -o ranks.repro.tar.zst
    timeout -k 3 60 "$repro" run "$@" --backend cpu --threads 1 --node-rank 1 --force >other.txt 2>&1 &
    other=$!
    run_on_gpu 60 "$@" --device "$device" --node-rank 0 || status=$?
    [ $status = 0 ] || kill $other 2>/dev/null
    wait $other
    compare_ranks "a rank on the GPU and one on processors" 2 $status
}
part_ranks() {
    local status=0 gpus overlap recipe=bert_tiny_fp32 all
    # shellcheck disable=SC2206 # words
    all=(--set train.accumulation_steps=4 --set measure.repeats=1 --set measure.warmup_steps=0
        --set measure.ceilings=false --set evidence.state_root_every=1 --no-ledger ${SMALLER:---set measure.timed_steps=3})
    : >list.jsonl
    within 60 "$repro" run $recipe "${all[@]}" --backend cpu --force -o one.repro.tar.zst >run.txt 2>run.err || {
        lost "one rank on the CPU" $? run.err
        return
    }
    steps_of_rank one.repro.tar.zst 0 >one.jsonl
    CUDA_VISIBLE_DEVICES=$device run_on_gpu 60 $recipe "${all[@]}" --ranks 2 --set run.transport=sockets \
        -o ranks.repro.tar.zst || status=$?
    compare_ranks "two ranks that share the GPU" 2 $status
    may "a rank on the GPU and one on processors" && mixed_ranks $recipe "${all[@]}"
    bounded 20000 nvidia-smi -L >smi-list.txt 2>/dev/null || :
    gpus=$(grep -c '^GPU ' smi-list.txt)
    if [ "$gpus" -lt 2 ]; then
        skip "ranks by NCCL: there is one GPU"
    else
        [ "$gpus" -le 4 ] || gpus=4
        for overlap in off 64; do
            may "$gpus GPUs by NCCL, run.overlap_kib $overlap" || continue
            status=0
            run_on_gpu 60 $recipe "${all[@]}" --ranks "$gpus" --set run.overlap_kib=$overlap \
                -o ranks.repro.tar.zst || status=$?
            compare_ranks "$gpus GPUs by NCCL, run.overlap_kib $overlap" "$gpus" $status
        done
    fi
    put_lines ranks list.jsonl
}

# Names of the models: of the recipe in a precision, and for people; tokens of a sample, or null.
recipe_of() { case $1 in gpt) echo "gpt2_124m_$2" ;; *) echo "$1_$2" ;; esac }
documents() { # BUNDLE: facts.json and run.json of it as one document, {facts, run}
    { "$repro" inspect "$1" facts.json && "$repro" inspect "$1" run.json; } | jq -s '{facts: .[0], run: .[1]}'
}
name_of() { case $1 in bert) echo BERT-base ;; gpt) echo "GPT-2 124M" ;; *) echo ResNet-50 ;; esac }
length_of() { case $1 in bert) echo 128 ;; gpt) echo 1024 ;; *) echo null ;; esac }
# Samples (sequences or images) a second, the median of three windows, and the clock of the GPU in them by the run's own
# telemetry. A step is one micro-batch.
measure() { # MODEL BATCH WARM-UP STEPS [bf16]
    local name precision=${5:-fp32} list=train${5:+16}
    name="$(name_of "$1") batch $2${5:+ in $5}"
    may "$name" || return 0
    run_on_gpu 60 "$(recipe_of "$1" "$precision")" --device "$device" --batch-size "$2" \
        --set train.accumulation_steps=1 --set train.global_batch_size=0 --set measure.warmup_steps="$3" \
        --set measure.timed_steps="$4" --set measure.repeats=3 -o "$1-b$2.repro.tar.zst" || { lost_on_gpu "$name" $? run.err && return; }
    documents "$1-b$2.repro.tar.zst" >both.json
    jq -c --arg model "$1" --arg asked "$2" --argjson length "$(length_of "$1")" --arg precision "$precision" \
        --slurpfile machine "$root/machine.json" '
        .facts as $facts | .run | .results.throughput.value as $x | (.telemetry.clock_sm_hz.median? // null) as $hz
        | .model.flops_per_sample as $flops | $machine[0][if $precision == "fp32" then "units" else "tensor_units" end] as $units
        | {who: "repro", model: $model, batch: $facts.plan.batch, asked: $asked, samples_per_s: $x,
            tokens_per_s: (if $length then $x * $length else null end), flops_per_sample: $flops,
            clock_mhz: (if $hz then $hz / 1e6 else null end), power_w: (.telemetry.power_w.mean? // null),
            of_peak: (if $hz and $units and $flops then $x * $flops / ($units * 2 * $hz) else null end),
            device_bytes: ($facts.rank[.world.slowest].device_bytes // null)}' both.json >>"$root/$list.jsonl"
    put_lines "$list" "$root/$list.jsonl"
    pass "$name: $(jq -s -r '.[-1] | "\(.samples_per_s * 10 | round / 10) samples/s"
        + if .clock_mhz then " at \(.clock_mhz | round) MHz" else "" end
        + if .of_peak then ", \(.of_peak * 1000 | round / 10) % of the peak in \($precision) at that clock" else "" end' --arg precision "$precision" \
        "$root/$list.jsonl")"
}
part_train() {
    machine
    measure bert 32 5 30
    measure gpt 4 5 30
    measure resnet50 128 5 20
}
part_train16() {
    machine
    measure bert 64 5 20 bf16
    measure gpt 64 3 5 bf16
    measure resnet50 256 5 10 bf16
}
part_sizes() {
    machine
    measure bert 96 5 15
    measure bert max 2 3
    measure resnet50 max 2 3
    measure bert 64 5 15
}

recipe_in_full() { # RECIPE
    may "$1" || return 1
    run_on_gpu 120 "$1" --device "$device" -o "$1.repro.tar.zst" || { lost_on_gpu "$1" $? run.err && return 1; }
    pass "$1: $(grep -hE ' (sequences|images)/s, ' run.txt run.err | tail -n 1)"
    within 60 "$repro" verify "$1.repro.tar.zst" --trust ../key.pem >verify.txt 2>&1 ||
        lost "verifying $1" $? verify.txt
    find .. -name '*_fp32*.repro.tar.zst' -printf '%f\n' |
        jq -R -s 'split("\n") | map(select(. != "")) | sort' >bundles.json
    put bundles bundles.json
}
part_bundle() {
    recipe_in_full bert_fp32 || return
    if CUDA_VISIBLE_DEVICES='' within 90 "$repro" verify bert_fp32.repro.tar.zst --trust ../key.pem --replay 2 \
        >replay.txt 2>&1; then
        pass "bert_fp32: two steps replayed on the CPU are bit-equal"
    else lost "replaying bert_fp32" $? replay.txt; fi
}
part_bundles() {
    recipe_in_full gpt2_124m_fp32
    recipe_in_full resnet50_fp32
}
part_recipes() {
    local recipe
    for recipe in bert_tiny_fp32 gpt_tiny_fp32 resnet50_tiny_fp32 bert_fp32_b96 bert_large_fp32 bert_lamb_fp32; do
        recipe_in_full $recipe
    done
}
