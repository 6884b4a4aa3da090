#!/bin/bash
# Operations on stored tensors of 16 bits by the machine code of sm_90 have the bits of their definition. Other architectures: make sass-check.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
stored 90 SASS_RACES=1
