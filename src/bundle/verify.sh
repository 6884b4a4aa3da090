#!/bin/sh
# Checks a bundle with stock tools only: tar, zstd, sha256sum, base64, jq, openssl 3 (and cat, grep, head, mktemp, rm, sed, tail, tr, wc);
# where signify or minisign is installed, with that too.
#
#   sh verify.sh BUNDLE.repro.tar.zst [PUBLIC_KEY.pem]
#   sh verify.sh DIRECTORY [PUBLIC_KEY.pem]              an unpacked bundle
#   sh verify.sh                                         the unpacked bundle in which this script is
#
# The form of the archive first: its size is bounded, and it holds plain files only. Then the signature, over the exact bytes; then the
# digest of every file; then the absence of other files. Time stamps are checked if TSA_CA in the environment names a PEM file with the
# root certificate of their authority. No figure is recomputed: `repro verify` does that.
# Without PUBLIC_KEY.pem the key inside the bundle is used: that shows that nothing was changed after signing, not who signed.
# This script came with the bundle. Read it, or take it from a bundle that you made, before you believe what it prints.
set -eu
LC_ALL=C
export LC_ALL

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for tool in tar zstd sha256sum base64 jq openssl; do
    command -v "$tool" >/dev/null || fail "this script needs $tool"
done
if [ $# = 0 ]; then
    case $0 in */*) set -- "${0%/*}" ;; *) set -- . ;; esac
    [ -f "$1/statement.dsse.json" ] || set --
fi
[ $# = 1 ] || [ $# = 2 ] || fail "usage: sh verify.sh BUNDLE [PUBLIC_KEY.pem]"
bundle=$1
key=${2-}
[ -z "$key" ] || openssl pkey -pubin -in "$key" -noout 2>/dev/null || fail "'$key' cannot be read as a public key (PEM)"
[ -z "${TSA_CA-}" ] || openssl x509 -in "$TSA_CA" -noout 2>/dev/null || fail "TSA_CA: '$TSA_CA' cannot be read as a certificate (PEM)"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# One frame, nothing before or after it, with at most 100 times its size and 4 MiB of content.
unpack_frame() {
    [ -f "$bundle" ] || fail "bundle '$bundle' does not exist"
    cat <"$bundle" >"$tmp/zst"
    frames=$(zstd -l -- "$tmp/zst" 2>/dev/null | sed -n '2s/^ *\([0-9]*\)  *\([0-9]*\) .*/\1 \2/p')
    [ "$frames" = "1 0" ] || fail "'$bundle' is not one whole zstd frame"
    most=$(($(wc -c <"$tmp/zst") * 100 + 4194304))
    { zstd -dcq <"$tmp/zst" 2>/dev/null || : >"$tmp/damaged"; } | head -c $((most + 1)) >"$tmp/tar"
    size=$(($(wc -c <"$tmp/tar")))
    [ "$size" -le "$most" ] || fail "'$bundle' unpacks to more than 100 times its size"
    [ ! -e "$tmp/damaged" ] || fail "'$bundle' is not a complete zstd file"
}

# Header by header: plain files with plain names, no extensions of other kinds of tar, and nothing between or after them. A header with @ for
# each zero byte:   name 100 | mode 8 | uid 8 | gid 8 | size 12 | time 12 | sum 8 | type | link 100 | "ustar" @ "00" | 247 of @
at_signs() { printf "%0$1d" 0 | tr 0 @; }
check_archive() {
    at=0 members=0
    links=$(at_signs 100) rest=$(at_signs 247)
    : >"$tmp/names"
    while [ $((at + 1024)) -lt "$size" ] && [ "$members" -lt 1000 ]; do
        header=$(tail -c +$((at + 1)) "$tmp/tar" | head -c 512 | tr '@\000' '!@')
        name=${header%%@*}
        case $name in '' | /* | .* | *..* | *//* | */ | *[!A-Za-z0-9._/]*) fail "the archive has a member with a name that no bundle has" ;; esac
        [ ${#name} -lt 100 ] || fail "the archive has a member with a name that no bundle has"
        head=$name$(at_signs $((100 - ${#name})))0000644@0000000@0000000@
        bytes=${header#"$head"}
        bytes=${bytes%%@*}
        case $header in
        "$head$bytes@00000000000@"??????"@ 0${links}ustar@00$rest") ;;
        *) fail "'$name' is not a plain file as a bundle has them" ;;
        esac
        case $bytes in ???????????) ;; *) fail "'$name' has no size" ;; esac
        case $bytes in *[!0-7]*) fail "'$name' has no size" ;; esac
        at=$((at + 512 + (0$bytes + 511) / 512 * 512))
        members=$((members + 1))
        printf '%s\n' "$name" >>"$tmp/names"
    done
    [ $((at + 1024)) = "$size" ] && [ "$(tail -c 1024 "$tmp/tar" | tr -d '\000' | wc -c)" -eq 0 ] ||
        fail "the archive is not as large as its members need"
}

if [ -d "$bundle" ]; then
    dir=$bundle
    (cd "$dir" && tar -cf - .) >"$tmp/tar" || fail "cannot read '$bundle'"
    tar -tvf "$tmp/tar" >"$tmp/list"
    tar -tf "$tmp/tar" >"$tmp/names"
    [ "$(jq -R 'select(test("^[-d]") | not)' "$tmp/list")" = "" ] || fail "the bundle holds something that is not a plain file"
else
    dir=$tmp/files
    unpack_frame
    check_archive
    mkdir "$dir"
    tar -xf "$tmp/tar" -C "$dir" --no-same-owner || fail "'$bundle' cannot be unpacked"
fi

# An envelope: its payload, in $tmp/payload, and the signature over PAE(type, payload) by that key. Nothing of it is believed before.
type=application/vnd.in-toto+json
check_envelope() { # FILE KEY
    jq -e --arg type "$type" '.payloadType == $type and (.signatures | length) == 1' "$1" >/dev/null ||
        fail "${1##*/} is not a DSSE envelope of type $type with one signature"
    jq -j '.payload' "$1" | base64 -d >"$tmp/payload" || fail "the payload is not base64"
    jq -j '.signatures[0].sig' "$1" | base64 -d >"$tmp/sig" || fail "the signature is not base64"
    printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(wc -c <"$tmp/payload")" >"$tmp/pae"
    cat "$tmp/payload" >>"$tmp/pae"
    openssl pkeyutl -verify -pubin -inkey "$2" -rawin -in "$tmp/pae" -sigfile "$tmp/sig" >/dev/null 2>&1 ||
        fail "the signature is not by the key in '$2'"
    openssl pkey -pubin -in "$2" -outform DER -out "$tmp/der"
    print=$(sha256sum <"$tmp/der")
    print=SHA256:${print%% *}
}
[ -f "$dir/statement.dsse.json" ] || fail "statement.dsse.json is missing"

# Other people's signatures: each is about statement.dsse.json, by the key beside it, and says nothing about who the author is.
sum=$(sha256sum <"$dir/statement.dsse.json")
n=0
while [ -f "$dir/signatures/$n.dsse.json" ]; do
    check_envelope "$dir/signatures/$n.dsse.json" "$dir/signatures/$n.pem"
    jq -e --arg sum "${sum%% *}" '.predicateType == "urn:repro:signature:1" and (.subject | length) == 1
            and .subject[0] == {"name": "statement.dsse.json", "digest": {"sha256": $sum}}' "$tmp/payload" >/dev/null ||
        fail "signatures/$n.dsse.json is not about this bundle"
    echo "OK countersigned by $print"
    jq -r '.predicate | "   as \(.role) at \(.at): \(.note)" | gsub("[^ -~]"; "?")' "$tmp/payload"
    n=$((n + 1))
done

# Time stamps: an authority's word, unless there is its certificate; that is checked for the time of the token, as GNU date reads it.
stamps=0
while [ -f "$dir/timestamps/$stamps.tsr" ]; do
    stamp=$dir/timestamps/$stamps.tsr
    { # of the token alone: the status around it is not signed
        openssl ts -reply -in "$stamp" -token_out -out "$tmp/token" && openssl ts -reply -in "$tmp/token" -token_in -text >"$tmp/stamp"
    } 2>/dev/null || fail "timestamps/$stamps.tsr is not a time stamp"
    when=$(sed -n 's/^Time stamp: //p' "$tmp/stamp" | tr -c ' -~\n' '?' | head -n 1)
    if [ -n "${TSA_CA-}" ]; then
        openssl ts -verify -in "$stamp" -data "$dir/statement.dsse.json" -CAfile "$TSA_CA" -attime "$(date -u -d "$when" +%s)" >/dev/null 2>&1 ||
            fail "timestamps/$stamps.tsr is not about this bundle, or not by an authority of '$TSA_CA'"
        echo "OK time-stamped $when"
    else
        echo "NOT CHECKED timestamps/$stamps.tsr says $when; TSA_CA=FILE names its authority's certificate" >&2
    fi
    stamps=$((stamps + 1))
done

# The author's.
if [ -z "$key" ]; then
    key=$dir/key.pem
    echo "WARNING: using the key inside the bundle; give the public key of the signer as second argument to know who signed" >&2
fi
check_envelope "$dir/statement.dsse.json" "$key"
echo "OK signature by $print"

# The statement: what was signed.
jq -e '._type == "https://in-toto.io/Statement/v1" and .predicateType == "urn:repro:run:4"
       and (.subject | length) > 0
       and all(.subject[]; (.name | test("^[A-Za-z0-9][A-Za-z0-9._/]*$") and (contains("..") | not)) and (.digest.sha256 | test("^[0-9a-f]{64}$")))' \
    "$tmp/payload" >/dev/null || fail "the payload is not a statement about a run"
jq -r '.subject[] | .digest.sha256 + "  " + .name' "$tmp/payload" >"$tmp/sums"
(cd "$dir" && sha256sum -c --strict --quiet "$tmp/sums") || fail "a file is missing or not the one that was signed"
echo "OK digest of $(wc -l <"$tmp/sums") files"
jq -e -n --argjson n "$n" --argjson stamps "$stamps" --slurpfile statement "$tmp/payload" --rawfile names "$tmp/names" \
    '($names | split("\n") | map(ltrimstr("./") | select(. != "" and (endswith("/") | not))) | sort)
     == ([$statement[0].subject[].name, "statement.dsse.json", (range($n) | "signatures/\(.).dsse.json", "signatures/\(.).pem"),
         (range($stamps) | "timestamps/\(.).tsr")] | sort)' >/dev/null ||
    fail "the bundle holds files that were not signed, or a file twice"
echo "OK no other files"

# The same key signed SHA256SUMS in the forms of signify and minisign; their public key is a number, which stands in the signature, and the key.
for form in sig minisig; do
    signature=$dir/SHA256SUMS.$form
    [ -f "$signature" ] || continue # an older bundle
    tool=minisign
    if [ "$form" = sig ]; then
        tool=signify-openbsd # its name in Debian, where signify is another program
        command -v "$tool" >/dev/null || tool=signify
        "$tool" -h 2>&1 | grep -q -e '-p pubkey' || continue
    fi
    command -v "$tool" >/dev/null || continue
    {
        echo "untrusted comment: from $key" | tr -c ' -~\n' '?'
        { printf Ed && sed -n 2p "$signature" | base64 -d | tail -c +3 | head -c 8 && tail -c 32 "$tmp/der"; } | base64
    } >"$tmp/$form.pub"
    "$tool" -V -q -p "$tmp/$form.pub" -m "$dir/SHA256SUMS" -x "$signature" >/dev/null 2>&1 || fail "$tool does not accept $signature"
    echo "OK signature by the same key, $tool says"
done
jq -r '.predicate | "signed, not recomputed: status \(.status), \(.throughput.value) \(.throughput.unit), last loss \(.loss_last.hex); the signature "
    + "and the digests were checked, the figures are the signer\u0027s word"
    | gsub("[^ -~]"; "?")' "$tmp/payload" # a terminal obeys nothing of it
