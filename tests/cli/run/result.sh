#!/bin/sh
# The last line of stdout is the bundle; --json is one document; progress is plain lines without a terminal.
. "$TEST_DIR/common.inc"
"$REPRO" run bert_tiny_fp32 --steps 2 >out.txt 2>err.txt
bundle=$(tail -n 1 out.txt)
[ -f "$bundle" ] || fail "no bundle at '$bundle'"
case $bundle in bert_tiny_fp32-*Z.repro.tar.zst) ;; *) fail "name '$bundle'" ;; esac
# the two commands that come next are ready to run, and end in the text of messages; --quiet and --json leave them out
sed -n 's/^next: //p; s/^      repro/repro/p' err.txt >next.txt
[ "$(wc -l <next.txt)" = 2 ] || fail "no next commands"
sed "s|^repro|'$REPRO'|" next.txt >next.sh
sh -eu next.sh >answer.txt 2>&1 || { cat answer.txt >&2; fail "the next commands fail"; }
[ -s "${bundle%.repro.tar.zst}.html" ] || fail "no page"
grep -q '^training: [0-9]* steps, about [0-9.]* to [0-9.]* s here$' err.txt || fail "no estimate before training"
grep -q '^1 rank on 1 node: [0-9]* threads\{0,1\} of ' out.txt || fail "ranks and devices are not named"
if grep -q "$(printf '[\033\r]')" err.txt; then fail "terminal control bytes without a terminal"; fi
"$REPRO" verify "$bundle" >verify.txt || { cat verify.txt >&2; fail "does not verify"; }
"$REPRO" run bert_tiny_fp32 --steps 2 --set evidence.state_root_every=1 --json -o j.repro.tar.zst >json.txt 2>messages.txt
jq -e '.ranks == 1 and .nodes == 1 and (.devices | test("thread")) and .place == "1 rank on 1 node: " + .devices' json.txt >answer.txt || fail "no place in --json"
jq -e '.results.throughput | .value > 0 and .unit == "sequences/s"' json.txt >answer.txt || fail "no throughput in --json"
"$REPRO" verify j.repro.tar.zst --json | jq -e --slurpfile run json.txt '[.statement, .fingerprint, .recipe] ==
    ($run[0] | [.statement, .fingerprint, .recipe]) and .recipe != null' >answer.txt || fail "verify names another bundle, key or recipe than run"
"$REPRO" verify --replay 2 j.repro.tar.zst >verify.txt || { cat verify.txt >&2; fail "does not replay"; }
! grep -q '^next' messages.txt || fail "next commands with --json"
# Both captures hide alike, and what changed between them is listed and shown.
for when in before after; do "$REPRO" inspect j.repro.tar.zst env/node0.$when.json >$when.json; done
[ "$(jq .salt before.json)" = "$(jq .salt after.json)" ] || fail "the captures have different salts"
"$REPRO" inspect j.repro.tar.zst run.json | jq -e '.node[0].change | any(.field == "kernel.uptime" and .varies and
    .before.value < .after.value) and all(.impact != "high" or .varies)' >answer.txt || fail "what changed is not listed"
"$REPRO" report j.repro.tar.zst --format md | grep '^## .*changed'
# No time is counted in two phases: the state roots of the timed steps are not in the phase of these steps.
"$REPRO" inspect j.repro.tar.zst steps/rank0.jsonl |
    jq -s 'map(select(.phase == "timed")) | [map(.end_ns - .start_ns), map(.root_ns)] | map(add / 1e9)' >sums.json
"$REPRO" inspect j.repro.tar.zst facts.json | jq -e --slurpfile sums sums.json '$sums[0] as [$steps, $roots] |
    .rank[0].phases_s | .timed < $steps + $roots / 2 and .state_roots >= $roots' >answer.txt || {
    "$REPRO" inspect j.repro.tar.zst facts.json | jq -c --slurpfile sums sums.json '[.rank[0].phases_s, $sums[0]]' >&2
    fail "phases overlap"
}
