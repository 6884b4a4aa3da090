#!/bin/sh
# One verdict and one exit status each: key unknown, key named, key in the store, another key, cut, longer, changed, missing.
. "$TEST_DIR/common.inc"
make_bundle a.repro.tar.zst
check 0 key a.repro.tar.zst
"$REPRO" key show | sed -n '3,$p' >me.pem
for key in me.pem ./me.pem "$("$REPRO" key show | sed -n 2p)"; do
    check 0 key a.repro.tar.zst --trust "$key"
done
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
check 6 key a.repro.tar.zst --trust other.pem
"$REPRO" key trust me.pem --name signer >/dev/null
check 0 key a.repro.tar.zst
check 0 key a.repro.tar.zst --trust signer
refuse 2 a.repro.tar.zst --trust nobody
cp other.pem signer # a file does not replace a name in the store, nor a name a file
check 0 key a.repro.tar.zst --trust signer
check 6 key a.repro.tar.zst --trust ./signer
rm signer
cp me.pem lonely
refuse 2 a.repro.tar.zst --trust lonely
check 0 key a.repro.tar.zst --trust ./lonely
refuse 3 none.repro.tar.zst
check 4 container me.pem
size=$(wc -c <a.repro.tar.zst)
for n in 0 5 100 $((size / 2)) $((size - 1)); do
    head -c "$n" a.repro.tar.zst >cut.zst
    exit_of 4 "$REPRO" verify cut.zst
done
check 4 container cut.zst
{ cat a.repro.tar.zst; echo; } >longer
check 4 container longer
{ cat a.repro.tar.zst a.repro.tar.zst; } >twice
check 4 container twice
{ head -c $((size / 2)) a.repro.tar.zst; printf 'XX'; tail -c +$((size / 2 + 3)) a.repro.tar.zst; } >changed
exit_of 4 "$REPRO" verify changed
[ "$(head -n 1 out.txt)" = "FAILED: container" ] || fail "the first line does not name the check: $(head -n 1 out.txt)"
exit_of 4 "$REPRO" verify changed --replay 1 --json
jq -e '(.checks[] | select(.check == "replay").text) != (.checks[] | select(.check == "policy").text)' out.txt >answer.txt ||
    fail "a check that nobody requested is described as one that was"
