#!/bin/sh
# Logs in, one unsigned document out: a figure that can be worked out by hand, the same in text and JSON, hostile names made safe.
. "$TOP/tests/common.inc"
mkdir -p logs/1n2g
for i in 1 2 3; do
    cat >"logs/1n2g/bert_b24_fp32_$i.log" <<END
batch_size_per_device = 24
step: 19, total_loss: 9.725, mlm_loss: 8.960, nsp_loss: 0.766, throughput: 50.0 1600000000.0
step: 119, total_loss: 8.0, mlm_loss: 7.3, nsp_loss: 0.7, throughput: 120.0 16000000${i}0.0
END
done
exit_of 0 "$REPRO" import dlperf logs/1n2g/bert_b24_fp32_*.log -o out.json # 4800 samples in 10, 20 and 30 s: the median is 240
cat out.txt
jq -e '.rows[0].throughput.value == 240' out.json >answer.txt || fail "not the figure of the logs"
says_in '"unsigned": true' out.json
says_in "\"sha256\": \"$(sha256sum <logs/1n2g/bert_b24_fp32_2.log | cut -d' ' -f1)\"" out.json
! grep -q logs/ out.json || fail "the document says where the logs are kept"
exit_of 2 "$REPRO" import dlperf logs/1n2g/bert_b24_fp32_1.log -o out.json
says "exists"
exit_of 0 "$REPRO" import dlperf logs/1n2g/bert_b24_fp32_1.log -o out.json --force --json
says_in '"throughput": {' out.txt

exit_of 4 "$REPRO" import dlperf "$TOP/tests/common.inc"
exit_of 4 "$REPRO" import csv "$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst"
says "'repro compare' and 'repro report' take a bundle as it is"
exit_of 3 "$REPRO" import csv missing.csv
exit_of 3 "$REPRO" import csv logs
exit_of 2 "$REPRO" import csw x
words
exit_of 2 "$REPRO" import dlperf logs/1n2g/bert_b24_fp32_1.log --set 'global_batch= 8'

exit_of 2 "$REPRO" import csv x --from 3 --to 3
exit_of 2 "$REPRO" import csv x --from -3
evil=$(printf 'a\033[31mb\302\233.log')
printf 'step: 19, x, throughput: 5.0\n' >"$evil"
for form in '' --json '-o evil.json --force'; do
    # shellcheck disable=SC2086 # words of a command line
    exit_of 0 "$REPRO" import dlperf "$evil" $form
    tr -d '\n\040-\176' <out.txt | cmp -s - /dev/null || fail "control characters: $(od -c out.txt | head)"
done
