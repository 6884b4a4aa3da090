#!/bin/sh
# What the bundle of a command proves, and what no surface says of it: nothing that this program did not train is
# computed or timed.
# shellcheck disable=SC2086 # several words in $table and $option
. "$TEST_DIR/common.inc"
exit_of 0 "$REPRO" exec --log csv $table --set model=resnet50 --set precision=fp32 --set label=mine \
    --input train.sh -o a.repro.tar.zst -- ./train.sh
exit_of 0 "$REPRO" verify a.repro.tar.zst --json
jq -e '.verdict == "verified" and .levels.authentic.reached == "yes" and .levels.consistent.reached == "yes" and
    .levels.computed.reached == "no" and .levels.timed.reached == "no" and
        (.summary | test("measured by its own log")) and
    (.command.throughput.value - 1280 | fabs < 1e-6) and .command.argv == ["./train.sh"] and
        (has("results") | not) and (has("device") | not)' out.txt >/dev/null ||
    { jq 'del(.checks)' out.txt >&2; fail "another verdict"; }
"$REPRO" schema verify-output out.txt >/dev/null || fail "not the documented output"
for member in facts.json:command-facts run.json:command; do
    "$REPRO" inspect a.repro.tar.zst ${member%:*} >member.json
    exit_of 0 "$REPRO" schema ${member#*:} member.json
done

# every surface says by whom it was measured
says_of() { # COMMAND...
    exit_of 0 "$@"
    grep -q "measured by its own log" out.txt || { cat out.txt >&2; fail "'$*' does not say who measured"; }
    ! grep -qiE "trained again here, with|last loss|strict fp32|computed, timed" out.txt ||
        { cat out.txt >&2; fail "'$*' claims what nobody did"; }
}
says_of "$REPRO" verify a.repro.tar.zst
says_of "$REPRO" report a.repro.tar.zst --format md
says_of "$REPRO" report a.repro.tar.zst --format html
grep -q "1,280.000" out.txt && grep -qF "./train.sh" out.txt || fail "the page lacks the figure or the command"
run=$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst
exit_of 0 "$REPRO" report a.repro.tar.zst a.repro.tar.zst "$run" --any-key --format html
grep -q "Commands, each measured by its own log" out.txt || fail "the page of several bundles does not tell them apart"
exit_of 0 "$REPRO" report a.repro.tar.zst "$run" --any-key --format md
exit_of 0 "$REPRO" inspect a.repro.tar.zst
says_in "throughput by its own log" out.txt

# compare: a result with the reservation that nothing but its log measured it
"$REPRO" exec -q --log csv --set global_batch=32 --unit images/s --set model=resnet50 \
    --set precision=fp32 --set label=half -o b.repro.tar.zst -- ./train.sh
exit_of 0 "$REPRO" compare a.repro.tar.zst b.repro.tar.zst --json
jq -e '.verdict == "comparable with reservations" and (.pairs[0].ratio.value - 0.5 | fabs < 1e-9) and
    (.rows | map(.source.kind) == ["command", "command"]) and
    (.pairs[0].confounders | map(.key) | index("evidence") != null) and
        (.rows[0].source.verdict | test("measured by its own log"))' out.txt >/dev/null ||
    { jq '.verdict, .pairs[0].confounders, .rows[0].source' out.txt >&2; fail "compared otherwise"; }
exit_of 0 "$REPRO" compare a.repro.tar.zst b.repro.tar.zst
says_in "measured by its own log" out.txt
for file in a b; do # not the framework, which is the same
    grep -Eq "^[12]  $file.repro.tar.zst" out.txt || { cat out.txt >&2; fail "no row is called $file.repro.tar.zst"; }
done
says_in "any of " out.txt # processors or GPUs of the captures, which are the same

# what only a run can answer is refused or inconclusive, never passed
for option in "--replay 1" "--original a.repro.tar.zst" "--baseline a.repro.tar.zst"; do
    exit_of 7 "$REPRO" verify b.repro.tar.zst $option
    says_in inconclusive out.txt
done
exit_of 7 "$REPRO" verify "$run" --any-key --baseline a.repro.tar.zst
says_in inconclusive out.txt
exit_of 7 "$REPRO" replicate a.repro.tar.zst
says "is the bundle of a command (repro exec)"
exit_of 7 "$REPRO" export mllog a.repro.tar.zst
says "lacks run_start, run_stop, samples_count"
says "repro inspect BUNDLE log/process0.stdout"
sed 's/"time_ms": \([0-9]*\)000,/"time_ms": \1,/; s/"time_ms": 2500,/"time_ms": 2,/' \
    "$TOP/tests/fuzz/corpus/import/mllog.log" >mlperf.log
exit_of 0 "$REPRO" exec -q --log mllog -o mlperf.repro.tar.zst -- sh -c 'sleep 0.1; cat mlperf.log'
exit_of 0 "$REPRO" verify mlperf.repro.tar.zst
exit_of 0 "$REPRO" export mllog mlperf.repro.tar.zst
sed -n 's/.*:::MLLOG/:::MLLOG/p' mlperf.log | cmp - out.txt || fail "other lines than those of the log"
exit_of 2 "$REPRO" estimate bert_fp32 --from a.repro.tar.zst

# a policy for runs refuses it, unless it allows commands; then no rule about training holds
policy() { # STATUS RULES
    printf '%b' "$2" >policy.yaml
    exit_of "$1" "$REPRO" verify a.repro.tar.zst --policy policy.yaml
}
policy 9 'complete: true\nmin_throughput: 1000 images/s\n'
says_in "commands: true" out.txt
policy 0 'complete: true\nmin_throughput: 1000 images/s\ncommands: true\n'
policy 9 'min_throughput: 2000 images/s\ncommands: true\n'
policy 9 'min_throughput: 1000 sequences/s\ncommands: true\n'
policy 9 'commands: true\nlevels: [authentic, consistent, computed]\n'
policy 0 'commands: true\nlevels: [authentic, consistent]\n'
for rule in 'min_steps: 1' 'precisions: [fp32]' 'replayed: 1' 'min_ranks: 1' 'no_throttling: true' \
    'max_undetected: 0.99' 'batch_sizes: [64]'; do
    policy 9 "commands: true\n$rule\n"
    says_in "which this program did not train" out.txt
done
policy 9 'commands: true\nrecipes: [bert_fp32]\n'
policy 0 "commands: true\nrecipes: [$("$REPRO" inspect a.repro.tar.zst run.json | jq -r .recipe_sha256)]\n"

# others countersign it, and stock tools check it
exit_of 0 "$REPRO" key new -o reviewer.pem
exit_of 0 "$REPRO" sign a.repro.tar.zst --key reviewer.pem -o signed.repro.tar.zst
exit_of 0 "$REPRO" verify signed.repro.tar.zst
says_in "countersigned as reviewer" out.txt
if command -v openssl >/dev/null && command -v zstd >/dev/null; then
    "$REPRO" inspect a.repro.tar.zst verify.sh >verify.sh
    "$REPRO" inspect a.repro.tar.zst key.pem >key.pem
    exit_of 0 sh verify.sh a.repro.tar.zst key.pem
    says_in "images/s, measured by its own log; the signature and
        the digests were checked, the figures are the signer's word" out.txt
fi

# what the capture shows that makes it hard to repeat is in both reports, with a remedy
command -v git >/dev/null || exit 0
git init -q tree
(cd tree && echo 'exec true' >train.sh && git add train.sh && git -c user.name=a -c user.email=a@b commit -qm a &&
    echo '# changed' >>train.sh && exit_of 0 "$REPRO" exec -o ../tree.repro.tar.zst -- sh train.sh)
for format in md html; do
    exit_of 0 "$REPRO" report tree.repro.tar.zst --format $format
    grep 'source tree' out.txt | grep -q '1 file is not as in commit' || fail "$format: no word of a changed file"
done
