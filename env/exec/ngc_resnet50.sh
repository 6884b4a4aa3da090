#!/bin/sh
# ResNet-50 v1.5 of NVIDIA's DeepLearningExamples for PyTorch, one run of the report of DLPerf
# (NVIDIADeepLearningExamples/PyTorch/resnet50v1.5 at d262d5f5, container pytorch:20.03-py3, V100), sealed with its log.
#
#   ngc_resnet50.sh [GPUS [BATCH [PRECISION [REPEAT]]]]     1 GPU, 128 images per GPU, fp32 or amp, 1
#
# In the container, in the folder that has DLPerf's single_node_train.sh. WORKSPACE has main.py, DATA the training folder.
# DLPerf's window, iterations 25 to 125, is the default of the format.
set -eu
gpus=${1:-1} batch=${2:-128} precision=${3:-fp32} repeat=${4:-1} workspace=${WORKSPACE:-/workspace/rn50} data=${DATA:-/data}
log=${precision}_ngc/pytorch/1n${gpus}g/r50_b${batch}_${precision}_$repeat.log
exec repro exec --log "dlperf:$log" --input single_node_train.sh --input "$workspace/main.py" \
    -o "ngc_resnet50_1n${gpus}g_b${batch}_${precision}_$repeat.repro.tar.zst" -- \
    bash single_node_train.sh "$workspace" "$data" 1 "$gpus" 127.0.0.1 29500 "$batch" 120 "$precision" "$repeat"
