#!/bin/bash
# A training step of each model by the PTX that ships, in the memory and the streams of a driver, has the bits of the CPU backend.
# ResNet-50 with LONG=1, and BERT as wide as tests/sass/train.sh has it. timeout: 600
. "$TEST_DIR/common.inc"
few_words
narrow="--set model.hidden_size=32 --set model.intermediate_size=64"
[ "${LONG:-0}" = 0 ] || narrow=
# shellcheck disable=SC2086 # words
same_steps 100 bert_tiny_fp32 $bert_few $narrow --set measure.timed_steps=1 --batch-size 1
small_gpt 100 1 1 --set train.recompute=full --set task.reset_position_ids=true --set task.reset_attention_mask=true
[ "${LONG:-0}" = 0 ] || same_steps 100 resnet50_tiny_fp32 --set measure.timed_steps=1 --batch-size 2 --set train.accumulation_steps=2 --set task.image_size=32
