#!/bin/bash
# signify and minisign check our signatures with keys in their forms; those made or converted by openssl sign bundles.
. "$TEST_DIR/common.inc"
PATH=${STOCK_PATH:-$PATH} # verify.sh is for the jq that people have
need signify-openbsd minisign openssl tar zstd sha256sum base64 jq
verdict() { # BUNDLE: the check of the two forms, then verified by the key that was named
    exit_of 0 "$REPRO" verify "$1" --all --trust "$2"
    grep -q "^passed  *stock_signatures " out.txt || { cat out.txt >&2; fail "$1: the two forms are not checked"; }
    case $(head -n 1 out.txt) in "verified: authentic"*) ;; *) cat out.txt >&2; fail "$1: not verified by $2" ;; esac
}
checked_by_them() { # DIRECTORY SIGNIFY_KEY MINISIGN_KEY: exit statuses of both
    them=
    signify-openbsd -V -q -p "$2" -m "$1/SHA256SUMS" -x "$1/SHA256SUMS.sig" >them.txt 2>&1 || them=signify
    minisign -V -q -p "$3" -m "$1/SHA256SUMS" -x "$1/SHA256SUMS.minisig" >>them.txt 2>&1 || them=$them-minisign
}

# ours, checked by them
make_bundle ours.repro.tar.zst
mkdir ours
tar --zstd -xf ours.repro.tar.zst -C ours
"$REPRO" key show --form signify >signify.pub
"$REPRO" key show --form minisign >minisign.pub
"$REPRO" key show --form pem >me.pem
openssl pkey -pubin -in me.pem -noout || fail "openssl does not read --form pem"
checked_by_them ours signify.pub minisign.pub
[ -z "$them" ] || { cat them.txt >&2; fail "refused by $them"; }
[ "$(minisign -V -Q -p minisign.pub -m ours/SHA256SUMS -x ours/SHA256SUMS.minisig)" = "$(printf 'file:SHA256SUMS\thashed')" ] ||
    fail "minisign does not show the trusted comment"
for form in signify minisign; do
    "$REPRO" key show $form.pub --form pem | cmp - me.pem
    verdict ours.repro.tar.zst ./$form.pub
done
"$REPRO" key show me.pem --form minisign | cmp - minisign.pub
exit_of 0 sh ours/verify.sh ours.repro.tar.zst me.pem
words out.txt '^OK signature'
# each of their checks can fail: another key, another text
"$REPRO" key new -o other.sec >other.txt
"$REPRO" key show other.sec --form signify >other.pub
checked_by_them ours other.pub other.pub
[ "$them" = signify-minisign ] || fail "they accept another key"
cp -R ours changed
echo >>changed/SHA256SUMS
checked_by_them changed signify.pub minisign.pub
[ "$them" = signify-minisign ] || fail "they accept another text"

# theirs sign ours
openssl genpkey -algorithm ed25519 -out openssl.sec
openssl pkey -in openssl.sec -pubout -out openssl.pub
echo "correct horse" >pass
openssl genpkey -algorithm ed25519 -aes-256-cbc -pass file:pass -out locked.sec
openssl pkey -in locked.sec -passin file:pass -pubout -out locked.pub
mkdir theirs
signify-openbsd -G -n -p theirs/s.pub -s theirs/s.sec
minisign -G -W -p theirs/m.pub -s theirs/m.sec >made.txt 2>&1
convert() { # NAME BYTE: by the command in the help of 'key new'
    exit_of 4 "$REPRO" key show theirs/"$1".sec
    words
    command=$("$REPRO" help key new |
        sed -n "/^ *{ echo /{N; s/\n//; s|KEY|theirs/$1.sec|; s/+41/+$2/; s/key.pem/$1.sec/; p}")
    sh -c "${command:?no command in the help}" || fail "not converted: $command"
    cp theirs/"$1".pub .
}
convert s 41
convert m 63
for key in openssl locked s m; do
    make_bundle $key.repro.tar.zst --key $key.sec --passphrase-fd 5 5<pass
    verdict $key.repro.tar.zst ./$key.pub
done
