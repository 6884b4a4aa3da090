#!/bin/bash
# A training step of each model by the PTX that ships, in the memory and the streams of a driver, has the bits of the CPU backend.
# timeout: 600
. "$TEST_DIR/common.inc"
same_steps 100 bert_tiny_fp32 --set measure.timed_steps=1 --batch-size 1
