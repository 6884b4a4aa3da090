#!/bin/sh
# repro: 8 ranks on 2 hosts over ssh, started on one of them. repro copies itself to the others, with the key of the job; ssh must not ask.
#   HOSTS   their names as ssh takes them, separated by commas, localhost for this one
set -eu
: "${HOSTS:?names of the hosts, separated by commas}"
exec repro run bert_fp32 --set train.accumulation_steps=8 --hosts "$HOSTS" --ranks-per-node 4 -o repro.repro.tar.zst
