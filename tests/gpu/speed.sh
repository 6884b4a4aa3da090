# shellcheck shell=bash disable=SC2154,SC2034 # check.sh owns the variables
# Parts of check.sh that measure other programs for comparison: speed, speed16, peers, peers16; and the figures at the end.

# Median, lowest and highest clock of the GPU between two moments of clocks.json; of a row that was too short for a
# sample the ones next to it.
clock_jq='def between($from; $to): [$clocks[0][] | select(.t >= $from and .t <= $to) | .mhz];
    def clock($from; $to): between($from; $to) | if length > 0 then . else between($from - 0.6; $to + 0.6) end | sort
    | if length > 0 then {mhz: .[length / 2 | floor], least: .[0], most: .[-1], samples: length} else null end;
    def rounded($digits): if . == null then "" else pow(10; $digits) as $p | . * $p | round / $p end;'
# Rows of a program of tests/bench, one JSON a line in FILE. Its own deadline is a little before the limit.
# 77: no PyTorch with CUDA.
torch_rows() { # SECONDS FILE PROGRAM [STDIN [OPTION...]]
    local limit=$1 rest
    rest=$(seconds_left) cut_short=0
    if [ "$rest" -lt "$limit" ]; then
        limit=$rest
        [ "$deadline" -ge "$part_end" ] || cut_short=1
    fi
    limit=$((limit > 12 ? limit - 10 : 2))
    within "$1" "$python" "$here/../bench/$3" --device "$torch_device" --seconds $limit "${@:5}" >"$2" 2>torch.err \
        <"${4:-/dev/null}"
}
# A row that PyTorch did not produce is skipped: it is not a failure of repro. ROWS: how many it printed. It ends before
# the time of the check runs out.
torch_missing() { # WHAT STATUS ROWS
    log torch.err
    if [ "$cut_short" = 1 ] && grep -q -e 'no time was left' -e '^Timeout' ./*.jsonl torch.err; then out_of_time=1; fi
    case $2 in
    0) return 0 ;;
    77) skip "$1: $(tail -n 1 torch.err)" ;;
    75) out_of_time=1 && skip "$1: the time of the whole check ran out after $3 rows" ;;
    *) skip "$1: status $2 after $3 rows: $(grep -v '^ ' torch.err | tail -n 1)" ;;
    esac
}

# Single operations beside PyTorch's.
compare_operations() { # KEY UNITS [OPTION]: of result.json; of machine.json; of both programs
    local status=0 begin peers key=$1 units=$2
    shift 2
    machine
    clocks_begin
    begin=$EPOCHREALTIME
    RP_GPU_TIMEOUT_MS=${hang_seconds}000 within 120 "$repro" selftest --speed --backend cuda --device "$device" --json "$@" \
        >ours.json 2>ours.err || status=$?
    echo "{\"begin\": $begin, \"end\": $EPOCHREALTIME}" >when.json
    if [ $status != 0 ]; then
        jq -r "$stopped_jq"'.stopped // empty | place' ours.json >>ours.err 2>/dev/null
        lost_on_gpu "selftest --speed" $status ours.err "$(how_it_stopped ours.json $status)"
    fi
    # Rows measured before it stopped are kept, without a comparison.
    jq -s -e '.[0].speed | length > 0' ours.json >/dev/null 2>&1 || { clocks_end && return; }
    : >theirs.jsonl
    if [ $status = 0 ]; then
        torch_rows 150 theirs.jsonl speed_torch.py ours.json "$@" || status=$?
        torch_missing "the same operations by PyTorch" $status "$(wc -l <theirs.jsonl)"
    fi
    clocks_end
    jq -R -s '[split("\n")[] | fromjson? | select(type == "object")]' theirs.jsonl >theirs.json
    jq -n --slurpfile ours ours.json --slurpfile theirs theirs.json --slurpfile clocks clocks.json \
        --slurpfile when when.json --slurpfile machine "$root/machine.json" --arg units "$units" "$clock_jq"'
        clock($when[0].begin; $when[0].end) as $clock | $machine[0][$units] as $units
        | def of_peak($flops; $seconds; $mhz): if $flops > 0 and $seconds and $mhz and $units
            then $flops / $seconds / ($units * 2e6 * $mhz) else null end;
        {clock: $clock, units: $units, rows: [$ours[0].speed[] as $r | {what: $r.what, name: $r.name, shape: $r.shape,
            us: ($r.seconds * 1e6), tflops: (if $r.flops > 0 then $r.flops / $r.seconds / 1e12 else null end),
            gbs: ($r.bytes / $r.seconds / 1e9), of_peak: of_peak($r.flops; $r.seconds; $clock.mhz),
            peers: [$theirs[0][] | select(.what == $r.what and .name == $r.name and .shape == $r.shape)
                | clock(.begin; .end) as $c | {peer, label: .label, strict, error, clock_mhz: $c.mhz,
                    us: (if .seconds then .seconds * 1e6 else null end), of_peak: of_peak($r.flops; .seconds; $c.mhz),
                    of_peer: (if .seconds then .seconds / $r.seconds else null end)}]}]}' >table.json
    put "$key" table.json
    jq -r "$clock_jq"'def peer($n): .peers[$n] // {} | [.of_peer | rounded(3)], [.clock_mhz // ""], [.peer // ""] | .[];
        .rows[] | [.what, .name, .shape, (.us | rounded(1)), (.tflops | rounded(2)), (.gbs | rounded(0)),
            (.of_peak | rounded(3)), peer(0), peer(1)]
        | map(if . == "" then "-" else . end) | @tsv' --slurpfile clocks clocks.json table.json |
        awk -F '\t' 'BEGIN { f = "%-30s %-18s %-16s %10s %8s %6s %8s  %8s %5s %-16s %8s %5s %s\n"
                printf f, "operation", "", "size", "us", "TFLOP/s", "GB/s", "of peak", "of peer", "MHz", "", "of peer",
                    "MHz", "" }
            { printf f, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 }' >table.txt
    if ! { [ -s table.json ] && jq -e '.rows | length > 0' table.json >/dev/null; }; then
        miss "$key: nothing was measured"
    elif [ -z "$stop" ]; then
        pass "$key: $(jq -r '"\(.rows | length) operations" + if .clock
            then " at \(.clock.mhz) MHz (\(.clock.least) to \(.clock.most))" else "" end' table.json), in $key/table.txt"
    fi
    peers=$(jq -r '[.rows[].peers[] | select(.of_peer)] | group_by(.peer)[] | "\(.[0].label): \(
        (map(.of_peer | log) | add / length | exp) * 1000 | round / 1000) over \(length) sizes"' table.json)
    [ -z "$peers" ] || while IFS= read -r line; do
        note "geometric mean of their time over ours, $line"
    done <<<"$peers"
}

part_speed() { compare_operations speed units; }
part_speed16() { compare_operations speed16 tensor_units --tensor-core; }

# PyTorch's training beside ours, which the part train or train16 left.
compare_training() { # SECONDS TRAIN PEERS UNITS [OPTION...]: keys of result.json; of machine.json; for gpu_peers.py
    local status=0 rows seconds=$1 train=$2 peers=$3 units=$4
    shift 4
    machine
    clocks_begin
    torch_rows "$seconds" rows.jsonl gpu_peers.py /dev/null "$@" || status=$?
    clocks_end
    [ -s "$root/$train.jsonl" ] || : >"$root/$train.jsonl"
    jq -R -s '[split("\n")[] | fromjson? | select(type == "object")]' rows.jsonl >rows.json
    rows=$(jq length rows.json)
    torch_missing "PyTorch's training" $status "$rows"
    [ "$rows" -gt 0 ] || return 0
    jq --slurpfile ours "$root/$train.jsonl" --slurpfile clocks clocks.json --slurpfile machine "$root/machine.json" \
        --arg units "$units" "$clock_jq"'$machine[0][$units] as $units
        | map(. as $r | ([$ours[] | select(.model == $r.model and .batch == $r.batch)] | last) as $mine
        | (if .error then null else clock(.begin; .end) end) as $c
        | {who, model, variant, forced, attention, strict, batch, tf32, error, samples_per_s, tokens_per_s,
            clock_mhz: $c.mhz, device_bytes: .peak_bytes, torch, ours_over_it: (if $mine and .samples_per_s then $mine.samples_per_s / .samples_per_s else null end),
            of_peak: (if $c and $units and $mine.flops_per_sample and .samples_per_s
                then .samples_per_s * $mine.flops_per_sample / ($units * 2e6 * $c.mhz) else null end)})' rows.json >peers.json
    put "$peers" peers.json
    jq -r "$clock_jq"'.[] | select(.error | not) | [.who, .model, .batch, .attention // (if .forced == "nchw" then "NCHW" else "-" end), (.samples_per_s | rounded(1)),
        (.tokens_per_s | rounded(0)), (.clock_mhz // "-"), (.of_peak | rounded(3)), (.ours_over_it | rounded(3))]
        | map(if . == "" then "-" else . end) | @tsv' \
        --slurpfile clocks clocks.json peers.json |
        awk -F '\t' 'BEGIN { f = "%-16s %-9s %6s  %-28s %10s %10s %5s %8s %13s\n"
                printf f, "program", "model", "batch", "attention", "samples/s", "tokens/s", "MHz", "of peak",
                    "ours over it" }
            { printf f, $1, $2, $3, $4, $5, $6, $7, $8, $9 }' >table.txt
    while IFS= read -r line; do
        case $line in error:*) skip "${line#error: }" ;; *) pass "$line" ;; esac
    done < <(jq -r '.[] | "\(.who)\(if .forced == "math" then " with SDPBackend.MATH" elif .forced == "nchw" then " in NCHW" else "" end), \(.model)" as $name
        | if .error then "error: \($name): \(.error)"
          else "\($name) batch \(.batch): \(.samples_per_s * 10 | round / 10) samples/s\(
            if .ours_over_it then ", ours over it \(.ours_over_it * 1000 | round / 1000)" else "" end)" end' peers.json)
}
part_peers() { compare_training 240 train peers units; }
part_peers16() { compare_training 150 train16 peers16 tensor_units --rows bf16; }

# The figures of the end, from result.json: ten, and five of mixed precision. What was not measured is left out.
put_figures() {
    edit_result 'def mean: if length > 0 then (map(log) | add / length | exp) * 1000 | round / 1000 else null end;
        def of($peer): [(.speed, .speed16).rows[]?.peers[] | select(.peer == $peer and .of_peer) | .of_peer] | mean;
        def best_share: [.rows[]? | select((.shape | split("x") | length) == 3 and .of_peak) | .of_peak] | max
            | if . then . * 1000 | round / 1000 else null end;
        def rate($model; $list): [.[$list][]? | select(.who == "repro" and .model == $model)] | first
            | if . then "\(if $model == "gpt" then .tokens_per_s else .samples_per_s end | round)" + if .clock_mhz
                then " at \(.clock_mhz | round) MHz" else "" end else null end;
        def best($model; $list): [.[$list][]? | select(.model == $model and .ours_over_it)] | min_by(.ours_over_it)
            | if . then ", ours over \(.who)\(if .strict == false and $list == "peers" then " (attention in 3xTF32)" else "" end) \(
                .ours_over_it * 1000 | round / 1000)" else "" end;
        def both($model; $train; $peers): rate($model; $train) as $r | best($model; $peers) as $b | if $r then $r + $b else null end;
        def both($model): both($model; "train"; "peers");
        def both16($model): both($model; "train16"; "peers16");
        .figures = ({"operations": (if .ops then "\(.ops | map(select(.status == 0)) | length) of \(.ops | length) passes equal, \(
            .ops[0].cases) cases, \(.kernels.ran) of \(.kernels.count) kernels compared" else null end),
         "runs equal on GPU and CPU": (if .bits
            then "\(.bits | map(select(.equal)) | length) of \(.bits | length)" else null end),
         "BERT-base b32, sequences/s": both("bert"),
         "GPT-2 124M 4 x 1024, tokens/s": both("gpt"),
         "ResNet-50 b128, images/s": both("resnet50"),
         "BERT-base b64 in bf16, sequences/s": both16("bert"),
         "GPT-2 124M 64 x 1024 in bf16, tokens/s": both16("gpt"),
         "ResNet-50 b256 in bf16, images/s": both16("resnet50"),
         "GEMM, their time over ours": (if of("cublas")
            then "cuBLAS \(of("cublas")), pedantic \(of("cublas_pedantic") // "unknown")" else null end),
         "GEMM, best share of the fp32 peak": (.speed | best_share),
         "GEMM in bf16, best share of the peak": (.speed16 | best_share),
         "GEMM in bf16, time of cuBLAS over ours": of("cublas_bf16"),
         "attention, their time over ours": (if of("sdpa_math") then "MATH (fp32) \(of("sdpa_math")), memory-efficient\(
            if any(.speed.rows[].peers[]; .peer == "sdpa_efficient" and .strict == false) then " (3xTF32)" else "" end) \(
            of("sdpa_efficient") // "unknown")"
            else null end),
         "convolutions, their time over ours": ([.speed.rows[]? | select(.what | startswith("convolution"))
            | [.peers[] | select(.of_peer) | .of_peer] | select(length > 0) | min] | mean
            | if . then "the faster layout of cuDNN \(.)" else null end),
         "sanitizer errors": (if .sanitizer
            then [.sanitizer[] | "\(.tool) \(.errors // "unknown")"] | join(", ") else null end)}
        | with_entries(select(.value != null)))'
}
