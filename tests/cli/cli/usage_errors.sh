#!/bin/sh
# Mistakes on the command line: exit 2, what is wrong, and the nearest valid word. The texts are in usage_errors.out.
. "$TEST_DIR/common.inc"
try() {
    echo "\$ repro $*"
    status=0
    "$REPRO" "$@" >stdout.txt 2>err.txt || status=$?
    cat err.txt
    [ ! -s stdout.txt ] || fail "'repro $*' printed a result"
    echo "[$status]"
}
try
try frobnicate
try vrify x
try --jsn version
try run
try run a b
try launch sbatch bert_fp32
try run a --stps 3
try run a --plan=1
try run a -Z
try run a --precision bf16
try run a --num-layers 2
try run bert_tiny_fp32 --backend gpu
try run a --output
try run a --output --plan
try run a -o
try run a --key k --key l
try verify x --replay 0
try verify x --replay 1x
try verify x --replay 99999999999999999999
try verify x --replay=
try verify x --isa avx1024
try key
try key nwe
try recipes shwo
try help nothing
try recipes show bert_fp32 -- --json
try capture --probe cpux
# a value of a key is blamed on the option by which it came
try run bert_tiny_fp32 --isa avx1024
try run bert_tiny_fp32 --steps 0
try run bert_tiny_fp32 --set optimizer.beta1=1
try run bert_tiny_fp32 --set a=b
