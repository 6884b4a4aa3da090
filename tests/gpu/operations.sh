# shellcheck shell=bash disable=SC2154,SC2034 # check.sh owns the variables
# Parts of check.sh that look at single operations: ops, sanitizer, profile; and tensor, capture.

# One pass of the self-test. Which operations, cases and kernels it had goes into passes.jsonl.
selftest_pass() { # NAME WHAT
    local status=0 found begin
    may "$2" || return 0
    begin=$(now_ms)
    selftest "$1" 70 || status=$?
    jq -c --arg name "$1" --argjson status $status --argjson ms $(($(now_ms) - begin)) '{name: $name, status: $status,
        seconds: ($ms / 1000), operations: (.operations // [] | length), cases: ([.operations[]?.cases] | add // 0),
        wrong: [.operations[]? | select(.failed > 0)], stopped: (.stopped // null), kernels: (.kernels // null)}' \
        "$1.json" >>passes.jsonl
    if [ $status = 0 ]; then
        pass "$2: $found"
    else
        log "$1.err"
        [ "$(how_it_stopped "$1.json" $status)" != crash ] || found="$found: $(tail -n 1 "$1.err")"
        echo "$found" >"$1.found"
        lost_on_gpu "$2" $status "$1.found" "$(how_it_stopped "$1.json" $status)"
    fi
}
# Every kernel that can run on this GPU ran in one of the passes, so it was compared.
compare_kernels() {
    jq -s 'map(.kernels // {} | to_entries[]) | group_by(.key) | map({key: .[0].key, value: (map(.value) | add)})
        | from_entries | {count: length, ran: (map_values(select(. > 0)) | length),
            never: [to_entries[] | select(.value == 0) | .key], launches: .}' \
        passes.jsonl >kernels.json
    put kernels kernels.json
    if ! jq -s -e 'length == 3 and all(.status == 0 or .status == 5)' passes.jsonl >/dev/null; then
        skip "kernels: which ones never run is unknown, as the self-test did not finish"
    elif [ "$(jq .count kernels.json)" = 0 ]; then
        miss "kernels: the self-test lists none"
    elif [ "$(jq '.never | length' kernels.json)" = 0 ]; then
        pass "kernels: all $(jq .count kernels.json) that this GPU can run were compared"
    else
        miss "kernels that never ran, so nothing compared them: $(jq -r '.never | join(", ")' kernels.json)"
    fi
}
part_ops() {
    selftest_pass chosen "kernels as chosen"
    RP_CUDA_GEMM=rotate selftest_pass gemm "every GEMM kernel in turn"
    RP_CUDA_ATTENTION=rotate selftest_pass attention "every attention kernel in turn"
    put_lines ops passes.jsonl
    compare_kernels
    # A kernel that hangs does so under compute-sanitizer too, without a message.
    [ "$stop" != hang ] || stopped_kinds="$stopped_kinds sanitizer"
}

# repro under a tool, for at most SECONDS. The tool watches only processes that it starts itself, or that a program with
# glibc starts under its eyes: repro, which is static, starts it (RP_GPU_TOOL), and it starts the GPU worker. At the
# limit the worker is ended, and the tool has two seconds to report what it saw until then.
under_tool() { # "TOOL OPTION..." SECONDS REPRO-ARGUMENT...
    local tool=$1 limit=$2 foreground=1
    shift 2
    RP_GPU_TOOL=$tool RP_GPU_TIMEOUT_MS=600000 within "$limit" "$repro" "$@" --backend cuda --device "$device"
}
# One tool of compute-sanitizer on the self-test. How long it needs is unknown: its own limit is no failure, and the
# next tool begins. A hang cannot be told from slowness here; part_ops looks for hangs. Kernels are loaded when they are
# needed, as most programs do it: the tool rewrites every kernel that is loaded.
sanitize() { # TOOL PERCENT of what is left of the part
    local status=0 summary errors first scale=100 limit operations
    may "$1" || return 0
    limit=$(($(seconds_left) * $2 / 100))
    CUDA_MODULE_LOADING=LAZY under_tool "compute-sanitizer --tool $1 --target-processes application-only
        --print-limit 20 --log-file $1.txt" $limit selftest --json -v >"$1.json" 2>"$1.err" || status=$?
    touch "$1.txt"
    summary=$(grep -aE '^=+ (ERROR|RACECHECK) SUMMARY' "$1.txt" | sed 's/^=* //' | paste -sd';')
    errors=$(grep -aoE '\(?[0-9]+ errors?' <<<"$summary" | tr -dc '0-9\n' | awk '{ n += $1 } END { print n + 0 }')
    # What was found, if the tool could not add it up; how the program ended is no finding.
    first=$(grep -aE '^=+ [A-Z]' "$1.txt" | sed 's/^=* //' |
        grep -vE '^(COMPUTE-SANITIZER|Warning|Tracking|Error: (process|Target)|Target|.* SUMMARY)' | head -n 1)
    operations=$(grep -acE '^cuda .* cases, ' "$1.err")
    jq -n --arg tool "$1" --argjson status $status --arg summary "$summary" --argjson errors "$errors" \
        --argjson operations "$operations" '{tool: $tool, status: $status, operations: $operations,
        summary: (if $summary == "" then null else $summary end), errors: (if $summary == "" then null else $errors end)}' \
        >>tools.jsonl
    if [ -z "$summary" ] && grep -qaiE '^=+ .*not supported' "$1.txt"; then
        skip "compute-sanitizer $1: $(grep -aiE '^=+ .*not supported' "$1.txt" | head -n 1)"
    elif [ $status = 124 ] || [ $status = 76 ] || [ $status = 75 ]; then
        [ $status != 75 ] || stop=time out_of_time=1
        if [ -n "$first" ]; then
            miss "compute-sanitizer $1: stopped after $limit s, with: $first"
        else
            skip "compute-sanitizer $1: no end within $limit s, and nothing found in $operations operations"
        fi
    elif [ -z "$summary" ] && [ $status != 0 ]; then
        grep -av 'child processes' "$1.txt" >>"$1.err" # its own words last, without advice
        lost "compute-sanitizer $1" $status "$1.err"
        stop=${stop:-limit} # the next tool would meet the same
    elif [ -z "$summary" ]; then
        miss "compute-sanitizer $1: it printed no summary"
    elif [ "$errors" != 0 ]; then
        miss "compute-sanitizer $1: $summary"
    elif [ $status != 0 ]; then
        miss "compute-sanitizer $1: $summary, but the self-test ends with $status"
    else
        pass "compute-sanitizer $1: $operations operations, $summary"
    fi
}
part_sanitizer() {
    command -v compute-sanitizer >/dev/null || { skip "there is no compute-sanitizer" && return; }
    : >tools.jsonl
    sanitize memcheck 40
    sanitize racecheck 75
    sanitize synccheck 100
    put_lines sanitizer tools.jsonl
}

# Under a tool every operation is called three times. The first two launches of a size warm caches up, the third counts.
part_profile() {
    local status=0 kernels
    command -v ncu >/dev/null || { skip "there is no ncu" && return; }
    kernels='gemm_(192x192|128x128|64x128)_(n[tn]|tn)|attention_(stream_8x4|gradients|keys_4|queries_4)'
    kernels="$kernels|conv_wgrad_(64|128)x128|conv_forward_128x128"
    under_tool "ncu --target-processes application-only --clock-control none --filter-mode per-launch-config
        -k regex:rp_($kernels) -s 2 -c 1 --section SpeedOfLight --section WarpStateStats --section Occupancy
        --section MemoryWorkloadAnalysis --log-file ncu.txt -f -o launches" 140 \
        selftest --speed -v >speed.txt 2>speed.err || status=$?
    touch ncu.txt
    if [ -s launches.ncu-rep ]; then
        within 30 ncu --import launches.ncu-rep --page details >launches.txt 2>>ncu.txt || lost "ncu --import" $? ncu.txt
        pass "ncu: $(grep -c '^  *rp_' launches.txt) launches"
        [ $status = 0 ] || skip "ncu: sizes after these: status $status after $(grep -c ' ms$' speed.err) operations"
    elif [ $status = 0 ]; then
        miss "ncu: it wrote no report: $(tail -n 1 ncu.txt)"
    else
        grep -av 'child processes' ncu.txt >>speed.err
        lost ncu $status speed.err
    fi
}

# Bare tensor-core instructions against the model of src/ops/tensor_core.h. nvcc compiles the program where it runs.
part_tensor() {
    local status=0 capability line
    command -v nvcc >/dev/null || { skip "tensor: there is no nvcc" && return; }
    machine
    capability=$(jq -r '.capability // "" | gsub("[.]"; "")' "$root/machine.json")
    [ "$capability" != 90 ] || capability=90a # wgmma
    [ "${capability%a}" -ge 75 ] 2>/dev/null || { skip "tensor: not for compute capability '$capability'" && return; }
    within 60 nvcc -O2 -std=c++17 -I "$here/../../src" -gencode "arch=compute_$capability,code=sm_$capability" \
        -o tensor_probe "$here/tensor_probe.cu" >nvcc.txt 2>&1 || { lost "nvcc" $? nvcc.txt && return; }
    within 60 ./tensor_probe 16 . >rows.jsonl 2>tensor.err || status=$?
    rm -f tensor_probe
    [ $status = 0 ] || { lost_on_gpu "tensor_probe" $status tensor.err && return; }
    jq -s 'map(select(.class)) | group_by([.format, .instruction]) | map({format: .[0].format,
        instruction: .[0].instruction, results: map(.results) | add, differ: map(.differ) | add,
        where: [.[] | select(.differ > 0) | {class, k, differ, results, in_nan_or_zero_sign: .differ_in_nan_or_zero_sign}]})' \
        rows.jsonl >tensor.json
    put tensor tensor.json
    while IFS= read -r line; do
        case $line in *" 0 differ"*) pass "$line" ;; *) miss "$line" ;; esac
    done < <(jq -r '.[] | "tensor: \(.instruction), \(.format): \(.results) results, \(.differ) differ"
        + (.where | map(" \(.class) k=\(.k): \(.differ)") | join(","))' tensor.json)
}

part_capture() {
    local status=0 kind rest
    within 60 "$here/capture.sh" "$repro" >capture.txt 2>&1 || status=$?
    log capture.txt
    case $status in
    0 | 1) ;;
    7) skip "capture: $(tail -n 1 capture.txt)" && return ;;
    *) lost capture.sh $status capture.txt && return ;;
    esac
    while read -r kind rest; do
        case $kind in
        ok) passed=$((passed + 1)) ;;
        not) miss "capture: ${rest#ok  }" ;;
        skip) skipped=$((skipped + 1)) ;;
        esac
    done <capture.txt
    jq -R -s 'split("\n") | {passed: map(select(startswith("ok "))) | length,
        failed: [.[] | select(startswith("not ok ")) | ltrimstr("not ok  ")],
        skipped: map(select(startswith("skip "))) | length}' capture.txt >counts.json
    put capture counts.json
    jq -e '.passed + (.failed | length) > 0' counts.json >/dev/null || miss "capture: nothing was compared"
    say "ok      capture: $(jq .passed counts.json) values agree, $(jq .skipped counts.json) could not be compared"
}
