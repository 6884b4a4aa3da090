#!/bin/sh
# One verdict and one exit status each: key unknown, key named, key in the store, another key, cut, longer, changed, not there.
. "$TEST_DIR/common.inc"
make_bundle
exit_of 0 "$REPRO" verify a.repro.tar.zst
says "verified, but the key is unknown"
"$REPRO" key show | sed -n '3,$p' >me.pem
print=$("$REPRO" key show | sed -n 2p)
for key in me.pem ./me.pem "$print"; do
    exit_of 0 "$REPRO" verify a.repro.tar.zst --trust "$key"
    [ "$(tail -n 1 out.txt)" = verified ] || { cat out.txt >&2; fail "not the verdict of a trusted key"; }
done
"$REPRO" key new -o other.key >other.txt
sed -n '3,$p' other.txt >other.pem
exit_of 6 "$REPRO" verify a.repro.tar.zst --trust other.pem
says "signed by another key"
"$REPRO" key trust me.pem --name signer >/dev/null
exit_of 0 "$REPRO" verify a.repro.tar.zst
says "in your trust store as 'signer'"
exit_of 0 "$REPRO" verify a.repro.tar.zst --trust signer
exit_of 2 "$REPRO" verify a.repro.tar.zst --trust nobody
cp other.pem signer # what lies beside a bundle does not take the place of a name in the store, in either direction
exit_of 0 "$REPRO" verify a.repro.tar.zst --trust signer
exit_of 6 "$REPRO" verify a.repro.tar.zst --trust ./signer
rm signer
cp me.pem lonely # and a name that is not in the store is not a file either
exit_of 2 "$REPRO" verify a.repro.tar.zst --trust lonely
says "write ./lonely"
exit_of 0 "$REPRO" verify a.repro.tar.zst --trust ./lonely
exit_of 3 "$REPRO" verify none.repro.tar.zst
exit_of 4 "$REPRO" verify me.pem
size=$(wc -c <a.repro.tar.zst)
for n in 0 5 100 $((size / 2)) $((size - 1)); do
    head -c "$n" a.repro.tar.zst >cut.zst
    exit_of 4 "$REPRO" verify cut.zst
done
says "the file ends early"
{ cat a.repro.tar.zst; echo; } >longer
exit_of 4 "$REPRO" verify longer
says "follow the end"
{ cat a.repro.tar.zst a.repro.tar.zst; } >twice
exit_of 4 "$REPRO" verify twice
{ head -c $((size / 2)) a.repro.tar.zst; printf 'XX'; tail -c +$((size / 2 + 3)) a.repro.tar.zst; } >changed
exit_of 4 "$REPRO" verify changed
exit_of 0 "$REPRO" verify --json a.repro.tar.zst
says '"verdict": "verified"'
exit_of 6 "$REPRO" verify --json a.repro.tar.zst --trust other.pem
says '"verdict": "failed"'
