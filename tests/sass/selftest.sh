#!/bin/bash
# Every operation as the machine code of sm_90 against its definition, every access checked: on a GPU of 132 multiprocessors, with every kernel in
# turn, with races, with threads, warps and blocks in other orders, with the code for lanes that came apart and for quotients near the ends of the
# range, and with a special function unit that is wrong in the last place. LONG=1: on GPUs of one and four multiprocessors too. Other
# architectures: make sass-check.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
selftest 90 SASS_RACES=1 SHIM_MULTIPROCESSORS=132 SASS_DIVERGED=1 SASS_SLOW=1 SASS_ERROR=1 SHIM_ORDER=2 SHIM_RESIDENT=5 SHIM_SEED=7 RP_CUDA_GEMM=rotate \
    RP_CUDA_ATTENTION=rotate
[ "${LONG:-0}" != 0 ] || exit 0
selftest 90 SASS_RACES=1
selftest 90 SHIM_MULTIPROCESSORS=1 RP_CUDA_GEMM=rotate RP_CUDA_ATTENTION=rotate
selftest 90 SHIM_MULTIPROCESSORS=132 SASS_DIVERGED=1 SASS_SLOW=1
