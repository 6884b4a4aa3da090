#!/bin/sh
# Exit status 0 only for a complete run, signed by a key that the verifier names, trusts or owns; everything else has a status of its own.
. "$TEST_DIR/common.inc"
verdict() { # STATUS VERDICT STANDING ARGUMENT...: the status, the document and the message agree
    status=$1 verdict=$2 standing=$3
    shift 3
    exit_of "$status" "$REPRO" verify --json "$@"
    jq -e --arg verdict "$verdict" --arg standing "$standing" --argjson status "$status" '.verdict == $verdict and (.standing // "none") == $standing and
        (.error.exit // 0) == $status' out.txt >answer.txt || fail "verify $*: $(jq -c '[.verdict, .standing, .error]' out.txt)"
    echo "$status $verdict $standing: $(sed -E 's/[0-9a-f]{16,}/DIGEST/g; s/[0-9.]+ MiB/N MiB/g; s/[0-9]{4,}/N/g' err.txt)"
}
stranger() { # COMMAND...: with another home, so without these keys
    mkdir -p stranger
    (HOME=$PWD/stranger XDG_CONFIG_HOME=$PWD/stranger/.config "$@") || fail "as a stranger: $*"
}
make_bundle a.zst
"$REPRO" key show | sed -n '3,$p' >me.pem
fingerprint=$("$REPRO" key show | sed -n 2p)
verdict 0 verified own a.zst
stranger verdict 8 verified-unknown-key unknown a.zst
stranger verdict 0 verified any a.zst --any-key
stranger verdict 0 verified trusted a.zst --trust me.pem
verdict 0 verified trusted a.zst --trust me.pem
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
verdict 6 failed unknown a.zst --trust other.pem
refuse 2 a.zst --trust me.pem --any-key
# A policy: it names the signer or does not, and it is not called forged.
echo "signed_by: [\"$fingerprint\"]" >named.yaml
printf 'min_steps: 1000\nmin_repeats: 1000\ncomplete: true\n' >strict.yaml
stranger verdict 0 verified trusted a.zst --policy named.yaml
verdict 9 policy-broken own a.zst --policy strict.yaml
stranger verdict 9 policy-broken unknown a.zst --policy strict.yaml
jq -e '[.policy[] | select(.holds | not).rule] == ["min_steps", "min_repeats"]' out.txt >answer.txt || fail "which rules are broken"
# A run that ended early, by its own key and by another's: whose key it is does not hide that, and is said, too.
"$REPRO" run bert_tiny_fp32 --threads 1 --steps 100000 -o early.zst >run.txt 2>&1 &
pid=$!
wait_until $pid grep -q timed run.txt
kill -INT $pid
wait $pid || [ $? = 130 ] || { cat run.txt; fail "the run was not interrupted"; }
verdict 10 verified-incomplete own early.zst
stranger verdict 10 verified-incomplete unknown early.zst
jq -e '.summary | startswith("verified, but the run did not reach its end, and the key is unknown:")' out.txt >answer.txt || fail "the key: $(cat out.txt)"
stranger exit_of 10 "$REPRO" verify a.zst early.zst
stranger exit_of 10 "$REPRO" verify early.zst a.zst
stranger verdict 10 verified-incomplete any early.zst --any-key
# A replay that cannot be completed, and a bundle of an older version.
verdict 7 inconclusive own a.zst --replay 1 --replay-limit 1s,1M
verdict 11 other-version none "$TOP/tests/vectors/version3.repro.tar.zst"
head -c 5000 a.zst >cut.zst
verdict 4 failed none cut.zst
refuse 3 none.zst
# No message but the status.
for file in a.zst cut.zst early.zst; do
    status=0
    "$REPRO" verify $file >loud.txt 2>&1 || status=$?
    exit_of $status "$REPRO" verify -q $file
    [ -s loud.txt ] && [ ! -s out.txt ] && [ ! -s err.txt ] || fail "verify -q $file prints something"
done
