#!/bin/sh
# tests/gpu/check.sh leaves a log and one JSON, counts what it found, and knows when there is no GPU. Its parts that train or compare with other
# programs need a real one: here they meet a program that only says what repro would. timeout: 120
. "$TEST_DIR/common.inc"
check=$TOP/tests/gpu/check.sh
on_gpu "$check" "$REPRO" ops >out.txt 2>err.txt || { cat out.txt err.txt >&2; fail "the operations fail"; }
count=$(grep -c '^OP(' "$TOP/src/ops/ops.def")
says_in "$count operations" out.txt
cmp -s out.txt gpu-check/log.txt || fail "the log is not what was said"
jq -e --argjson n "$count" '.ops.operations | length == $n and all(.failed == 0)' gpu-check/result.json >answer.txt || fail "no operations in result.json"
jq -e '.about.failed == 0 and .about.passed >= 1 and .about.parts == ["ops"] and (.about.version.version | length > 0)' gpu-check/result.json >answer.txt || fail "no count"
# Ranks, of a model that this driver finishes soon.
on_gpu SMALLER="--batch-size 1 --set model.hidden_size=32 --set model.intermediate_size=64 --set model.num_attention_heads=2 --set model.num_hidden_layers=1
    --set measure.timed_steps=1" "$check" "$REPRO" ranks >out.txt 2>err.txt || { cat out.txt err.txt >&2; fail "the ranks fail"; }
jq -e '(.ranks | map(.transport) == ["1 rank by shared memory", "1 rank by shared memory"] and .[0].devices == ["Shim GPU", "Shim GPU"] and .[1].devices[0] == "Shim GPU" and .[1].devices[1] != "Shim GPU") and .about.passed == 2 and .about.skipped == 1' \
    gpu-check/result.json >answer.txt || { jq .ranks gpu-check/result.json >&2; fail "ranks"; }
exit_of 1 on_gpu "$check" "$REPRO" capture_everything
says_in "there is no part 'capture_everything'" out.txt
if ! grep -q 'BEGIN PUBLIC KEY' gpu-check/key.pem || grep -rqs 'PRIVATE KEY' gpu-check; then fail "not the public key is left, and nothing else"; fi

# A program that is asked for what it should be, and answers at once: batch 96 fails, and the GPU differs in one loss.
cat >played <<'EOS'
#!/bin/sh
case "$*" in
*--plan*) exit 0 ;;
key* | version*) exec "$REAL" "$@" ;;
selftest*--speed*) echo '{"speed": [{"what": "x", "name": "y", "shape": "z", "seconds": 1, "flops": 2, "bytes": 3},
    {"what": "convolution data gradient", "name": "3x3/2 to 128", "shape": "32x56x56x128", "seconds": 2, "flops": 2, "bytes": 3}]}' ;;
selftest*) echo '{"operations": [{"op": "gemm", "cases": 7, "failed": 0}]}' ;;
verify*) exit 0 ;;
inspect*run.json) echo '{"plan": {"batch": 32}, "results": {"throughput": {"value": 480}}}' ;;
inspect*bits-lamb-cuda*) echo '{"step": 0, "loss": "0x1p+1"}' ;;
inspect*) echo '{"step": 0, "loss": "0x1p+0"}' ;;
run*bert_large*) kill -TERM "$(cat "$PID_FILE")"; sleep 30 ;;
run*"--batch-size 96"*) echo "no room"; exit 7 ;;
run*) for bundle; do case $bundle in *.zst) echo bundle >"$bundle" ;; esac; done
    case "$*" in *resnet50*) echo "480 images/s, and more" ;; *) echo "480 sequences/s, and more" ;; esac ;;
esac
EOS
chmod +x played
mkdir kept
export REAL="$REPRO" PYTHON=false KEEP=kept PID_FILE="$PWD/pid"
status=0
sh -c 'echo $$ >pid; exec "$0" "$@"' "$check" ./played bits train bundle speed peers bundles >out.txt 2>err.txt || status=$?
[ $status = 1 ] || { cat out.txt err.txt >&2; fail "status $status"; }
says_in "not ok  BERT-base batch 96: status 7: no room" out.txt
says_in "not ok  lamb: GPU and CPU differ, from:" out.txt
says_in "skip    no PyTorch with CUDA: nothing beside the training" out.txt
says_in "ok      bert_fp32: two steps replayed on the CPU are bit-equal" out.txt
says_in "ok      resnet50_fp32: 480 images/s, and more" out.txt
says_in "not ok  ended from outside" out.txt
tar -xzf kept/gpu-check.tar.gz
jq -e '.about.failed == 3 and .about.parts == ["bits", "train", "bundle", "speed", "peers"] and (.train | map(.model) == ["bert", "gpt", "resnet50", "bert", "resnet50", "bert"])
    and (.train[1].tokens_per_s == 480 * 1024) and .train[2].samples_per_s == 480 and .train[2].tokens_per_s == null
    and (.bits | map(.name) == ["tiny", "base", "accumulated", "gpt", "documents", "gpt2", "resnet_tiny", "resnet", "lamb"])
    and (.bits | map(.equal) == [true, true, true, true, true, true, true, true, false]) and (.speed.rows | length == 2) and (.bundles | index("bert_fp32.repro.tar.zst"))' \
    gpu-check/result.json >answer.txt || { jq 'del(.about.version)' gpu-check/result.json >&2; fail "what was kept is not what was found"; }
# With a PyTorch that answers at once: rows beside ours, found by their names and sizes.
cat >python <<'EOS'
#!/bin/sh
case "$*" in
*"import torch"*) echo 2.0 ;;
*speed_torch*) echo '[{"what": "x", "name": "y", "shape": "z", "seconds": 2}, {"what": "x", "name": "another", "shape": "z", "seconds": 9},
    {"what": "convolution data gradient", "name": "3x3/2 to 128", "shape": "32x56x56x128", "seconds": 3}]' ;;
*resnet50_torch*"--batch 128"*compile*) echo '{"who": "pytorch compile", "batch": 32, "seq": null, "tf32": false, "step_s": [0.5], "peak_bytes": 5}' ;;
*gpt_torch*--tf32*) echo '{"who": "pytorch eager", "batch": 32, "seq": 1024, "tf32": true, "step_s": [0.5, 0.25, 4], "peak_bytes": 5}' ;;
*) echo "no such device" >&2; exit 1 ;;
esac
EOS
chmod +x python
exit_of 1 env PYTHON="$PWD/python" "$check" ./played train speed peers
says_in "geometric mean of cuBLAS in strict fp32: 2 over 1 sizes" out.txt
says_in "geometric mean of cuDNN in strict fp32: 1.5 over 1 sizes" out.txt
says_in "skip    PyTorch eager, BERT-base batch 32 --tf32: status 1: no such device" out.txt
says_in "skip    PyTorch eager, ResNet-50 batch 128: status 1: no such device" out.txt
grep -q '^pytorch compile *resnet50 *32 *fp32 *64 *7.5$' out.txt || { cat out.txt >&2; fail "no row of ResNet-50 beside ours"; }
grep -q '^pytorch eager *gpt *32 *TF32 *64 *65536 *7.5$' out.txt || { cat out.txt >&2; fail "no row of GPT beside ours"; }
# No time is no failure.
exit_of 0 env MINUTES=0 "$check" ./played bits train
says_in "0 passed, 0 failed, 2 skipped" out.txt

shim=$PWD # nothing is there
exit_of 7 on_gpu "$check" "$REPRO" ops
words
