#!/bin/bash
# `repro sign`: other people's signatures on a bundle, listed by verify and by verify.sh; the file is replaced in one go or not at all.
. "$TEST_DIR/common.inc"
PATH=${STOCK_PATH:-$PATH} # verify.sh is for the jq that people have
need jq
make_bundle a.repro.tar.zst
author=$("$REPRO" key show | sed -n 2p)
for who in bob carol; do
    "$REPRO" key new -o $who.key | sed -n '3,$p' >$who.pem
done
bob=$("$REPRO" key show bob.key | sed -n 2p)
cp a.repro.tar.zst sealed.repro.tar.zst
exit_of 0 "$REPRO" sign a.repro.tar.zst --key bob.key --note "replayed $(printf '\303\240') la carte\" (trusted as \\NVIDIA)"
words out.txt 'countersigned|trust|until'
exit_of 0 "$REPRO" sign a.repro.tar.zst --key carol.key --role author -o b.repro.tar.zst --json
jq -e --arg author "$author" '.number == 1 and .role == "author" and .author == $author' out.txt >answer.txt || { cat out.txt >&2; fail "--json"; }
for command in verify report; do # a reviewer vouches for no author
    exit_of 6 "$REPRO" $command b.repro.tar.zst --trust ./bob.pem
    words
done
exit_of 6 "$REPRO" export mllog b.repro.tar.zst --trust ./bob.pem
exit_of 0 "$REPRO" verify b.repro.tar.zst
words out.txt 'countersigned|trust|until'
head -n 1 out.txt
exit_of 0 "$REPRO" verify b.repro.tar.zst --json
jq -e --arg author "$author" --arg bob "$bob" '.fingerprint == $author and (.countersignatures | length) == 2 and .countersignatures[0].fingerprint == $bob
    and .countersignatures[0].valid and (.countersignatures[0].trusted | not) and .countersignatures[1].role == "author"' out.txt >answer.txt || { cat out.txt >&2; fail "verify --json"; }
exit_of 0 "$REPRO" verify a.repro.tar.zst # the one without carol is as it was
"$REPRO" verify a.repro.tar.zst --json | jq -e '.countersignatures | length == 1' >answer.txt || fail "-o changed the bundle"

# the other members are the bytes that were sealed
mkdir one two
tar --zstd -xf sealed.repro.tar.zst -C one
tar --zstd -xf b.repro.tar.zst -C two
rm -r two/signatures
diff -r one two || fail "signing changed a member"
# A directory is shown as verify takes it, and nothing is added to one.
"$REPRO" inspect sealed.repro.tar.zst | sed 1d >whole.txt
exit_of 0 "$REPRO" inspect one
sed 1d out.txt | cmp - whole.txt || fail "inspect shows the directory as another bundle: $(cat out.txt)"
exit_of 0 "$REPRO" inspect one facts.json
cmp out.txt one/facts.json || fail "a member of a directory"
exit_of 0 "$REPRO" inspect - facts.json <sealed.repro.tar.zst
cmp out.txt one/facts.json || fail "a member from standard input"
exit_of 2 "$REPRO" sign one --key bob.key
says_in 'give the .repro.tar.zst that was unpacked into it' err.txt
exit_of 2 "$REPRO" timestamp attach one bob.pem
if command -v openssl >/dev/null && openssl version | grep -q '^OpenSSL 3'; then
    "$REPRO" key show --form pem >me.pem
    exit_of 0 sh one/verify.sh b.repro.tar.zst me.pem
    grep -q "$bob" out.txt || fail "bob is not named"
    mkdir three
    tar --zstd -xf b.repro.tar.zst -C three
    cp three/signatures/1.pem three/signatures/0.pem
    exit_of 1 sh one/verify.sh three me.pem
    says three/signatures/0.pem
    cp two/statement.dsse.json three/signatures/2.dsse.json
    cp bob.pem three/signatures/0.pem
    cp me.pem three/signatures/2.pem
    exit_of 1 sh one/verify.sh three me.pem
    says signatures/2.dsse.json
fi

# trust in each of them
exit_of 0 "$REPRO" key trust bob.pem --until 9999-12-31
exit_of 0 "$REPRO" verify b.repro.tar.zst
words out.txt 'countersigned|trust|until'
head -n 1 out.txt
exit_of 0 "$REPRO" key trust --list --json
jq -e '.trusted[0].until == "9999-12-31" and (.trusted[0].expired | not)' out.txt >answer.txt || { cat out.txt >&2; fail "--until is not listed"; }
"$REPRO" key show | sed -n '3,$p' >me.pem
exit_of 0 "$REPRO" key trust me.pem --name author
exit_of 0 "$REPRO" verify b.repro.tar.zst --trust bob
words out.txt 'countersigned|trust|until'
case $(head -n 1 out.txt) in "verified: authentic"*) ;; *) fail "not verified" ;; esac
# a day that is over: the entry as the program would have written it
store="$XDG_CONFIG_HOME/repro/trust"
printf 'repro-trust/1\nuntil: 2001-01-01\n' >entry
digest=$(cat entry me.pem | sha256sum)
{ cat entry && echo "sha256: ${digest%% *}" && cat me.pem; } >"$store/author.pem"
exit_of 8 "$REPRO" verify b.repro.tar.zst
words out.txt 'countersigned|trust|until'
head -n 1 out.txt
exit_of 6 "$REPRO" verify b.repro.tar.zst --trust author
words out.txt 'countersigned|trust|until'
exit_of 0 "$REPRO" key trust
words out.txt 'countersigned|trust|until'
exit_of 0 "$REPRO" key trust --remove author
exit_of 2 "$REPRO" key trust --remove author
exit_of 2 "$REPRO" key trust me.pem --until 2001-01-01
exit_of 2 "$REPRO" key trust me.pem --until soon
exit_of 2 "$REPRO" key trust me.pem --list

# what is not signed, and changes nothing
sum=$(sha256sum <b.repro.tar.zst)
exit_of 2 "$REPRO" sign b.repro.tar.zst # the author's own key
words
exit_of 2 "$REPRO" sign b.repro.tar.zst --key bob.key
words
exit_of 2 "$REPRO" sign b.repro.tar.zst --key bob.key --role owner
exit_of 2 "$REPRO" sign b.repro.tar.zst --key bob.key --role replicator --note "$(printf 'a\033[2Jb')"
exit_of 2 "$REPRO" sign b.repro.tar.zst --key bob.key --role replicator --note "$(printf '%0501d' 0)"
exit_of 2 "$REPRO" sign b.repro.tar.zst --key bob.key --role replicator -o a.repro.tar.zst
exit_of 3 "$REPRO" sign b.repro.tar.zst --key none.key
exit_of 3 "$REPRO" sign none.repro.tar.zst --key bob.key
head -c 9000 b.repro.tar.zst >cut.repro.tar.zst
exit_of 4 "$REPRO" sign cut.repro.tar.zst --key bob.key
words
(ulimit -f 8 && exit_of 3 "$REPRO" sign b.repro.tar.zst --key bob.key --role replicator) || fail "a full disk"
[ "$sum" = "$(sha256sum <b.repro.tar.zst)" ] || fail "the bundle was changed"
[ "$(find . -name '*.repro.tar.zst*' | wc -l)" = 4 ] || fail "something was left: $(ls)"

# many at once: nobody's signature is lost; the link stays a link
ln -s b.repro.tar.zst link.repro.tar.zst
pids=
for i in 1 2 3 4 5 6; do
    "$REPRO" key new -o "many$i.key" >made.txt
    "$REPRO" sign link.repro.tar.zst --key "many$i.key" >"many$i.txt" 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || { cat many*.txt >&2; fail "one of several at once failed"; }
done
[ -L link.repro.tar.zst ] || fail "the link was replaced"
"$REPRO" verify b.repro.tar.zst --json | jq -e '(.countersignatures | length) == 8 and all(.countersignatures[]; .valid)' >answer.txt || fail "a signature was lost"
