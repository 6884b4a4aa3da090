#!/bin/bash
# Under an address-space limit the plan knows it, and no crash comes of it.
. "$TEST_DIR/common.inc"
ulimit -v 3000000 # KiB: too little for BERT base
exit_of 7 "$REPRO" run bert_fp32 --steps 1 -o no.repro.tar.zst
