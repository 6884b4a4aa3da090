#!/bin/bash
# The second call on a borrowed machine, in what is left of the time. README.md has which one follows from the first
# call. The seconds after a part bound it, so that the later ones get time.
#
#   call2.sh good     capture, the bundles of GPT-2 and ResNet-50, counters of the large kernels
#   call2.sh slow     the same with the counters first
#   call2.sh mixed    mixed precision: operations, runs against the CPU, training and products in bf16 beside
#                     PyTorch's, bare instructions; give it MINUTES=8
#   call2.sh tools    compute-sanitizer and the counters; give it MINUTES=6, as every tool needs one or two
#   call2.sh differ   operations are right and runs differ: the runs without graphs, then compute-sanitizer
#   call2.sh hang     a run hung: the runs without graphs, their speed, compute-sanitizer
#   call2.sh ops      operations are wrong or hang: synchronous launches, compute-sanitizer or where the kernel stands
#
# OUT=DIR: what comes back is written there; MINUTES=2.5 in all
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export KEEP=${OUT:?a folder for the archives is needed} MINUTES=${MINUTES:-2.5}
cd "$(mktemp -d)" || exit 1
PATH=$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin
# shellcheck source=common.sh
. "$top/tests/gpu/common.sh"
gdb_seconds=${GDB_SECONDS:-20} # until the self-test is interrupted: more than it takes to reach the kernel
check() { # PART[:SECONDS]...
    "$top/tests/gpu/check.sh" "$top/repro" "$@" || status=$?
}
# Where the kernel of a self-test that hangs stands: the pass that hung runs again, is interrupted, and the program
# counters of its warps are printed. It takes at most $gdb_seconds and 14 s.
where_it_stands() {
    local pass
    pass=$(jq -rR 'fromjson? | select(.stopped) | .name' gpu-check/ops/passes.jsonl 2>/dev/null | head -n 1)
    [ -n "$pass" ] || { echo "cuda-gdb: not run, as no pass of the self-test stopped" && return; }
    command -v cuda-gdb >/dev/null || { echo "there is no cuda-gdb" && return; }
    case $pass in
    gemm) export RP_CUDA_GEMM=rotate ;;
    attention) export RP_CUDA_ATTENTION=rotate ;;
    esac
    # A command in the background has SIGINT ignored; cuda-gdb has to receive it.
    RP_GPU_TIMEOUT_MS=120000 bounded $(((gdb_seconds + 10) * 1000)) timeout -s INT -k 8 "$gdb_seconds" \
        env --default-signal=INT cuda-gdb -batch -ex 'set follow-fork-mode child' -ex run -ex 'info cuda kernels' \
        -ex 'info cuda warps' -ex 'x/6i $pc' --args "$top/repro" selftest --backend cuda >"$OUT/cuda-gdb.txt" 2>&1
    echo "cuda-gdb, pass '$pass' of the self-test:"
    tail -n 12 "$OUT/cuda-gdb.txt" | cut -c 1-160
}
status=0
case ${1:-good} in
good) check capture:20 bundles:45 profile ;;
slow) check profile:90 bundles:45 capture ;;
mixed) check mixed:180 train16:60 speed16:90 tensor:40 peers16 ;;
tools) check sanitizer:210 profile ;;
differ) RP_CUDA_GRAPHS=0 check bits:100 sanitizer ;;
hang) RP_CUDA_GRAPHS=0 check bits:80 train:35 sanitizer ;;
ops)
    export RP_CUDA_GRAPHS=0 CUDA_LAUNCH_BLOCKING=1
    MINUTES=$(awk -v m="$MINUTES" -v s=$((gdb_seconds + 14)) 'BEGIN { m -= s / 60; print (m > 0 ? m : 0) }')
    check ops sanitizer
    where_it_stands
    ;;
*) echo "usage: call2.sh good|slow|mixed|tools|differ|hang|ops" >&2 && exit 2 ;;
esac
exit $status
