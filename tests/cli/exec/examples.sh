#!/bin/sh
# The scripts of env/exec around played trainings: they call these with their arguments, and the sealed figure, layout
# and window are those of the log that each writes.
. "$TEST_DIR/common.inc"
mkdir bin code BERT
ln -s "$REPRO" bin/repro
export PATH="$PWD/bin:$PATH" CODE="$PWD/code" WORKSPACE="$PWD/code"
touch code/run_pretraining.py code/bert_config.json code/main.py BERT/run_pretraining.py
sealed() { # BUNDLE JQ: of the first result
    exit_of 0 "$REPRO" verify "$1"
    "$REPRO" inspect "$1" run.json | jq -e ".log.result[0] | $2" >answer.txt || { "$REPRO" inspect "$1" run.json |
        jq .log >&2; fail "$1: another result"; }
}

# A log of a window that fits into the time that its command takes: 90 iterations of 2 x 32 sequences in 48 ms
cat >single_node_train.sh <<'END'
[ "$*" = "32 1 127.0.0.1 29500 2 120 fp32 1" ] || exit 9
mkdir -p fp32_ngc_bert_b32/pytorch/1n2g
sleep 0.1
for line in "10.000 25" "10.024 70" "10.048 115"; do
    echo "DLL 2020-09-16 00:00:${line% *}000 - Training Epoch: 0 Training Iteration: ${line#* }  average_loss : 11.1  step_loss : 11.0"
done | tee fp32_ngc_bert_b32/pytorch/1n2g/bert-base-adam-training_b32_fp32_1.log
END
exit_of 0 "$TOP/env/exec/ngc_bert.sh" 2 32
sealed ngc_bert_1n2g_b32_fp32_1.repro.tar.zst '(.throughput.value - 120000 | fabs < 1) and
    .throughput.unit == "sequences/s" and .gpus_per_node == 2 and
    .nodes == 1 and .batch_per_device == 32 and .precision == "fp32"'
exit_of 2 "$TOP/env/exec/ngc_bert.sh" 2 32 # the log of an earlier run

# 100 iterations of 128 images in 50 ms
cat >single_node_train.sh <<'END'
[ "$*" = "$WORKSPACE /data 1 1 127.0.0.1 29500 128 120 amp 3" ] || exit 9
mkdir -p amp_ngc/pytorch/1n1g
sleep 0.1
for line in "10.000 25" "10.025 75" "10.050 125"; do
    echo "DLL 2020-09-16 00:00:${line% *}000 - Epoch: 0 Iteration: ${line#* }  train.loss : 7.09  train.total_ips : 250.00 img/s"
done | tee amp_ngc/pytorch/1n1g/r50_b128_amp_3.log
END
exit_of 0 "$TOP/env/exec/ngc_resnet50.sh" 1 128 amp 3
sealed ngc_resnet50_1n1g_b128_amp_3.repro.tar.zst '(.throughput.value - 256000 | fabs < 1) and
    .throughput.unit == "images/s" and .gpus_per_node == 1'

# 100 steps of 8 x 24 sequences in 40 ms
cat >bert_base_pretrain.sh <<'END'
[ "$*" = "1 8 24" ] || exit 9
printf '%s\n' "batch_size_per_device = 24" "gpu_num_per_node = 8" "num_nodes = 1" "seq_length = 128"
sleep 0.1
for line in "19 1600000000.000" "69 1600000000.020" "119 1600000000.040"; do
    echo "step: ${line% *}, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, throughput: 480000.0 ${line#* }"
done
END
exit_of 0 "$TOP/env/exec/oneflow_bert.sh" 8 24
sealed oneflow_bert_1n8g_b24.repro.tar.zst '(.throughput.value - 480000 | fabs < 1) and .gpus_per_node == 8 and
    .batch_per_device == 24'
