#!/bin/sh
# launch without a launcher: every form is printed and, where it is a script, parses; keys; options that are refused.
. "$TOP/tests/common.inc"
"$REPRO" help launch >help.txt
kinds=$(sed -n 's/^ *\([a-z0-9-]*\): .*/\1/p' help.txt)
[ "$(echo "$kinds" | wc -w)" -ge 12 ] || { cat help.txt >&2; fail "the help lists only '$kinds'"; }
for kind in $kinds; do
    exit_of 0 "$REPRO" launch "$kind" --image i --nodes 3 --ranks-per-node 4 --name job --recipe gpt/DP_8x1x1_16_1536x16
    mv out.txt form.txt
    # One signer and one ledger for all jobs of a cluster; the key is never in the folder of bundles.
    case $kind in
    k8s-* | kubeflow-*)
        grep -q 'REPRO_KEY.*/run/signer/key.pem' form.txt && grep -q 'REPRO_LEDGER.*/out/ledger.jsonl' form.txt && grep -q repro-signer form.txt ||
            fail "$kind has a signer for each job"
        [ "$(grep -c REPRO_KEY form.txt)" = "$(grep -c REPRO_LEDGER form.txt)" ] || fail "$kind has a key without a ledger"
        [ "$(grep -c 'mountPath: /run/repro, ' form.txt)" = "$(grep -c 'mountPath: /run/signer/key.pem, subPath' form.txt)" ] || fail "$kind mounts no signer"
        ;;
    sbatch-*) grep -q '\$config/repro' form.txt || fail "$kind has a signer for each job" ;;
    esac
    grep -q gpt/DP_8x1x1_16_1536x16 form.txt || fail "$kind has no recipe"
    case $(head -c 2 form.txt) in '#!') sh -n form.txt || fail "$kind is no script" ;; esac
    exit_of 0 "$REPRO" launch "$kind" --image i --nodes 3 --ranks-per-node 4 --name job --recipe gpt/DP_8x1x1_16_1536x16 --json
    jq -j .text out.txt | cmp - form.txt || fail "$kind as JSON"
done
exit_of 0 "$REPRO" launch key
grep -Eqx '[0-9a-f]{64}' out.txt || fail "a key"
mv out.txt one.txt
exit_of 0 "$REPRO" launch key --json
jq -re .key out.txt | grep -Eqx '[0-9a-f]{64}' || fail "a key as JSON"
[ "$(jq -r .key out.txt)" != "$(cat one.txt)" ] || fail "the same key twice"
for args in "pbs" "srun --name A" "srun --gpus-per-node x" "k8s-jobset" "srun --nodes 0" "whoami --node-rank x" "whoami --node-rank 0" "whoami --launcher srun" \
    "whoami --launcher pbs"; do
    # shellcheck disable=SC2086 # several words
    exit_of 2 "$REPRO" launch $args
    words
done

# A process whose variables are set by hand.
exit_of 0 "$REPRO" launch whoami --json
jq -e '.kind == "alone" and has("key_source") and .key_source == null' out.txt >answer.txt || fail "alone"
exit_of 0 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 REPRO_JOB_KEY="$(cat one.txt)" "$REPRO" launch whoami
cat out.txt
exit_of 2 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 "$REPRO" launch whoami --meet
words
exit_of 2 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 "$REPRO" run bert_tiny_fp32 --store unpacked
words
[ ! -e unpacked ] || fail "samples were unpacked before the key was looked for"
exit_of 2 env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2 "$REPRO" launch whoami
words
# Several processes that nothing tells apart are no runs of one process, whatever starts them.
for args in "run bert_tiny_fp32 --steps 1 --store unpacked" "exec -- true"; do
    # shellcheck disable=SC2086 # several words
    exit_of 2 env REPRO_JOB_KEY="$(cat one.txt)" "$REPRO" $args
    words
    # shellcheck disable=SC2086
    exit_of 2 env REPRO_JOB_KEY="$(cat one.txt)" PMIX_RANK=0 PMIX_NAMESPACE=prterun-x@1 "$REPRO" $args
    words
done
exit_of 2 env A=1 B=2 "$REPRO" run bert_tiny_fp32 --rank-from A --size-from B
words
exit_of 2 "$REPRO" run bert_tiny_fp32 --rank-from A --size-from B
words
exit_of 2 "$REPRO" run bert_tiny_fp32 --hosts localhost,a --rank-from A --size-from B
words
[ ! -e unpacked ] || fail "samples were unpacked, or a bundle was made"
exit_of 4 env REPRO_JOB_KEY=0123 "$REPRO" launch whoami
words
# Two processes without a launcher, the key in a file and on standard input; the leader ends if nobody comes.
umask 077
"$REPRO" launch key >key
"$REPRO" launch whoami --meet --json --nodes 2 --node-rank 0 --ranks-per-node 2 --join 127.0.0.1 --port "$TEST_PORT" --job-key key >lead.txt &
exit_of 0 "$REPRO" launch whoami --meet --json --nodes 2 --node-rank 1 --ranks-per-node 3 --join "127.0.0.1:$TEST_PORT" --job-key - <key
wait $!
jq -e '.world == 5 and .first_rank == 2 and .local_rank == 2 and .kind == "nodes"' out.txt >answer.txt || { cat out.txt >&2; fail "the member"; }
jq -e '.world == 5 and .first_rank == 0' lead.txt >answer.txt || { cat lead.txt >&2; fail "the leader"; }
# The same for people.
"$REPRO" launch whoami --meet -q --nodes 2 --node-rank 0 --ranks-per-node 2 --join "127.0.0.1:$TEST_PORT" --job-key key >lead.txt &
exit_of 0 "$REPRO" launch whoami --meet -q --nodes 2 --node-rank 1 --join "127.0.0.1:$TEST_PORT" --job-key key
wait $!
grep -q '; ranks 0 to 1 of 3, local rank 0, host 0 of 1$' lead.txt || { cat lead.txt >&2; fail "the leader's line"; }
sed 's/.*; \(rank 2\)/\1/; s/-*[0-9.]* ms/N ms/g' out.txt
# And the same of a launcher that has no row, whose variables are named.
THEIR_RANK=0 THEIR_SIZE=2 "$REPRO" launch whoami --meet -q --rank-from THEIR_RANK --size-from THEIR_SIZE --join "127.0.0.1:$TEST_PORT" --job-key key >lead.txt &
exit_of 0 env THEIR_RANK=1 THEIR_SIZE=2 "$REPRO" launch whoami --meet -q --rank-from THEIR_RANK --size-from THEIR_SIZE --join "127.0.0.1:$TEST_PORT" --job-key key
wait $!
grep -q '^process 0 of 2, started by the launcher of --rank-from (THEIR_RANK);.*; rank 0 of 2, local rank 0, host 0 of 1$' lead.txt ||
    { cat lead.txt >&2; fail "the leader's line by variables"; }
exit_of 7 "$REPRO" launch whoami --meet --nodes 2 --node-rank 0 --join "127.0.0.1:$TEST_PORT" --job-key key --join-timeout 1 -q
words
exit_of 7 "$REPRO" launch whoami --meet --nodes 2 --node-rank 1 --join "127.0.0.1:$TEST_PORT" --job-key key --join-timeout 1 -q
words
exit_of 2 "$REPRO" launch whoami --nodes 2 --join "127.0.0.1:$TEST_PORT" --job-key key # which of them?
# Every rank of a form has a micro-batch.
"$REPRO" launch srun --nodes 2 --ranks-per-node 2 --recipe bert_fp32 | grep -q 'run bert_fp32 --set train.accumulation_steps=4 ' || fail "srun"
"$REPRO" launch k8s-jobset --nodes 2 --ranks-per-node 2 --recipe bert_fp32 --image x | grep -q '"--set", "train.accumulation_steps=4", ' || fail "JobSet"
"$REPRO" launch srun --nodes 2 --ranks-per-node 2 --recipe mine.yaml | grep -q 'run mine.yaml -o' || fail "a recipe that is not here"
chmod 644 key
exit_of 2 "$REPRO" launch whoami --job-key key
words
# A signing key as a Secret is mounted: in memory, of root, for its group too; elsewhere such a key is refused.
if [ "$(id -u)" = 0 ] && [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && folder=$(mktemp -d /dev/shm/repro.XXXXXX); then
    trap 'rm -rf "$folder"' EXIT
    exit_of 0 "$REPRO" key new -o "$folder/key.pem"
    chmod 0440 "$folder/key.pem"
    exit_of 0 "$REPRO" key show "$folder/key.pem"
    chmod 0444 "$folder/key.pem"
    exit_of 2 "$REPRO" key show "$folder/key.pem"
fi
