#!/bin/sh
# BERT-base of OneFlow, one run of its report (OneFlow/LanguageModeling/BERT of DLPerf at cc52360a, V100), sealed with what it prints.
#
#   oneflow_bert.sh [GPUS [BATCH]]     1 GPU, 32 sequences per GPU
#
# In the folder that has bert_base_pretrain.sh, in which DATA_ROOT is set. The arguments that OneFlow prints name the layout; DLPerf's
# window, steps 19 to 119, is the default of the format.
set -eu
gpus=${1:-1} batch=${2:-32}
exec repro exec --log dlperf --input bert_base_pretrain.sh --input BERT/run_pretraining.py -o "oneflow_bert_1n${gpus}g_b$batch.repro.tar.zst" -- \
    bash bert_base_pretrain.sh 1 "$gpus" "$batch"
