#!/bin/bash
# A training step of each model by the machine code of sm_90 has the bits of the CPU backend.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
few_words
# shellcheck disable=SC2086 # words
same_steps 90 bert_tiny_fp32 $bert_few --set measure.timed_steps=1 --batch-size 1
small_gpt 90 1 1 --set train.recompute=full --set task.reset_position_ids=true --set task.reset_attention_mask=true
same_steps 90 resnet50_tiny_fp32 --set measure.timed_steps=1 --batch-size 2 --set train.accumulation_steps=2 --set task.image_size=32
