#!/bin/sh
# A driver that lacks a function: the message has the CUDA and driver version that has it, or says that the library is no driver's.
. "$TEST_DIR/common.inc"
mkdir library
lacking() { # FUNCTION VARIABLE=VALUE: as if the library had been built without it; the name has to stay as long as it is
    LC_ALL=C sed "s/\\<$1\\>/$(printf %s "$1" | tr '[:lower:]' x)/g" "$BUILD/shim/800/libcuda.so.1" >library/libcuda.so.1
    exit_of 7 env LD_LIBRARY_PATH="$PWD/library" "$2" "$REPRO" run bert_tiny_fp32 --plan --backend cuda
    says "$1"
    words
}
lacking cuGraphExecKernelNodeSetParams_v2 SHIM_VERSION=11080
lacking cuFuncSetAttribute SHIM_VERSION=11040
lacking cuFuncSetAttribute SHIM_VERSION=12040
lacking cuDriverGetVersion SHIM_DEVICES=1
