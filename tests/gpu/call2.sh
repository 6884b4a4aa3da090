#!/bin/bash
# The second call on a borrowed machine, in what is left of the time. README.md has which one follows from the first
# call.
#
#   call2.sh good     the bundles of GPT-2 and ResNet-50, compute-sanitizer, counters of the large kernels
#   call2.sh slow     the same with the counters first
#   call2.sh differ   operations are right and runs differ: the runs without graphs, then compute-sanitizer
#   call2.sh hang     a run hung: the runs without graphs, their speed, compute-sanitizer
#   call2.sh ops      operations are wrong or hang: each launch is waited for, compute-sanitizer, where the kernel stands
#
# OUT=DIR: what comes back is written there; MINUTES=3.5
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export KEEP=${OUT:?a folder for the archives is needed} MINUTES=${MINUTES:-3.5}
cd "$(mktemp -d)" || exit 1
PATH=$PATH:/usr/local/nvidia/bin
check() { # PART...
    "$top/tests/gpu/check.sh" "$top/repro" "$@" || status=$?
}
# Where the kernel of a self-test that hangs stands: interrupted after a while, then the program counters of its warps.
where_it_stands() {
    command -v cuda-gdb >/dev/null || { echo "there is no cuda-gdb" && return; }
    RP_GPU_TIMEOUT_MS=120000 timeout -s INT -k 20 25 cuda-gdb -batch -ex 'set follow-fork-mode child' -ex run \
        -ex 'info cuda kernels' -ex 'info cuda warps' -ex 'x/6i $pc' --args "$top/repro" selftest --backend cuda >"$OUT/cuda-gdb.txt" 2>&1
    tail -n 12 "$OUT/cuda-gdb.txt" | cut -c 1-160
}
status=0
case ${1:-good} in
good) check bundles sanitizer profile ;;
slow) check profile bundles sanitizer ;;
differ) RP_CUDA_GRAPHS=0 check bits sanitizer ;;
hang) RP_CUDA_GRAPHS=0 check bits train sanitizer ;;
ops)
    RP_CUDA_GRAPHS=0 CUDA_LAUNCH_BLOCKING=1 check ops sanitizer
    where_it_stands
    ;;
*) echo "usage: call2.sh good|slow|differ|hang|ops" >&2 && exit 2 ;;
esac
exit $status
