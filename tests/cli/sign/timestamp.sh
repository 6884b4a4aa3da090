#!/bin/bash
# `repro timestamp`: with `openssl ts` as authority, of RSA and of EC, through request, attach, verify and verify.sh.
. "$TEST_DIR/common.inc"
PATH=${STOCK_PATH:-$PATH} # verify.sh is for the jq that people have
need jq openssl
openssl version | grep -q '^OpenSSL 3' || skip "openssl is not of version 3"

cat >ca.cnf <<'END'
[tsa]
default_tsa = tsa1
[tsa1]
dir = .
serial = ./tsserial
crypto_device = builtin
signer_digest = sha512
default_policy = 1.2.3.4.1
other_policies = 1.2.3.4.5
digests = sha256
accuracy = secs:1, millisecs:500
ordering = yes
tsa_name = yes
ess_cert_id_chain = no
ess_cert_id_alg = sha256
[ca]
default_ca = ca1
[ca1]
dir = .
database = ./index.txt
new_certs_dir = .
serial = ./serial
default_md = sha384
policy = any
x509_extensions = stamp
unique_subject = no
[any]
commonName = supplied
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[stamp]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
END
new_key() { # rsa|ec FILE
    if [ "$1" = rsa ]; then
        openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$2" 2>openssl.txt
    else
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "$2" 2>openssl.txt
    fi || { cat openssl.txt >&2; fail "no key"; }
}
new_authority() { # rsa|ec NAME [LIFE]: NAME.root.pem, NAME.pem and NAME.key; LIFE: of the certificate, from now
    new_key "$1" "$2.root.key"
    new_key "$1" "$2.key"
    : >index.txt
    [ -s serial ] || echo 1001 >serial
    [ -s tsserial ] || echo 2A01 >tsserial
    {
        openssl req -x509 -new -key "$2.root.key" -subj "/CN=root of $2" -days 30 -config ca.cnf -extensions root -out "$2.root.pem" -sha256 &&
            openssl req -new -key "$2.key" -subj "/CN=authority $2" -config ca.cnf -out "$2.csr" &&
            openssl ca -batch -config ca.cnf -cert "$2.root.pem" -keyfile "$2.root.key" -in "$2.csr" -out "$2.pem" -notext \
                -startdate "$(date -u -d '-1 hour' +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "${3:-+1 day}" +%Y%m%d%H%M%SZ)"
    } >openssl.txt 2>&1 || { cat openssl.txt >&2; fail "no authority $2"; }
}
printf '[req]\ndistinguished_name = dn\nprompt = no\n[dn]\n' >>ca.cnf
answer() { # NAME REQUEST RESPONSE
    openssl ts -reply -config ca.cnf -queryfile "$2" -signer "$1.pem" -inkey "$1.key" -chain "$1.root.pem" -out "$3" >openssl.txt 2>&1 ||
        { cat openssl.txt >&2; fail "$1 did not answer"; }
}
stamps() { # FILTER OPTION...: of verify --json
    filter=$1
    shift
    "$REPRO" verify a.repro.tar.zst --json "$@" >out.txt 2>err.txt || :
    jq -e "$filter" out.txt >answer.txt || { jq '{timestamps, c: [.checks[] | select(.check == "timestamps")]}' out.txt >&2; fail "not so: $filter"; }
}
state='.checks[] | select(.check == "timestamps") | .state'

make_bundle a.repro.tar.zst
cp a.repro.tar.zst sealed.repro.tar.zst
new_authority rsa rsa
stamps "($state == \"not_applicable\") and .timestamps == null"

# a request for these bytes
exit_of 0 "$REPRO" timestamp request a.repro.tar.zst
exit_of 0 openssl ts -query -in a.repro.tar.zst.tsq -text
says_in 'Certificate required: yes' out.txt
exit_of 2 "$REPRO" timestamp request a.repro.tar.zst # it exists
exit_of 0 "$REPRO" timestamp request a.repro.tar.zst -o again.tsq --json
jq -e '.request == "again.tsq" and (.statement_sha256 | length) == 64' out.txt >answer.txt || fail "--json"
! cmp -s again.tsq a.repro.tar.zst.tsq || fail "the nonce is the same"

# the answer of one that expires soon after it, then of another
new_authority ec ec '+5 seconds'
answer ec a.repro.tar.zst.tsq ec.tsr
exit_of 0 "$REPRO" timestamp attach a.repro.tar.zst ec.tsr --tsa-ca ec.root.pem
words out.txt 'stamped'
answer rsa again.tsq rsa.tsr
exit_of 0 "$REPRO" timestamp attach a.repro.tar.zst rsa.tsr --json
jq -e '.number == 1 and .authority == "CN=authority rsa" and .policy == "1.2.3.4.1" and (.checked | not)' out.txt >answer.txt || { cat out.txt >&2; fail "--json"; }
stamps "($state == \"note\") and (.timestamps | length) == 2 and all(.timestamps[]; .valid and (.checked | not) and .accuracy_s == 1.5)"
cat ec.root.pem rsa.root.pem >both.pem
stamps "($state == \"passed\") and .timestamps[1].checked and .timestamps[0].checked and .timestamps[0].not_after > .timestamps[0].time" --tsa-ca both.pem
stamps "($state == \"note\") and .timestamps[1].checked and (.timestamps[0].checked | not)" --tsa-ca rsa.root.pem
exit_of 0 "$REPRO" verify a.repro.tar.zst --tsa-ca both.pem
words out.txt 'stamp'
exit_of 0 "$REPRO" inspect a.repro.tar.zst timestamps/0.tsr
cmp out.txt ec.tsr || fail "not the bytes of the answer"

# the other members are the bytes that were sealed
mkdir one two
tar --zstd -xf sealed.repro.tar.zst -C one
tar --zstd -xf a.repro.tar.zst -C two
rm -r two/timestamps
diff -r one two || fail "a time stamp changed a member"
"$REPRO" key show --form pem >me.pem
exit_of 0 sh one/verify.sh a.repro.tar.zst me.pem
says 'timestamps/1.tsr'
exit_of 0 env TSA_CA=both.pem sh one/verify.sh a.repro.tar.zst me.pem
[ "$(grep -c '^OK time-stamped' out.txt)" = 2 ] || fail "verify.sh: not two"
exit_of 1 env TSA_CA=rsa.root.pem sh one/verify.sh a.repro.tar.zst me.pem
for unreadable in none.pem a.repro.tar.zst .; do # no finding about the bundle
    exit_of 1 env TSA_CA=$unreadable sh one/verify.sh a.repro.tar.zst me.pem
    says "TSA_CA: '$unreadable'"
    exit_of 1 sh one/verify.sh a.repro.tar.zst $unreadable
    says "'$unreadable'"
done

# what is not attached, and changes nothing
sum=$(sha256sum <a.repro.tar.zst)
exit_of 2 "$REPRO" timestamp attach a.repro.tar.zst ec.tsr
words
make_bundle other.repro.tar.zst
"$REPRO" timestamp request other.repro.tar.zst >out.txt
answer rsa other.repro.tar.zst.tsq other.tsr
exit_of 5 "$REPRO" timestamp attach a.repro.tar.zst other.tsr
words
openssl ts -query -data "$REPRO" -sha512 -cert -out unwanted.tsq 2>openssl.txt
openssl ts -reply -config ca.cnf -queryfile unwanted.tsq -signer rsa.pem -inkey rsa.key -out rejected.tsr >openssl.txt 2>&1 || :
exit_of 4 "$REPRO" timestamp attach a.repro.tar.zst rejected.tsr
words
exit_of 6 "$REPRO" timestamp attach a.repro.tar.zst rsa.tsr --tsa-ca ec.root.pem
head -c 900 rsa.tsr >cut.tsr
exit_of 4 "$REPRO" timestamp attach a.repro.tar.zst cut.tsr
head -c 70000 /dev/zero >large.tsr
exit_of 4 "$REPRO" timestamp attach a.repro.tar.zst large.tsr
exit_of 4 "$REPRO" timestamp attach a.repro.tar.zst rsa.pem
exit_of 3 "$REPRO" timestamp attach a.repro.tar.zst none.tsr
exit_of 3 "$REPRO" timestamp attach none.repro.tar.zst rsa.tsr
exit_of 4 "$REPRO" timestamp attach a.repro.tar.zst rsa.tsr --tsa-ca me.pem
exit_of 2 "$REPRO" timestamp attach a.repro.tar.zst rsa.tsr -o other.repro.tar.zst
exit_of 4 "$REPRO" verify a.repro.tar.zst --tsa-ca me.pem
openssl ts -query -data one/statement.dsse.json -sha256 -cert -out more.tsq 2>openssl.txt # any program's request will do
answer rsa more.tsq more.tsr
(ulimit -f 8 && exit_of 3 "$REPRO" timestamp attach a.repro.tar.zst more.tsr) || fail "a full disk"
[ "$sum" = "$(sha256sum <a.repro.tar.zst)" ] || fail "the bundle was changed"
[ "$(find . -name '*.repro.tar.zst' | wc -l)" = 3 ] || fail "something was left: $(ls)"

# at most eight; a countersignature goes before them
for i in 2 3 4 5 6 7; do
    answer rsa more.tsq "more$i.tsr"
    exit_of 0 "$REPRO" timestamp attach a.repro.tar.zst "more$i.tsr"
done
exit_of 2 "$REPRO" timestamp attach a.repro.tar.zst more.tsr
"$REPRO" key new -o bob.key >out.txt
exit_of 0 "$REPRO" sign a.repro.tar.zst --key bob.key
stamps '(.timestamps | length) == 8 and (.countersignatures | length) == 1'
exit_of 0 env TSA_CA=both.pem sh one/verify.sh a.repro.tar.zst me.pem

# the first authority's certificate has expired: that does not matter
while openssl x509 -in ec.pem -noout -checkend 0 >openssl.txt; do sleep 0.3; done
stamps ".timestamps[0].checked and ($state == \"note\")" --tsa-ca ec.root.pem
exit_of 0 "$REPRO" timestamp request other.repro.tar.zst -o late.tsq
answer ec late.tsq late.tsr
exit_of 6 "$REPRO" timestamp attach other.repro.tar.zst late.tsr --tsa-ca ec.root.pem
words

# another authority, and a time stamp of another bundle: never without saying so
exit_of 0 "$REPRO" timestamp attach other.repro.tar.zst other.tsr
exit_of 0 "$REPRO" verify other.repro.tar.zst --tsa-ca rsa.root.pem
exit_of 6 "$REPRO" verify other.repro.tar.zst --tsa-ca ec.root.pem
words
exit_of 6 "$REPRO" verify other.repro.tar.zst --tsa-ca rsa.pem # the authority's own certificate instead of its root's
words
mkdir moved
tar --zstd -xf other.repro.tar.zst -C moved
cp ec.tsr moved/timestamps/0.tsr
exit_of 1 env TSA_CA=both.pem sh one/verify.sh moved me.pem
