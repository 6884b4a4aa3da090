#!/bin/bash
# Every operation as compiled PTX against its definition, every access checked, with races: the PTX that ships (asynchronous copies) and
# compute_70 (none), with threads, warps and blocks in other orders. With LONG=1, as tests/sass executes the same operations by the machine code that
# is made of PTX, unless that could not be disassembled. All architectures: make ptx-check.
# timeout: 600
. "$TEST_DIR/common.inc"
[ "${LONG:-0}" != 0 ] || [ ! -e "$BUILD/sass/sm_90/gemm.sass" ] || skip "tests/sass/selftest.sh executes the machine code that is made of it: LONG=1"
selftest 100 PTX_RACES=1 SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7 RP_CUDA_ATTENTION=rotate
if [ "${LONG:-0}" != 0 ]; then
    selftest 70 SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7 RP_CUDA_ATTENTION=rotate
    selftest 70 PTX_RACES=1 RP_CUDA_GEMM=rotate
    selftest 100 PTX_RACES=1 SHIM_ORDER=1 RP_CUDA_GEMM=rotate
fi
