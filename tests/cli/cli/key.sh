#!/bin/sh
# Keys: made once, private to their owner, never shown; fingerprints are those that openssl computes; the trust store.
. "$TEST_DIR/common.inc"
exit_of 3 "$REPRO" key show
words
exit_of 0 "$REPRO" key new
k="$XDG_CONFIG_HOME/repro/key.pem"
[ "$(stat -c %a "$k")" = 600 ] || fail "mode $(stat -c %a "$k")"
[ "$(head -n 1 out.txt)" = "$k" ] || fail "the path is not shown"
grep -q PRIVATE out.txt err.txt && fail "private bytes were printed"
cp out.txt made.txt
cp "$k" before.pem
exit_of 0 "$REPRO" key show
cmp out.txt made.txt
print=$(sed -n 2p made.txt)
sed -n '3,$p' made.txt >alice.pem
[ "$print" = "SHA256:$(openssl pkey -in "$k" -pubout -outform DER | sha256sum | cut -c1-64)" ] || fail "fingerprint $print is not openssl's"
openssl pkey -in "$k" -pubout | cmp - alice.pem
status=0
"$REPRO" key new >out.txt 2>err.txt || status=$?
[ $status != 0 ] || fail "a key was overwritten"
cmp "$k" before.pem
exit_of 0 "$REPRO" key show alice.pem
[ "$(sed -n 2p out.txt)" = "$print" ] || fail "a public key has another fingerprint"

# an encrypted key: by descriptor, wrong passphrase, no terminal, and nothing readable in the file
exit_of 0 "$REPRO" key new -o e.pem --passphrase-fd 5 5<<PASS
correct horse
PASS
grep -q "BEGIN ENCRYPTED PRIVATE KEY" e.pem || fail "the key is not encrypted"
grep -q "correct horse" out.txt err.txt e.pem && fail "the passphrase was printed"
print2=$(sed -n 2p out.txt)
printf 'correct horse\n' >pass
printf 'wrong horse\n' >wrong
exit_of 0 "$REPRO" key show e.pem --passphrase-fd 5 5<pass
[ "$(sed -n 2p out.txt)" = "$print2" ] || fail "another fingerprint"
exit_of 2 "$REPRO" key show e.pem --passphrase-fd 5 5<wrong
says passphrase
if command -v setsid >/dev/null; then
    exit_of 7 setsid -w "$REPRO" key show e.pem
    says --passphrase-fd
fi

# trust
exit_of 0 "$REPRO" key trust
words out.txt .
exit_of 0 "$REPRO" key trust alice.pem
exit_of 0 "$REPRO" key trust
grep -q "^alice  *$print\$" out.txt || { cat out.txt >&2; fail "alice is not listed"; }
"$REPRO" key show e.pem --passphrase-fd 5 5<pass | sed -n '3,$p' >bob.pem
status=0
"$REPRO" key trust bob.pem --name alice >out.txt 2>err.txt || status=$?
[ $status != 0 ] || fail "the name of another key was taken over"
exit_of 0 "$REPRO" key trust bob.pem --name lab7
exit_of 4 "$REPRO" key trust e.pem --name me # private, with a passphrase that it does not ask for
words
[ "$("$REPRO" key trust --json | jq -r '.trusted[].name' | tr '\n' ' ')" = "alice lab7 " ] || fail "not both are listed"
exit_of 2 "$REPRO" key trust bob.pem --name ../evil
exit_of 2 "$REPRO" key trust --name x
# where no key can be made, the message says how to name another place
: >file
exit_of 3 "$REPRO" key new -o file/keys/k.pem
words
# what is no key at all is asked for as a public one
: >empty.pem
echo "my key is in another file" >note.txt
for file in empty.pem note.txt; do
    exit_of 4 "$REPRO" key trust $file
    words
done
# a key of OpenSSH, where that is there to make one
if command -v ssh-keygen >/dev/null; then
    ssh-keygen -q -t ed25519 -N '' -C me -f id
    exit_of 0 "$REPRO" key show id --form ssh
    [ "$(cat out.txt) me" = "$(cat id.pub)" ] || fail "the public key is not that of ssh-keygen"
    "$REPRO" key show id.pub --form pem >id.pem
    [ "$("$REPRO" key show id.pem --form ssh)" = "$(cat out.txt)" ] || fail "another public key in PEM form"
fi
# private keys of other kinds and forms
for kind in EC OPENSSH; do
    printf -- '-----BEGIN %s PRIVATE KEY-----\nMC4CAQ\n-----END %s PRIVATE KEY-----\n' $kind $kind >other.pem && chmod 600 other.pem
    exit_of 4 "$REPRO" key trust other.pem
    words
    exit_of 4 env REPRO_KEY=other.pem "$REPRO" run bert_tiny_fp32
    words
done
: >"$XDG_CONFIG_HOME/repro/trust/empty.pem"
exit_of 4 "$REPRO" verify none.repro.tar.zst --trust empty
words
rm "$XDG_CONFIG_HOME/repro/trust/empty.pem"
exit_of 4 "$REPRO" verify none.repro.tar.zst --trust ./empty.pem
words
exit_of 2 env HOME=home XDG_CONFIG_HOME= "$REPRO" key show
words
# a file that is no key hides no other
echo rubbish >"$XDG_CONFIG_HOME/repro/trust/mallory.pem"
exit_of 0 "$REPRO" key trust
grep -q "^alice " out.txt || fail "alice is no longer listed"
grep -q mallory out.txt && fail "mallory is listed"
says mallory.pem
"$REPRO" key trust --json | jq -e '(.trusted | length) == 2 and (.skipped | length) == 1' >answer.txt || fail "no list of what was skipped"
# a mistyped REPRO_KEY is said also with --quiet, once: then the file is there
exit_of 0 env REPRO_KEY=tpyo.pem "$REPRO" challenge new --quiet -o first.json
words
exit_of 0 env REPRO_KEY=tpyo.pem "$REPRO" challenge new --quiet -o second.json
[ ! -s err.txt ] || fail "the key is there: $(cat err.txt)"
