#!/bin/sh
# BERT-base of NVIDIA's DeepLearningExamples for PyTorch, one run of the report of DLPerf
# (NVIDIADeepLearningExamples/PyTorch/BERT at 87ee725a, container pytorch:20.03-py3, V100), sealed with its log.
#
#   ngc_bert.sh [GPUS [BATCH [PRECISION [REPEAT]]]]     1 GPU, 32 sequences per GPU, fp32 or fp16, 1
#
# In the container, in the folder that has DLPerf's single_node_train.sh; its start, with repro mounted:
#
#   docker run --gpus all --shm-size=16g --ulimit memlock=-1 -v "$PWD:/results" -v "$(command -v repro):/usr/bin/repro:ro" IMAGE ...
#
# The log names its layout by folder and file, which is how it is read; DLPerf's window, iterations 25 to 115, is the default.
set -eu
gpus=${1:-1} batch=${2:-32} precision=${3:-fp32} repeat=${4:-1} code=${CODE:-/workspace/examples/bert}
log=${precision}_ngc_bert_b$batch/pytorch/1n${gpus}g/bert-base-adam-training_b${batch}_${precision}_$repeat.log
exec repro exec --log "dlperf:$log" --input single_node_train.sh --input "$code/run_pretraining.py" --input "$code/bert_config.json" \
    -o "ngc_bert_1n${gpus}g_b${batch}_${precision}_$repeat.repro.tar.zst" -- \
    bash single_node_train.sh "$batch" 1 127.0.0.1 29500 "$gpus" 120 "$precision" "$repeat"
