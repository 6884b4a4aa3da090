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

# One tool of compute-sanitizer on the self-test. The worker is a child process, and ends in order, so the tool can
# report. How long a tool needs is unknown: its own limit is no failure, and the next tool begins. A hang cannot be told
# from slowness here; part_ops looks for hangs.
sanitize() { # TOOL PERCENT of what is left of the part
    local status=0 summary errors scale=100 limit
    may "$1" || return 0
    limit=$(($(seconds_left) * $2 / 100))
    RP_GPU_TIMEOUT_MS=$((limit * 1000 + 10000)) within $limit \
        compute-sanitizer --tool "$1" --target-processes all --print-limit 20 --error-exitcode 9 \
        "$repro" selftest --backend cuda --device "$device" --json >"$1.txt" 2>&1 || status=$?
    summary=$(grep -aE '^=+ (ERROR|RACECHECK) SUMMARY' "$1.txt" | sed 's/^=* //' | paste -sd';')
    errors=$(grep -aoE '\(?[0-9]+ errors?' <<<"$summary" | tr -dc '0-9\n' | awk '{ n += $1 } END { print n + 0 }')
    jq -n --arg tool "$1" --argjson status $status --arg summary "$summary" --argjson errors "$errors" '
        {tool: $tool, status: $status, summary: (if $summary == "" then null else $summary end),
        errors: (if $summary == "" then null else $errors end)}' >>tools.jsonl
    if [ -z "$summary" ] && grep -qaiE '^=+ .*not supported' "$1.txt"; then
        skip "compute-sanitizer $1: $(grep -aiE '^=+ .*not supported' "$1.txt" | head -n 1)"
    elif [ -z "$summary" ] && { [ $status = 124 ] || [ $status = 76 ]; }; then
        skip "compute-sanitizer $1: no end within $limit s"
    elif [ $status != 0 ] && [ -z "$summary" ]; then
        lost "compute-sanitizer $1" $status "$1.txt"
        stop=${stop:-limit} # the next tool would meet the same
    elif [ -z "$summary" ]; then
        miss "compute-sanitizer $1: it printed no summary"
    elif [ "$errors" != 0 ] || [ $status = 9 ]; then
        miss "compute-sanitizer $1: $summary"
    elif [ $status != 0 ]; then
        miss "compute-sanitizer $1: $summary, but the self-test ends with $status"
    else
        pass "compute-sanitizer $1: $summary"
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

part_profile() {
    local status=0 kernels
    command -v ncu >/dev/null || { skip "there is no ncu" && return; }
    # The first launches of a size warm caches up; then one of each size counts.
    kernels='gemm_(192x192|128x128|64x128)_(n[tn]|tn)|attention_(stream_8x4|gradients|keys_4|queries_4)'
    kernels="$kernels|conv_wgrad_(64|128)x128|conv_forward_128x128"
    within 90 ncu --target-processes all --clock-control none --filter-mode per-launch-config -k "regex:rp_($kernels)" \
        -s 2 -c 1 --section SpeedOfLight --section WarpStateStats --section Occupancy --section MemoryWorkloadAnalysis \
        -f -o launches "$repro" selftest --speed --backend cuda --device "$device" >ncu.txt 2>&1 || status=$?
    if [ -s launches.ncu-rep ]; then
        within 30 ncu --import launches.ncu-rep --page details >launches.txt 2>>ncu.txt || lost "ncu --import" $? ncu.txt
        pass "ncu: $(grep -c '^  *rp_' launches.txt) launches"
    elif [ $status = 0 ]; then
        miss "ncu: it wrote no report: $(tail -n 1 ncu.txt)"
    else
        lost ncu $status ncu.txt
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
