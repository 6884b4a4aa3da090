#!/bin/sh
# A run answers a challenge: its seeds follow from it, whoever made it bounds the time, and what it draws is replayed from a state handed over.
# timeout: 600
. "$TEST_DIR/common.inc"
level() { # NAME: its state in the last --json
    jq -r --arg name "$1" '"\($name): \(.levels[$name].reached)"' out.txt
}
later() { # SECONDS after the challenge was made
    date -u -d "$(jq -r .made_at c1.json) $1 seconds" +%Y-%m-%dT%H:%M:%SZ
}
"$REPRO" key new -o theirs.pem >key.txt
"$REPRO" challenge new -o c1 --note "for a test" --key theirs.pem -q
"$REPRO" challenge new -o early --key theirs.pem -q
"$REPRO" challenge show --json c1 >c1.json
[ "$(jq -r .by c1.json)" = "$(sed -n 2p key.txt)" ] || fail "another key signed the challenge"
[ "$(jq -r .nonce c1.json)" != "$("$REPRO" challenge show --json early | jq -r .nonce)" ] || fail "two challenges have one nonce"
# a key that is made for it is named, once
exit_of 0 env XDG_CONFIG_HOME="$PWD/nobody" "$REPRO" challenge new -o first
says_in "made a new signing key, $("$REPRO" challenge show --json first | jq -r .by)" err.txt
exit_of 0 env XDG_CONFIG_HOME="$PWD/nobody" "$REPRO" challenge new -o second
! grep -q 'new signing key' err.txt || fail "the key is made again"

# Public values: the work of a block is checked, the signature of a round is not.
cp -r "$TOP/tests/vectors/public_values" values
exit_of 0 "$REPRO" challenge show --json values/bitcoin-840000.hex
jq -e .proved out.txt >answer.txt || fail "not proved: $(cat out.txt)"
exit_of 0 "$REPRO" challenge show --json values/drand-quicknet-657413.json
jq -e '.proved | not' out.txt >answer.txt || fail "proved: $(cat out.txt)"
exit_of 5 "$REPRO" challenge show values/bitcoin-125552.hex
exit_of 4 "$REPRO" challenge show key.txt

exit_of 2 "$REPRO" run resnet50_tiny_fp32 --challenge c1 --set seed.data=7 -o no.repro.tar.zst
words
exit_of 2 "$REPRO" run resnet50_tiny_fp32 --challenge c1 --set evidence.state_root_every=2 -o no.repro.tar.zst
exit_of 2 "$REPRO" challenge new -o no --parts 63
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --challenge key.txt -o no.repro.tar.zst
: >empty
exit_of 4 "$REPRO" run resnet50_tiny_fp32 --challenge empty -o no.repro.tar.zst
words
jq --arg payload "$(jq -r .payload c1 | base64 -d | sed 's/for a test/for a toast/' | base64 -w 0)" '.payload = $payload' c1 >changed
exit_of 6 "$REPRO" run resnet50_tiny_fp32 --challenge changed -o no.repro.tar.zst
[ ! -e no.repro.tar.zst ] || fail "a refused challenge left a bundle"

four_steps() { # FILE OPTION...: of ResNet, whose state is small: most of a tiny BERT is its vocabulary
    file=$1
    shift
    "$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 3 --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false \
        --set train.accumulation_steps=1 -o "$file" "$@" >run.txt 2>err.txt || { cat err.txt >&2; fail "no bundle $file"; }
}
four_steps a.repro.tar.zst --challenge c1
four_steps plain.repro.tar.zst
while [ "$(date +%s)" -le "$(stat -c %Z a.repro.tar.zst)" ]; do sleep 0.1; done # times are whole seconds
"$REPRO" challenge new -o c2 --key theirs.pem -q # after the bundle came
"$REPRO" challenge show --json c2 >c2.json
for seed in init data dropout augment perturbation; do
    "$REPRO" inspect a.repro.tar.zst facts.json | jq -r --arg key "seed.$seed" '"\($key) \(.recipe[$key].origin)"'
done
[ "$("$REPRO" inspect a.repro.tar.zst run.json | jq -r .results.loss_first.hex)" != \
    "$("$REPRO" inspect plain.repro.tar.zst run.json | jq -r .results.loss_first.hex)" ] || fail "the challenge changed nothing"
"$REPRO" inspect a.repro.tar.zst challenge | cmp - c1 || fail "the member is not the file"

exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1
level timed
level computed
jq -e '.timed.samples == 32 and .timed.seconds > 0' out.txt >/dev/null || fail "no bound: $(jq -c .timed out.txt)"
jq -e --arg by "$(jq -r .by c1.json)" '.levels.timed.text | contains($by) and contains("not in your trust store")' out.txt >answer.txt ||
    fail "the challenger is not named: $(jq -r .levels.timed.text out.txt)"
exit_of 0 "$REPRO" verify --json a.repro.tar.zst # by nobody's word that counts here
level timed
jq -e '.timed == null' out.txt >/dev/null || fail "a bound without a challenger"
"$REPRO" key show theirs.pem --form pem >theirs.pub
"$REPRO" key trust theirs.pub --name lab >/dev/null
exit_of 0 "$REPRO" verify --json a.repro.tar.zst # a trusted key's challenge
jq -e '.timed.samples == 32 and (.levels.timed.text | contains("by '"'lab'"'"))' out.txt >/dev/null || fail "the trusted challenger does not count"
# Who countersigned may be in league with the signer, but not with themselves.
exit_of 0 "$REPRO" sign a.repro.tar.zst -o signed.repro.tar.zst --key theirs.pem
exit_of 0 "$REPRO" verify --json signed.repro.tar.zst --challenge c1
jq -e '.timed == null' out.txt >answer.txt || fail "a bound by one that countersigned"
exit_of 0 env REPRO_KEY=theirs.pem "$REPRO" verify --json signed.repro.tar.zst --challenge c1 --any-key
jq -e '.timed.samples == 32' out.txt >answer.txt || fail "no bound by the verifier's own challenge: $(jq -c .timed out.txt)"
exit_of 5 "$REPRO" verify --json a.repro.tar.zst --challenge c2
exit_of 5 "$REPRO" verify --json plain.repro.tar.zst --challenge c1
exit_of 5 "$REPRO" verify --json a.repro.tar.zst --challenge c1 --received "$(later -60)"
jq -r '.checks[] | select(.state == "failed").check' out.txt
exit_of 2 "$REPRO" verify a.repro.tar.zst --challenge c1 --received "$(later 99999)"
exit_of 2 "$REPRO" verify a.repro.tar.zst --challenge c1 --received yesterday
exit_of 2 "$REPRO" verify a.repro.tar.zst --received file
exit_of 0 "$REPRO" verify a.repro.tar.zst --challenge c1 --received file
cp a.repro.tar.zst kept.repro.tar.zst
touch -d "$(later -3600)" kept.repro.tar.zst # as cp -p and tar keep a time: the file cannot have come before its change time
exit_of 0 "$REPRO" verify --json kept.repro.tar.zst --challenge c1 --received file
jq -e --arg changed "$(date -u -d "@$(stat -c %Z kept.repro.tar.zst)" +%Y-%m-%dT%H:%M:%SZ)" '.timed.not_after >= $changed' out.txt >answer.txt ||
    fail "not the change time: $(jq -c .timed out.txt)"

# Parts that are drawn: their states are handed over, and another state is refused. Each of the four steps is a part.
exit_of 0 "$REPRO" challenge draw --json a.repro.tar.zst --draw c2 --draws 1
from=$(jq '.parts[0].from' out.txt) steps=$(jq .steps out.txt)
[ "$steps" = 1 ] && [ "$from" -le 3 ] || fail "drew $from:$steps"
jq -e '.of == 4 and .undetected == 0.5' out.txt >answer.txt || fail "the odds of one of four parts: $(cat out.txt)"
exit_of 0 "$REPRO" challenge draw a.repro.tar.zst --draw c2 --draws 1
{ [ "$(cat out.txt)" = "$from:$steps" ] && grep -q 'verify .*--draw' err.txt; } || fail "no remedy beside $(cat out.txt): $(cat err.txt)"
exit_of 0 "$REPRO" challenge draw a.repro.tar.zst --draw c2 -q
[ ! -s err.txt ] || fail "-q: $(cat err.txt)"
[ "$(cat out.txt)" = "$(printf '0:1\n1:1\n2:1\n3:1')" ] || fail "not all of fewer parts than are drawn: $(cat out.txt)"
exit_of 0 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 1 -o state
mkfifo pipe
exit_of 2 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 1 -o pipe
[ -p pipe ] || fail "the pipe was replaced"
exit_of 2 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 3 -o key.txt # no directory
init=
[ "$from" = 0 ] || init="--init state"
# shellcheck disable=SC2086 # no words, or two
exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1 --received file --draw c2 --draws 1 $init
"$REPRO" schema verify-output out.txt >/dev/null || fail "not the documented output: $(jq -c .replay out.txt)"
level timed # one of four is not enough
level computed
[ "$(jq .replay.from out.txt)" = "$from" ] || fail "another part was replayed"
printf 'levels: [consistent, computed, timed]\nmax_undetected: 0.01\n' >mine.yaml
exit_of 0 "$REPRO" challenge answer --json a.repro.tar.zst --draw c2 --draws 3 -o states
jq -e '(.parts | length) == 3 and (.states | length) >= 2' out.txt >answer.txt || fail "no states of three parts: $(cat out.txt)"
exit_of 2 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 3 -o states # they are there
three="--received file --draw c2 --draws 3 --init states"
# shellcheck disable=SC2086
exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1 $three --policy mine.yaml
level timed
level computed
jq -e '.replay.steps == 3 and .replay.drawn.of == 4 and .replay.drawn.undetected == 0 and .replay.state_before.reach < 1 and
    .replay.state_before.products_needed > 0.5' out.txt >answer.txt || fail "not three parts: $(jq -c .replay out.txt)"
# Every state is looked at before the first part is trained: one that is cut, of another model, of another step or without its slots.
for file in states/*; do last=${file##*/}; done
step=${last#step-} step=${step%.safetensors}
refused_state() { # STATUS: with bent/$last in the place of the last state
    # shellcheck disable=SC2086
    exit_of "$1" "$REPRO" verify a.repro.tar.zst --challenge c1 --received file --draw c2 --draws 3 --init bent
    ! grep -q 'replay: step' err.txt || fail "a part was trained before bent/$last was looked at: $(cat err.txt)"
    says_in "$last" err.txt
}
cp -r states bent
head -c -4 "states/$last" >"bent/$last"
refused_state 7
"$REPRO" run resnet50_tiny_fp32 --threads 1 --steps 1 --set measure.ceilings=false --set model.width=4 --set measure.warmup_steps=0 --set measure.repeats=1 \
    --save small -o small.repro.tar.zst >run.txt 2>&1 || { cat run.txt >&2; fail "no run of a smaller model"; }
cp small "bent/$last"
refused_state 7
four_steps longer.repro.tar.zst --save longer
cp longer "bent/$last"
refused_state 5
says_in "is a state after 4 steps, not the one before step $step" err.txt
rm "bent/$last"
refused_state 7
# That a draw will not count is said before its parts are trained, by verify and by who answers it.
# shellcheck disable=SC2086
exit_of 9 "$REPRO" verify a.repro.tar.zst --challenge c1 --draw c2 --draws 3 --init states --json --policy mine.yaml
level timed # when it came is only the prover's word: a known draw and a bundle that is dated back
[ "$(grep -E -o 'will not count|replay: step' err.txt | head -n 1)" = "will not count" ] || fail "after the replay: $(cat err.txt)"
exit_of 0 "$REPRO" challenge draw a.repro.tar.zst --draw early --draws 3
says_in 'will not count: its challenge was made before' err.txt
exit_of 0 "$REPRO" challenge draw a.repro.tar.zst --draw c1 --draws 3
says_in 'will not count: it is the challenge that the run answers' err.txt
exit_of 0 "$REPRO" challenge draw a.repro.tar.zst --draw c2 --draws 3
! grep -q 'will not count' err.txt || fail "an honest draw: $(cat err.txt)"
# What a value draws that was there before the bundle, or in the second that it came in, is an ordinary replay.
exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1 --received "$(jq -r .made_at c2.json)" --draw c2 --draws 3 --init states
level timed
exit_of 0 "$REPRO" challenge answer a.repro.tar.zst --draw early --draws 2 -o early.states
exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1 --received file --draw early --draws 2 --init early.states
level timed
exit_of 9 "$REPRO" verify a.repro.tar.zst --challenge c1 --policy mine.yaml
exit_of 9 "$REPRO" verify a.repro.tar.zst --challenge c1 --replay 1 --policy mine.yaml # the first steps are what a cheat would compute
printf 'max_undetected: 0.49\n' >mine.yaml
# shellcheck disable=SC2086
exit_of 9 "$REPRO" verify a.repro.tar.zst --challenge c1 --received file --draw c2 --draws 1 $init --policy mine.yaml
printf 'max_undetected: 1.5\n' >mine.yaml
exit_of 2 "$REPRO" verify a.repro.tar.zst --policy mine.yaml
exit_of 2 "$REPRO" verify a.repro.tar.zst --draw c2 --replay 1
exit_of 2 "$REPRO" verify a.repro.tar.zst --draws 2 --replay 1
printf 'levels: [consistent, claimed]\n' >mine.yaml
exit_of 2 "$REPRO" verify a.repro.tar.zst --policy mine.yaml
n=0
while [ "$from" = 0 ] && [ "$n" -lt 40 ]; do # until a part is drawn that needs a state
    n=$((n + 1))
    "$REPRO" challenge new -o c3 -f --key theirs.pem -q
    from=$("$REPRO" challenge draw --json a.repro.tar.zst --draw c3 --draws 1 | jq '.parts[0].from')
    mv c3 c2
done
exit_of 0 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 1 -o drawn.state
says_in "repro verify --received file --draw FILE --draws 1 --init STATE'" out.txt
exit_of 2 "$REPRO" challenge answer a.repro.tar.zst --draw c2 --draws 1 -o drawn.state # it is there
four_steps b.repro.tar.zst --save other
exit_of 5 "$REPRO" verify a.repro.tar.zst --challenge c1 --draw c2 --draws 1 --init other

# No seed changes a bit of a run that starts from a file and neither shuffles nor drops anything.
four_steps c.repro.tar.zst --challenge c1 --init other --set data.shuffle=false --set data.augment=none
exit_of 0 "$REPRO" verify --json c.repro.tar.zst --challenge c1
jq -e '.timed == null and any(.checks[]; .check == "challenge" and .state == "warning")' out.txt >/dev/null || fail "a bound on bits that may be older"

# A setting of the signer's own may leave little to compute.
four_steps d.repro.tar.zst --challenge c1 --set train.batch_size=4 --set model.initializer_range=0
exit_of 0 "$REPRO" verify --json d.repro.tar.zst --challenge c1 --replay 4
level timed
jq -e '.levels.timed.text | contains("model.initializer_range")' out.txt >/dev/null || fail "the setting is not named"

# A challenge and a draw by the signer's own key, handed to the verifier: they are the signer's clock.
"$REPRO" challenge new -o own -q
four_steps e.repro.tar.zst --challenge own
while [ "$(date +%s)" -le "$(stat -c %Z e.repro.tar.zst)" ]; do sleep 0.1; done
"$REPRO" challenge new -o own2 -q
exit_of 0 "$REPRO" verify --json e.repro.tar.zst --challenge own --received file --replay 4
level timed
jq -e '.timed == null' out.txt >answer.txt || fail "a bound by the signer's own challenge"
exit_of 0 "$REPRO" challenge answer a.repro.tar.zst --draw own2 --draws 2 -o own.states
exit_of 0 "$REPRO" verify --json a.repro.tar.zst --challenge c1 --received file --draw own2 --draws 2 --init own.states
level timed
