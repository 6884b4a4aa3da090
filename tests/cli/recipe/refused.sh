#!/bin/sh
# A recipe that is wrong is refused with its place, what was expected and the nearest key, before anything is done.
. "$TEST_DIR/common.inc"
printf 'train:\n  batchsize: 8\n' >bad.yaml
refused 2 bad.yaml
printf 'train:\n  batch_size: 8\n  batch_size: 8\n' >bad.yaml
refused 2 bad
printf 'optimizer:\n  learning_rate: fast\n' >bad.yaml
refused 2 ./bad.yaml
printf 'model:\n  num_hidden_layers: 1000\n' >bad.yaml
refused 2 bad.yaml
printf 'title: "a\n' >bad.yaml
refused 4 bad.yaml
printf 'a: &a [x]\ntitle: *a\n' >bad.yaml
refused 2 bad.yaml
printf 'title: *a\n' >bad.yaml
refused 4 bad.yaml
head -c 262145 /dev/zero | tr '\0' '#' >bad.yaml
refused 4 bad.yaml
refused 3 bert_pf32
refused 3 nothing_like_it
refused 2 bert_tiny_fp32 --set train.batchsize=8
refused 2 bert_tiny_fp32 --set train.batch_size=8 --set train.batch_size=8
printf 'title: a\nmodel:\n  type_vocab_size: 2\nworkload: gpt\n' >gpt.yaml
refused 2 gpt.yaml
refused 2 gpt.yaml --set workload=resnet50
printf 'workload: resnet50\nmodel:\n  blocks: 3,4,6\n' >resnet.yaml
refused 2 resnet.yaml
refused 2 resnet.yaml --set model.blocks=1,1,1,1 --set model.pixel_std=0,1,1
refused 2 resnet.yaml --set model.blocks=1,1,1,1 --set train.recompute=full
refused 2 resnet.yaml --set model.blocks=1,1,1,1 --set schedule.decay=step
refused 2 resnet.yaml --set model.blocks=1,1,1,1 --set schedule.whole_epochs=true --set schedule.steps_per_epoch=7
refused 2 bert_tiny_fp32 --set optimizer.name=sgd
mkfifo pipe.yaml
refused 3 pipe.yaml
