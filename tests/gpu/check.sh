#!/bin/bash
# The checks that need an NVIDIA GPU: operations first, then whole runs, then the rest. Each part has its own limit, log
# and archive.
#
#   check.sh REPRO [PART[:SECONDS]...]     the parts of the table below, in the order given. SECONDS: in place of the
#                                          limit of the table; reaching it means that time ran out, not a failure
#
#   MINUTES=30             of the whole check          DEVICE=0   PYTHON=python3 (the one that has PyTorch)
#   KEEP=DIR               PART.tar.gz there as each part ends, for a machine that may be taken away; and result.json
#   HANG_SECONDS=20        a GPU that is silent for that long counts as hung
#   AFTER_FAILED_OPS=...   parts that replace those after ops if ops finds wrong bits or stops at an operation
#   SCALE=100              percent of every limit but MINUTES and HANG_SECONDS, for tests
#
# Needs no network and builds nothing. Everything is left in ./gpu-check: log.txt, result.json, key.pem, which checks
# the bundles, and a folder for each part. stdout is at most 12,000 characters: tables are in the folders, the end
# repeats the failures and shows the figures.
# Exit status: 0 nothing failed, 1 something failed, 7 no GPU, 75 nothing failed but the time of the whole check ran
# out. A command that reaches its own limit is a failure. After a hang the self-test runs once, without graphs, and the
# rest of the part and every later part of the same kind are skipped: a hang costs at most 70 s. The check ends if the
# GPU cannot be opened any more. README.md says what to do then.
#
# To add a part: a row here, and part_NAME in one of the files below.
# name      kind       seconds  what
table='
ops         selftest   180  every operation against its definition, also with every GEMM and attention kernel in turn
tensor      tensor      90  bare tensor-core instructions against the model of tensor_core.h, compiled by nvcc
bits        run        200  runs of every model on GPU and CPU, step by step: losses, norms and state roots
mixed       run        280  operations and runs in mixed precision, with every kernel of products in turn
train       run        120  BERT-base b32, GPT-2 124M 4 x 1024 and ResNet-50 b128: samples a second
train16     run        100  BERT-base b64, GPT-2 124M 64 x 1024 and ResNet-50 b256 in bf16: samples a second
bundle      run        150  the recipe bert_fp32 in full, sealed; two of its steps replayed on the CPU
ranks       run        200  two ranks on the GPU, a GPU and a CPU rank, all GPUs by NCCL: the bits of one rank
speed       speed      220  GEMMs against cuBLAS, attention against PyTorch, convolutions against cuDNN
speed16     speed      150  the same with tensor cores in bf16
peers       peers      240  the training of the part train by PyTorch, eager and compiled, in one process
peers16     peers      150  the training of the part train16 by PyTorch, compiled and eager, in bf16 autocast
capture     capture     60  what repro reads of the GPU against nvidia-smi, value by value
sizes       run        200  BERT-base b96, b64 and the largest batch, ResNet-50 at the largest batch
bundles     run        150  the recipes gpt2_124m_fp32 and resnet50_fp32 in full, sealed
recipes     run        300  the other recipes in full, sealed
sanitizer   sanitizer  330  the self-test under compute-sanitizer: memcheck, racecheck, synccheck
profile     profile    180  counters of the kernels that take most of the time, one launch of each size, by ncu
'
set -uo pipefail
export LC_ALL=C NO_COLOR=1 PYTHONUNBUFFERED=1 PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"
# shellcheck source=operations.sh
. "$here/operations.sh"
# shellcheck source=runs.sh
. "$here/runs.sh"
# shellcheck source=speed.sh
. "$here/speed.sh"
repro=$(realpath "$1")
shift
# shellcheck disable=SC2206 # words
queue=(${*:-$(awk 'NF { print $1 }' <<<"$table")})
device=${DEVICE:-0} torch_device=cuda:${DEVICE:-0} python=${PYTHON:-python3} keep=${KEEP:+$(realpath "$KEEP")}
hang_seconds=${HANG_SECONDS:-20} scale=${SCALE:-100}
deadline=$(($(now_ms) + $(awk -v m="${MINUTES:-30}" 'BEGIN { printf "%d", m * 60000 }')))
archive_most=16000000 print_most=5500 print_width=240
command -v jq >/dev/null || { [ -x "$here/tools/jq" ] && PATH=$here/tools:$PATH; }
command -v jq >/dev/null || {
    echo "gpu-check: jq is needed (env/setup.sh test, or a packed tree that carries it)" >&2
    exit 7
}
left_before=0 dead=0 # $left_behind before the command at hand; 1: the GPU does not answer any more
# A plan opens the device to read its memory: the quickest way to know that there is one.
bounded 90000 "$repro" run bert_tiny_fp32 --plan --backend cuda --device "$device" --json >/dev/null 2>first.err || {
    status=$?
    sed 's/^/gpu-check: /' first.err >&2
    case $status in 124 | 137) ;; *) false ;; esac && echo "gpu-check: the driver does not answer within 90 s" >&2
    rm -f first.err
    exit 7
}
rm -rf gpu-check first.err
mkdir gpu-check
root=$PWD/gpu-check
private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
export REPRO_KEY=$private/key.pem XDG_CACHE_HOME=$private/cache
"$repro" key new -o "$REPRO_KEY" >/dev/null
"$repro" key show "$REPRO_KEY" | sed -n '/^-----BEGIN PUBLIC/,/^-----END/p' >"$root/key.pem"
echo '{}' >"$root/result.json"
"$repro" version --json >"$root/version.json"

passed=0 failed=0 skipped=0 printed=0 probes=0 out_of_time=0 failures=()
child='' sampler='' stopped_kinds='' # processes; kinds of parts in which something hung or crashed
part='' kind='' part_limit=0 limit_given=0 part_end=$deadline stop='' dropped=''

# Failures again, then the figures.
end() {
    part=''
    put_about
    put_figures
    [ -z "$keep" ] || cp "$root/result.json" "$keep/"
    say "== $passed passed, $failed failed, $skipped skipped"
    local line
    for line in ${failures[@]+"${failures[@]:0:12}"}; do
        printf 'not ok  %.*s\n' $print_width "$line" | sed 's/^not ok    /        /'
    done
    [ ${#failures[@]} -le 12 ] || echo "        and $((${#failures[@]} - 12)) more: gpu-check/log.txt"
    jq -r '.figures | to_entries[] | "\(.key): \(.value)"' "$root/result.json" | cut -c 1-$print_width
}
cut_off() {
    exec >&"$console"
    [ -z "$child" ] || kill "$child" 2>/dev/null
    [ -z "$sampler" ] || kill -KILL "$sampler" 2>/dev/null
    miss "${part:-check}: ended from outside"
    local last=$part
    end
    [ -z "$last" ] || archive "$last"
    exit 1
}
# The handler only leaves word: an exit in it does not end a shell that is in the middle of a read.
trap 'ended=1' TERM INT HUP

# Whether the bits of an operation are wrong, or an operation stopped the self-test: then whole runs say little. A
# kernel that never ran and a limit that was reached are no reason to drop them.
operations_are_wrong() {
    jq -s -e 'any(.status == 5 or .stopped != null)' "$root/ops/passes.jsonl" >/dev/null 2>&1
}
finish() { # HOW: what became of the part
    [ -z "$dropped" ] || case $stop in
    hang | crash) skip "$part: not run after the $stop: $dropped" ;;
    limit) skip "$part: not run after its limit was reached: $dropped" ;;
    *) skip "$part: not run, as the time of the whole check ran out: $dropped" ;;
    esac
    local ms=$(($(now_ms) - part_begin))
    printf '{"name": "%s", "kind": "%s", "end": "%s", "seconds": %d.%03d}\n' "$part" "$kind" "$1" \
        $((ms / 1000)) $((ms % 1000)) >>"$root/parts.jsonl"
}
while [ ${#queue[@]} -gt 0 ]; do
    [ "$ended" = 0 ] || cut_off
    part=${queue[0]%%:*} given=${queue[0]#"${queue[0]%%:*}"} queue=("${queue[@]:1}")
    part_begin=$(now_ms) stop='' dropped='' limit_given=0 left_before=$left_behind
    read -r kind part_limit <<<"$(awk -v name="$part" '$1 == name { print $2, $3 }' <<<"$table")"
    [ -z "$given" ] || limit_given=1 part_limit=${given#:}
    [ -n "$kind" ] || { name=$part && part='' && miss "there is no part '$name'" && continue; }
    mkdir -p "$root/$part" && cd "$root/$part" || exit 1
    if [ "$dead" = 1 ]; then
        skip "$part: not run, as the GPU does not answer any more"
        finish passed-over
    elif [ "$part_begin" -ge "$deadline" ]; then
        out_of_time=1
        skip "$part: the time of the whole check ran out"
        finish time
    elif [[ " $stopped_kinds " == *" $kind "* ]]; then
        skip "$part: not run after an earlier hang or crash"
        finish passed-over
    else
        part_end=$((part_begin + part_limit * 10 * scale))
        "part_$part"
        finish "${stop:-done}"
        say "== $part: $((($(now_ms) - part_begin + 500) / 1000)) s"
        put_about
        put_figures
        archive "$part"
        if [ "$part" = ops ] && [ -n "${AFTER_FAILED_OPS:-}" ] && operations_are_wrong; then
            read -r -a queue <<<"$AFTER_FAILED_OPS"
            note "the operations failed, so the parts that follow are: $AFTER_FAILED_OPS"
        fi
    fi
    part_end=$deadline
done
end
[ "$failed" = 0 ] || exit 1
[ "$out_of_time" = 0 ] || exit 75
