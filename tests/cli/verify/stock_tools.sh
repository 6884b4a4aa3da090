#!/bin/sh
# verify.sh checks the same with tar, zstd, sha256sum, base64, jq and openssl, and refuses what was changed.
. "$TEST_DIR/common.inc"
PATH=${STOCK_PATH:-$PATH} # verify.sh is for the jq that people have
need tar zstd sha256sum base64 jq openssl
openssl version | grep -q '^OpenSSL 3' || skip "openssl is not OpenSSL 3"
make_bundle a.repro.tar.zst
"$REPRO" key show | sed -n '3,$p' >me.pem
"$REPRO" key new -o other.key | sed -n '3,$p' >other.pem
tar --zstd -xf a.repro.tar.zst verify.sh
cmp verify.sh "$TOP/src/bundle/verify.sh"
exit_of 0 sh verify.sh a.repro.tar.zst me.pem
grep -q "$("$REPRO" key show | sed -n 2p)" out.txt || fail "the key is not named"
words out.txt '^OK .*(SHA256|files)'
grep -q WARNING err.txt && fail "warned about a key that was given"
exit_of 0 sh verify.sh a.repro.tar.zst
words err.txt WARNING
exit_of 1 sh verify.sh a.repro.tar.zst other.pem
words err.txt FAILED
exit_of 1 sh verify.sh a.repro.tar.zst none.pem
exit_of 1 sh verify.sh none.repro.tar.zst me.pem
head -c 5000 a.repro.tar.zst >cut.zst
exit_of 1 sh verify.sh cut.zst me.pem

mkdir good
tar --zstd -xf a.repro.tar.zst -C good
exit_of 0 sh verify.sh good me.pem
(cd good && sha256sum -c --quiet SHA256SUMS) || fail "SHA256SUMS"
# Names that a terminal would obey, by themselves or by an echo that interprets backslashes: of the bundle, the key and the certificate.
esc=$(printf '\033')
for name in "evil${esc}[2J" 'evil\033[2J' "evil
OK signature by SHA256:0"; do
    exit_of 1 sh verify.sh "$name" me.pem
    cp err.txt all.txt
    exit_of 1 sh verify.sh a.repro.tar.zst "$name"
    cat err.txt >>all.txt
    exit_of 1 env TSA_CA="$name" sh verify.sh a.repro.tar.zst me.pem
    cat err.txt >>all.txt
    mkdir "$name"
    exit_of 1 sh verify.sh "$name" me.pem
    cat err.txt >>all.txt
    [ "$(wc -l <all.txt)" = 4 ] && [ "$(grep -c '^FAILED: ' all.txt)" = 4 ] || fail "a name becomes a line: $(cat all.txt)"
    ! grep -q '[^ -~]' all.txt || fail "a terminal obeys a name: $(cat -v all.txt)"
    rmdir "$name"
done
# A directory is the one that is named, not another one of CDPATH; names may begin with a minus.
mkdir elsewhere
cp -R good elsewhere/other
cp -R good other
printf x >>other/run.json
exit_of 1 env CDPATH="$PWD/elsewhere" sh verify.sh other me.pem
printf x >>elsewhere/other/run.json
cp good/run.json other/run.json
exit_of 0 env CDPATH="$PWD/elsewhere" sh verify.sh other me.pem
cp a.repro.tar.zst ./-a.zst
cp me.pem ./-me.pem
exit_of 0 sh verify.sh -a.zst -me.pem
mv other ./-other
exit_of 0 sh verify.sh -other -me.pem
fresh() { rm -rf bad && cp -R good bad; }
for member in facts.json run.json recipe.yaml env/node0.before.json steps/rank0.jsonl key.pem SHA256SUMS verify.sh; do
    fresh
    printf x >>"bad/$member"
    exit_of 1 sh verify.sh bad me.pem
    words err.txt FAILED
    fresh
    rm "bad/$member"
    exit_of 1 sh verify.sh bad me.pem
done
fresh
echo more >bad/more.txt
exit_of 1 sh verify.sh bad me.pem
words err.txt FAILED
fresh
ln -s run.json bad/link.json
exit_of 1 sh verify.sh bad me.pem
words err.txt FAILED
fresh
jq '.signatures += .signatures' good/statement.dsse.json >bad/statement.dsse.json
exit_of 1 sh verify.sh bad me.pem
fresh
jq '.payloadType = "text/plain"' good/statement.dsse.json >bad/statement.dsse.json
exit_of 1 sh verify.sh bad me.pem
fresh # a signer whose words a terminal would obey
rm bad/SHA256SUMS.*sig
jq -r .payload good/statement.dsse.json | base64 -d |
    jq '.predicate.status = "\u001b[2J\u009b2K" | .subject |= map(select(.name | startswith("SHA256SUMS.") | not))' >payload
type=application/vnd.in-toto+json
{ printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(wc -c <payload)" && cat payload; } >pae
openssl pkeyutl -sign -rawin -inkey other.key -in pae -out sig
jq --arg payload "$(base64 -w 0 payload)" --arg sig "$(base64 -w 0 sig)" '.payload = $payload | .signatures[0].sig = $sig' good/statement.dsse.json >bad/statement.dsse.json
exit_of 0 sh verify.sh bad other.pem
says 'status ?[2J?2K,'
[ "$(tr -d '\n\040-\176' <out.txt | wc -c)" = 0 ] || fail "control characters: $(od -c out.txt)"
fresh # a better number, with a digest to match, but the old signature
jq '.results.throughput.value *= 2' good/run.json >bad/run.json
sum=$(sha256sum <bad/run.json)
jq -r .payload good/statement.dsse.json | base64 -d | jq --arg sum "${sum%% *}" '(.subject[] | select(.name == "run.json")).digest.sha256 = $sum' >payload
jq --arg payload "$(base64 -w 0 payload)" '.payload = $payload' good/statement.dsse.json >bad/statement.dsse.json
exit_of 1 sh verify.sh bad me.pem
words err.txt FAILED

# With busybox's tools alone, besides those that it does not have; and what a tool cannot do is said, and is no finding.
tools() { # FOLDER: a PATH of busybox's tools and those that it does not have
    mkdir "$1"
    for tool in $(busybox --list); do
        ln -s "$(command -v busybox)" "$1/$tool"
    done
    for tool in jq zstd openssl; do
        ln -s "$(command -v $tool)" "$1/$tool"
    done
}
if command -v busybox >answer.txt; then
    tools small
    exit_of 0 env PATH="$PWD/small" busybox sh verify.sh a.repro.tar.zst me.pem
    says 'OK no other files'
    exit_of 0 env PATH="$PWD/small" busybox sh verify.sh good me.pem
    for member in run.json steps/rank0.jsonl; do
        fresh
        printf x >>"bad/$member"
        exit_of 1 env PATH="$PWD/small" busybox sh verify.sh bad me.pem
        says "FAILED: a file is not the one that was signed: $member"
    done
    exit_of 1 env PATH="$PWD/small" busybox sh verify.sh a.repro.tar.zst other.pem
    exit_of 1 env PATH="$PWD/small" busybox sh verify.sh cut.zst me.pem
fi
# Each tool as one that is missing, that does nothing, and that refuses every option.
for tool in tar zstd sha256sum base64 jq openssl cat cmp dd grep head mktemp rm sed tail tr wc xargs; do
    for kind in missing false; do
        rm -rf lacking
        mkdir lacking
        for one in tar zstd sha256sum base64 jq openssl cat cmp dd grep head mktemp rm sed tail tr wc xargs sh env; do
            [ "$one" = "$tool" ] || ln -s "$(command -v "$one")" "lacking/$one"
        done
        if [ $kind = false ]; then
            printf '#!/bin/sh\necho "unrecognized option" >&2\nexit 1\n' >"lacking/$tool"
            chmod +x "lacking/$tool"
        fi
        status=0
        env PATH="$PWD/lacking" /bin/sh verify.sh a.repro.tar.zst me.pem >out.txt 2>err.txt || status=$?
        ! grep -q FAILED out.txt err.txt || { cat err.txt >&2; fail "$tool, $kind: the bundle is called forged"; }
        [ $kind = false ] || [ "$status" = 2 ] || { cat err.txt >&2; fail "$tool, $kind: status $status"; }
        [ "$status" != 0 ] || [ "$tool" = grep ] || [ "$tool" = rm ] || { cat out.txt >&2; fail "$tool, $kind: it is verified without it"; }
    done
done
