#!/bin/bash
# Other operations of mixed precision by the machine code of sm_90 have the bits of their definition. Other architectures: make sass-check.
# timeout: 600
. "$TEST_DIR/common.inc"
need_text 90
stored 90 SASS_RACES=1
mixed test_cuda_attention16 ATTENTION16 90 SASS_RACES=1
mixed test_cuda_conv16 CONV16 90 SASS_RACES=1
