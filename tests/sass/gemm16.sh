#!/bin/bash
# Products of matrices in mixed precision by the machine code of sm_90 have the bits of their definition. Other architectures: make sass-check.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
gemm16 90 SASS_RACES=1
