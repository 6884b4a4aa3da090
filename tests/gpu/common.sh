# shellcheck shell=bash disable=SC2154,SC2034 # check.sh owns the variables
# What every part of check.sh uses: the log, the counts, limits of time, result.json, archives, and what follows a hang.

# --- log and counts: everything goes to log.txt and to the log of the part, and to stdout as long as that stays short ---
say() {
    printf '%s\n' "$*" >>"$root/log.txt"
    [ -z "$part" ] || printf '%s\n' "$*" >>"$root/$part/log.txt"
    local line most=$print_most
    case $* in "not ok"* | "note "*) most=$((most + 1500)) ;; esac
    [[ "$printed" -lt "$most" || "$*" == "== "* ]] || return 0
    line=$(printf '%.*s' "$print_width" "$*")
    printed=$((printed + ${#line} + 1))
    printf '%s\n' "$line"
}
log() { # FILE: into the log of the part only
    cat "$1" >>"$root/$part/log.txt" 2>/dev/null
}
pass() { passed=$((passed + 1)) && say "ok      $*"; }
miss() { failed=$((failed + 1)) && failures+=("$*") && say "not ok  $*"; }
skip() { skipped=$((skipped + 1)) && say "skip    $*"; }
note() { say "note    $*"; }

# --- limits of time, in milliseconds since 1970 inside ---
now_ms() {
    local us=${EPOCHREALTIME/[.,]/}
    echo "${us%???}"
}
seconds_of() { # MILLISECONDS
    printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}
seconds_left() { # of the part, whole seconds
    local now least=$part_end
    now=$(now_ms)
    [ "$deadline" -ge "$least" ] || least=$deadline
    echo $(((least - now) / 1000))
}
left_behind=0 ended=0 # processes that could not be killed; 1: a signal asked the check to end
exec {console}>&1 # for cut_off, which may be called where stdout is a file
exec {naps}<> <(:) # nothing is ever written to it: a read with a time limit sleeps without a process
nap() { # SECONDS
    read -r -t "$1" -u "$naps" _ || :
}
# Run a command with a limit of its own, TERM at its end and KILL 3 s later. A process that is stuck in the driver ends
# with neither, and timeout would wait for it: one second later it is left behind, and $left_behind counts it.
# 124 or 137: the limit was reached. $foreground: TERM goes to the command only, which then ends what it started.
bounded() { # MILLISECONDS COMMAND...
    local limit=$1 give_up status=0 pause=0.02 us
    shift
    give_up=$(($(now_ms) + limit + 4000))
    ( # in the background, since a shell that waits hears no signals
        exec {console}>&-
        exec timeout ${foreground:+--foreground} -k 3 "$(seconds_of "$limit")" "$@"
    ) <&0 &
    child=$!
    while kill -0 $child 2>/dev/null; do
        [ "$ended" = 0 ] || cut_off
        us=${EPOCHREALTIME/[.,]/}
        if [ "${us%???}" -ge "$give_up" ]; then
            left_behind=$((left_behind + 1)) child=''
            return 137
        fi
        [ "${us%???}" -lt $((give_up - limit - 3500)) ] || pause=0.1 # half a second after the start
        nap $pause
    done
    wait $child || status=$?
    child=''
    return $status
}
# The same in seconds, bounded by the part and the whole check as well.
# 124: the limit was reached; 76: the limit of the part; 75: the end of the whole check.
within() { # SECONDS COMMAND...
    local limit=$(($1 * 10 * scale)) begin status=0 reached=124
    shift
    begin=$(now_ms)
    [ $((part_end - begin)) -ge "$limit" ] || { limit=$((part_end - begin)) && reached=76; }
    [ $((deadline - begin)) -gt "$limit" ] || { limit=$((deadline - begin)) && reached=75; }
    [ "$limit" -gt 0 ] || return $reached
    bounded "$limit" "$@" || status=$?
    case $status in
    124 | 137) [ $(($(now_ms) - begin)) -lt "$limit" ] || status=$reached ;; # earlier: something else killed it
    esac
    return $status
}
# Count a command that failed. $stop becomes the reason why its part cannot go on.
lost() { # WHAT STATUS FILE-WITH-ITS-MESSAGES
    local last
    last=$(tail -n 1 "$3" 2>/dev/null)
    log "$3"
    case $2 in
    75) stop=time out_of_time=1 && skip "$1: the time of the whole check ran out" ;;
    76) if [ "$limit_given" = 1 ]; then
        stop=time out_of_time=1 && skip "$1: the $part_limit s that '$part' was given ran out"
    else stop=limit && miss "$1: the part '$part' reached its limit of $part_limit s"; fi ;;
    124) miss "$1: stopped at its own limit of time: $last" ;;
    *) miss "$1: status $2: $last" ;;
    esac
}
# Whether a part that was stopped may begin something; if not, its name is kept for one line at the end of the part.
may() { # WHAT
    [ -n "$stop" ] || return 0
    dropped="$dropped${dropped:+, }$1"
    return 1
}

# --- result.json ---
edit_result() { # ARGUMENT-OF-JQ...: result.json becomes what jq makes of it; if that fails, it stays
    if jq "$@" <"$root/result.json" >"$root/result.new"; then mv "$root/result.new" "$root/result.json"; fi
}
put() { # NAME FILE: the JSON of a file under a name
    [ ! -s "$2" ] || edit_result --arg name "$1" --slurpfile new "$2" '.[$name] = $new[0]' 2>/dev/null
}
put_lines() { # NAME FILE: its lines as an array
    edit_result --arg name "$1" --slurpfile lines "$2" '.[$name] = $lines'
}
put_about() {
    [ -s "$root/parts.jsonl" ] || : >"$root/parts.jsonl"
    edit_result --argjson passed "$passed" --argjson failed "$failed" --argjson skipped "$skipped" \
        --argjson out "$out_of_time" --argjson hang "$hang_seconds" --argjson left "$left_behind" \
        --argjson dead "$dead" --slurpfile version "$root/version.json" --slurpfile parts "$root/parts.jsonl" \
        '.about = {version: $version[0], parts: $parts, passed: $passed, failed: $failed, skipped: $skipped,
            out_of_time: ($out == 1), gpu_dead: ($dead == 1), left_behind: $left, hang_seconds: $hang,
            failures: $ARGS.positional}' --args ${failures[@]+"${failures[@]}"}
}
# The folder of a part, with the log, the results and the public key of that moment. Bundles are left out where they
# make it too large.
archive() { # PART
    [ -n "$keep" ] || return 0
    local without
    for without in '' '*.repro.tar.zst'; do
        tar -C "$root/.." ${without:+--exclude="$without"} -czf "$keep/$1.new" \
            gpu-check/log.txt gpu-check/result.json gpu-check/key.pem "gpu-check/$1" 2>/dev/null
        [ "$(stat -c %s "$keep/$1.new" 2>/dev/null || echo 0)" -gt "$archive_most" ] || break
    done
    [ -z "$without" ] || note "$1.tar.gz is without the bundles of $1: they make it larger than $archive_most bytes"
    mv "$keep/$1.new" "$keep/$1.tar.gz"
}

# --- what the GPU does ---
# Where a self-test stopped, as text; and why it did, as a word: status 7 is a hang.
stopped_jq='def place: "stopped in \(.op // "opening the device"), case \(.case)"
    + if (.shape // "") != "" then ", shape \(.shape)" else "" end;'
# -s: jq 1.6 is content with a file that is empty.
how_it_stopped() { # FILE.json STATUS
    if jq -s -e '.[0].stopped' "$1" >/dev/null 2>&1; then if [ "$2" = 7 ]; then echo hang; else echo crash; fi; fi
}
# The self-test. Its JSON is in NAME.json, its messages in NAME.err, $found is one line on what it found.
# 0: every case is equal.
selftest() { # NAME SECONDS OPTION...
    local status=0
    RP_GPU_TIMEOUT_MS=${hang_seconds}000 within "$2" "$repro" selftest --backend cuda --device "$device" --json "${@:3}" \
        >"$1.json" 2>"$1.err" || status=$?
    found=$(jq -r "$stopped_jq"'
        [.operations[]? | select(.failed > 0) | "\(.op) in \(.failed) of \(.cases) cases"] as $wrong
        | if .stopped then .stopped | place
          elif ($wrong | length) > 0 then "wrong bits: \($wrong | join(", "))"
          else "\(.operations | length) operations, \(.operations | map(.cases) | add) cases: the bits of the definition"
          end' "$1.json" 2>/dev/null)
    [ -n "$found" ] || found=$(tail -n 1 "$1.err")
    return $status
}
# After a hang: the self-test alone, launched without graphs. It shows whether the GPU still answers, and which
# operation stops it. 75: the end of the check cut it off, so nothing is known. A GPU that cannot be opened, or whose
# self-test cannot be killed, is dead: $dead is set, and the check ends.
probe() { # AFTER-WHAT
    local status=0 part_end=$deadline name begin found stuck=$left_behind
    probes=$((probes + 1)) begin=$(now_ms) name=probe$probes
    RP_CUDA_GRAPHS=0 selftest $name 40 || status=$?
    if [ $status = 75 ]; then
        out_of_time=1 found="cut off by the end of the check"
    elif [ "$left_behind" != "$stuck" ]; then
        dead=1 found="it cannot be killed"
    elif [ $status = 7 ] && ! jq -s -e '.[0].stopped.op | . != null and . != "opening the device"' $name.json \
        >/dev/null 2>&1; then
        dead=1 # no GPU, or it stopped before the first case
    elif [ $status = 124 ] && ! jq -s -e '.[0].operations | length > 0' $name.json >/dev/null 2>&1; then
        dead=1 found="no operation was compared within its limit" # opening alone may take 60 s
    fi
    failures+=("  after it, the self-test without graphs: $found")
    note "the self-test without graphs: $found"
    jq -n --arg after "$1" --argjson status $status --argjson ms $(($(now_ms) - begin)) --slurpfile report $name.json '
        {after: $after, status: $status, seconds: ($ms / 1000), stopped: ($report[0].stopped // null),
        operations: ($report[0].operations // [] | length),
        wrong: [$report[0].operations[]? | select(.failed > 0) | .op]}' >>"$root/probes.jsonl" 2>/dev/null
    put_lines probes "$root/probes.jsonl"
    return $status
}
# Count what failed on the GPU. A hang, and a self-test that crashed, end the part and every later part of its kind;
# a process that cannot be killed is a hang, and where only a limit was reached, the probe decides. A run that crashed
# costs no time: the next one may work.
lost_on_gpu() { # WHAT STATUS FILE [hang | crash]
    local what=$1 status=$2 how=${4:-} answer=0
    [ "$left_behind" = "$left_before" ] || how=hang
    left_before=$left_behind
    grep -qF 'run.hang_seconds' "$3" 2>/dev/null && how=hang
    lost "$what" "$status" "$3"
    [ "$stop" != time ] || return 0
    case $status in 76 | 124) ;; *) [ -n "$how" ] || return 0 ;; esac
    probe "$what" || answer=$?
    case $answer in 0 | 75) ;; *) how=${how:-hang} ;; esac
    left_before=$left_behind
    [ -z "$how" ] || { stop=$how && stopped_kinds="$stopped_kinds $kind"; }
}

# --- the clock of the GPU, two or three times a second: lines of seconds, MHz, W, degrees ---
sample_clocks() { # in a process of its own, until it is killed; a query that does not end delays nobody else
    local line
    exec {console}>&-
    while line=$(timeout -k 1 5 nvidia-smi -i "$device" --query-gpu=clocks.sm,power.draw,temperature.gpu \
        --format=csv,noheader,nounits 2>/dev/null); do
        echo "$EPOCHREALTIME, $line" >>clocks.csv
        sleep 0.3
    done
}
clocks_begin() {
    : >clocks.csv
    command -v nvidia-smi >/dev/null || return 0
    sample_clocks >/dev/null 2>&1 &
    sampler=$!
}
clocks_end() { # -> clocks.json
    if [ -n "$sampler" ]; then kill -KILL "$sampler" && wait "$sampler"; fi 2>/dev/null
    sampler=''
    jq -R -s '[split("\n")[] | split(", ") | map(tonumber? // null) | select(length == 4 and .[1] != null)
        | {t: .[0], mhz: .[1], w: .[2], c: .[3]}]' clocks.csv >clocks.json
}
# fp32 units of the GPU, each of which does a multiplication and an addition in a cycle, and as many for dense products
# of 16 bits with sums in fp32, by the data sheets. null where the capture has no number of multiprocessors.
machine() { # -> ../machine.json: {name, multiprocessors, units, tensor_units}
    [ ! -s "$root/machine.json" ] || return 0
    within 20 "$repro" capture --probe gpu --json >capture.json 2>/dev/null
    jq --arg gpu "gpu$device" '.probes.gpu.devices[$gpu] | {name: (.name.value // null),
        multiprocessors: (.sm_count.value // null), capability: (.compute_capability.value // null)}
        | .units = (if .multiprocessors then .multiprocessors *
            (if .capability | IN("6.0", "7.0", "7.2", "7.5", "8.0") then 64 else 128 end) else null end)
        | .tensor_units = ({"7.0": 512, "7.5": 512, "8.0": 1024, "9.0": 2048, "10.0": 4096}[.capability // ""] as $each
            | if .multiprocessors and $each then .multiprocessors * $each else null end)' \
        capture.json >"$root/machine.json" 2>/dev/null ||
        echo '{"name": null, "multiprocessors": null, "units": null, "tensor_units": null}' >"$root/machine.json"
    put machine "$root/machine.json"
}
