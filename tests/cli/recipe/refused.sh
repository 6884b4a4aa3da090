#!/bin/sh
# A recipe that is wrong is refused with its place, what was expected and the nearest key, before anything is done.
. "$TEST_DIR/common.inc"
printf 'train:\n  batchsize: 8\n' >bad.yaml
refused 2 "bad.yaml:2:3: unknown key 'train.batchsize': did you mean 'train.batch_size' (a whole number from 1 to 65536, or max)?" bad.yaml
printf 'train:\n  batch_size: 8\n  batch_size: 8\n' >bad.yaml
refused 2 'bad.yaml:3:15: train.batch_size is given twice, first in line 2' bad
printf 'optimizer:\n  learning_rate: fast\n' >bad.yaml
refused 2 "bad.yaml:2:18: optimizer.learning_rate: expected a number from 0 to 10, found 'fast'" ./bad.yaml
printf 'model:\n  num_hidden_layers: 1000\n' >bad.yaml
refused 2 'bad.yaml:2:22: model.num_hidden_layers: 1000 is out of range: expected a whole number from 1 to 200' bad.yaml
printf 'title: "a\n' >bad.yaml
refused 4 'bad.yaml:' bad.yaml
printf 'a: &a [x]\ntitle: *a\n' >bad.yaml
refused 2 "bad.yaml:1:1: unknown key 'a'" bad.yaml
printf 'title: *a\n' >bad.yaml
refused 4 'bad.yaml:1:8: an alias (*name) does not belong in a recipe' bad.yaml
head -c 262145 /dev/zero | tr '\0' '#' >bad.yaml
refused 4 bad.yaml bad.yaml
refused 3 "no recipe 'bert_pf32'" bert_pf32
refused 3 "did you mean 'bert_fp32'?" bert_pf32
refused 3 bert_lamb_fp32 nothing_like_it
refused 2 "--set train.batchsize=8: unknown key 'train.batchsize': did you mean 'train.batch_size'" bert_tiny_fp32 --set train.batchsize=8
refused 2 'is set twice on the command line' bert_tiny_fp32 --set train.batch_size=8 --set train.batch_size=8
printf 'title: a\nmodel:\n  type_vocab_size: 2\nworkload: gpt\n' >gpt.yaml
refused 2 'gpt.yaml:3:3: model.type_vocab_size is a key of bert; this recipe trains gpt: remove it' gpt.yaml
refused 2 'gpt.yaml:3:3: model.type_vocab_size is a key of bert; this recipe trains resnet50' gpt.yaml --set workload=resnet50
printf 'title: a\ntrain.batch_size: 1\nworkload: resnet50\n' >resnet.yaml
refused 7 'resnet.yaml:3:11: this build cannot train resnet50; it trains bert, gpt' resnet.yaml
printf 'title: a\ntrain.batch_size: 1\n' >plain.yaml
refused 7 'plain.yaml: this build cannot train resnet50; it trains bert, gpt' plain.yaml --set workload=resnet50
mkfifo pipe.yaml
refused 3 pipe.yaml pipe.yaml
