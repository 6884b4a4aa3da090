#!/bin/sh
# Checks a bundle with stock tools only: tar, zstd, sha256sum, base64, jq 1.6, openssl 3 (and cat, cmp, dd, grep, head, mktemp, rm, sed, tail,
# tr, wc, xargs, which may be those of busybox); where signify or minisign is installed, with that too. What a tool here cannot do is
# found by examples before the bundle is read: it is no finding about the bundle, and the exit status is 2. Exit status 1: FAILED.
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
unset CDPATH TAR_OPTIONS # of the caller: cd would go elsewhere, tar would do something else

# One line that a terminal does not obey: operands are names that somebody else may have chosen, and some echos interpret backslashes.
say() {
    printf '%s' "$*" | tr -c ' -~' '?'
    printf '\n'
}

fail() {
    say "FAILED: $*" >&2
    exit 1
}

needs() {
    printf 'NOT CHECKED: this script needs %s\n' "$*" >&2
    exit 2
}

for tool in tar zstd sha256sum base64 jq openssl cat cmp dd grep head mktemp rm sed tail tr wc xargs; do
    command -v "$tool" >/dev/null || needs "$tool"
done
if [ $# = 0 ]; then
    case $0 in */*) set -- "${0%/*}" ;; *) set -- . ;; esac
    [ -f "$1/statement.dsse.json" ] || set --
fi
[ $# = 1 ] || [ $# = 2 ] || fail "usage: sh verify.sh BUNDLE [PUBLIC_KEY.pem]"
bundle=$1
key=${2-}
case $bundle in -*) bundle=./$bundle ;; esac
case $key in -*) key=./$key ;; esac

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# Examples of what is used below. The signature is the second of RFC 8032, 7.1, over the letter r.
try_tools() (
    cd "$tmp"
    printf r >r
    [ "$(sha256sum <r)" = "454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1  -" ] &&
        [ "$(printf 'r\n' | xargs sha256sum)" = "454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1  r" ] || needs "sha256sum"
    echo MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= >public
    base64 -d <public >pub 2>/dev/null && echo kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA== | base64 -d >sig && [ "$(($(wc -c <pub) + $(wc -c <sig)))" = 108 ] ||
        needs "base64 -d"
    [ "$(printf 'a@\000b' | tr '@\000' '!@')" = 'a!@b' ] && [ "$(printf abcd | tail -c +2 | head -c 2)" = bc ] || needs "head -c, tail -c and tr"
    [ "$(printf 'a\001b' | tr -c ' -~' '?')" = 'a?b' ] || needs "tr -c"
    printf 'abcdefgh' >abc
    exec 3<abc
    [ "$(dd bs=2 count=1 <&3 2>/dev/null)" = ab ] && [ "$(dd bs=2 skip=1 count=1 <&3 2>/dev/null)" = ef ] || needs "dd"
    tar -cf r.tar r && mkdir try && tar -x -o -f r.tar -C try 2>/dev/null && cmp -s r try/r || needs "tar -x -o"
    zstd -q -c r >r.zst 2>/dev/null && [ "$(frames_of r.zst)" = "1 0" ] && [ "$(zstd -dcq <r.zst)" = r ] || needs "zstd with -l"
    jq -e -n --rawfile r r '($r | ltrimstr("x")) == "r" and ($r | test("^[a-z]$"))' >/dev/null 2>&1 || needs "jq 1.6 or later"
    { echo "-----BEGIN PUBLIC KEY-----" && cat public && echo "-----END PUBLIC KEY-----"; } >pem
    openssl pkeyutl -verify -pubin -inkey pem -rawin -in r -sigfile sig >/dev/null 2>&1 || needs "openssl 3, whose pkeyutl verifies Ed25519"
    [ -z "${TSA_CA-}" ] || [ "$(seconds_of "Nov  7 18:00:01.5 2026 GMT")" = 1794074401 ] || needs "a jq that reads dates, for TSA_CA"
    rm -r r r.tar r.zst abc public pub sig pem try
)
# "Nov  7 18:00:01.5 2026 GMT", as openssl prints it, in seconds since 1970
seconds_of() {
    jq -n -r --arg at "$1" '$at | sub("[.][0-9]+"; "") | strptime("%b %d %H:%M:%S %Y GMT") | mktime' 2>/dev/null || :
}
frames_of() { # a .zst: how many frames, and how many that are skipped
    zstd -l -- "$1" 2>/dev/null | sed -n '2s/^ *\([0-9]*\)  *\([0-9]*\) .*/\1 \2/p'
}
try_tools || exit
[ -z "$key" ] || openssl pkey -pubin -in "$key" -noout 2>/dev/null || fail "'$key' cannot be read as a public key (PEM)"
[ -z "${TSA_CA-}" ] || openssl x509 -in "$TSA_CA" -noout 2>/dev/null || fail "TSA_CA: '$TSA_CA' cannot be read as a certificate (PEM)"

# One frame, nothing before or after it, with at most 100 times its size and 4 MiB of content.
unpack_frame() {
    [ -f "$bundle" ] || fail "bundle '$bundle' does not exist"
    cat <"$bundle" >"$tmp/zst"
    [ "$(frames_of "$tmp/zst")" = "1 0" ] || fail "'$bundle' is not one whole zstd frame"
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
    at=0 members=0 skip=0
    links=$(at_signs 100) rest=$(at_signs 247)
    : >"$tmp/names"
    exec 3<"$tmp/tar" # every dd goes on where the last one ended
    while [ $((at + 1024)) -lt "$size" ] && [ "$members" -lt 3872 ]; do # RP_BUNDLE_MEMBERS_MAX
        header=$(dd bs=512 skip="$skip" count=1 <&3 2>/dev/null | tr '@\000' '!@')
        name=${header%%@*}
        case $name in '' | /* | .* | *..* | *//* | */ | *[!A-Za-z0-9._/]*) fail "the archive has a member with a name that no bundle has" ;; esac
        after=${header#"$name"}
        zeros=${after%%[!@]*}
        [ ${#name} -lt 100 ] && [ $((${#name} + ${#zeros})) = 100 ] || fail "the archive has a member with a name that no bundle has"
        after=${after#"$zeros"}
        head=0000644@0000000@0000000@
        bytes=${after#"$head"}
        bytes=${bytes%%@*}
        case $after in
        "$head$bytes@00000000000@"??????"@ 0${links}ustar@00$rest") ;;
        *) fail "'$name' is not a plain file as a bundle has them" ;;
        esac
        case $bytes in ???????????) ;; *) fail "'$name' has no size" ;; esac
        case $bytes in *[!0-7]*) fail "'$name' has no size" ;; esac
        skip=$(((0$bytes + 511) / 512))
        at=$((at + 512 + skip * 512))
        members=$((members + 1))
        printf '%s\n' "$name" >>"$tmp/names"
    done
    exec 3<&-
    [ $((at + 1024)) = "$size" ] && [ "$(tail -c 1024 "$tmp/tar" | tr -d '\000' | wc -c)" -eq 0 ] ||
        fail "the archive is not as large as its members need, or has more of them than any bundle"
}

if [ -d "$bundle" ]; then
    dir=$bundle
    (cd "$dir" && tar -cf - .) >"$tmp/tar" 2>/dev/null || fail "cannot read '$bundle'"
    tar -tvf "$tmp/tar" >"$tmp/list"
    tar -tf "$tmp/tar" >"$tmp/names"
    [ "$(jq -R 'select(test("^[-d]") | not)' "$tmp/list")" = "" ] || fail "the bundle holds something that is not a plain file"
else
    dir=$tmp/files
    unpack_frame
    check_archive
    mkdir "$dir"
    tar -x -o -f "$tmp/tar" -C "$dir" || fail "'$bundle' cannot be unpacked"
fi

# An envelope: its payload, in $tmp/payload, and the signature over PAE(type, payload) by that key. Nothing of it is believed before.
type=application/vnd.in-toto+json
check_envelope() { # FILE KEY
    jq -e --arg type "$type" '.payloadType == $type and (.signatures | length) == 1' "$1" >/dev/null 2>&1 ||
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

# Time stamps: an authority's word, unless there is its certificate; that is checked for the time of the token.
stamps=0
while [ -f "$dir/timestamps/$stamps.tsr" ]; do
    stamp=$dir/timestamps/$stamps.tsr
    { # of the token alone: the status around it is not signed
        openssl ts -reply -in "$stamp" -token_out -out "$tmp/token" && openssl ts -reply -in "$tmp/token" -token_in -text >"$tmp/stamp"
    } 2>/dev/null || fail "timestamps/$stamps.tsr is not a time stamp"
    when=$(sed -n 's/^Time stamp: //p' "$tmp/stamp" | tr -c ' -~\n' '?' | head -n 1)
    if [ -n "${TSA_CA-}" ]; then
        openssl ts -verify -in "$stamp" -data "$dir/statement.dsse.json" -CAfile "$TSA_CA" -attime "$(seconds_of "$when")" >/dev/null 2>&1 ||
            fail "timestamps/$stamps.tsr is not about this bundle, or not by an authority of '$TSA_CA'"
        say "OK time-stamped $when"
    else
        say "NOT CHECKED timestamps/$stamps.tsr says $when; TSA_CA=FILE names its authority's certificate" >&2
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

differing() { # two lists of digests: the first name where they differ
    jq -n -r --rawfile a "$1" --rawfile b "$2" '[($a | split("\n")), ($b | split("\n"))] | transpose | map(select(.[0] != .[1]))[0][0][66:]'
}

# The statement: what was signed.
jq -e '._type == "https://in-toto.io/Statement/v1" and .predicateType == "urn:repro:run:4"
       and (.subject | length) > 0
       and all(.subject[]; (.name | test("^[A-Za-z0-9][A-Za-z0-9._/]*$") and (contains("..") | not)) and (.digest.sha256 | test("^[0-9a-f]{64}$")))' \
    "$tmp/payload" >/dev/null || fail "the payload is not a statement about a run"
jq -r '.subject[] | .digest.sha256 + "  " + .name' "$tmp/payload" >"$tmp/sums"
jq -r '.subject[].name' "$tmp/payload" >"$tmp/subjects"
(cd "$dir" && xargs sha256sum <"$tmp/subjects") >"$tmp/are" 2>/dev/null || fail "a file that was signed is missing"
cmp -s "$tmp/sums" "$tmp/are" || fail "a file is not the one that was signed: $(differing "$tmp/sums" "$tmp/are")"
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
        say "untrusted comment: from $key"
        { printf Ed && sed -n 2p "$signature" | base64 -d | tail -c +3 | head -c 8 && tail -c 32 "$tmp/der"; } | base64
    } >"$tmp/$form.pub"
    "$tool" -V -q -p "$tmp/$form.pub" -m "$dir/SHA256SUMS" -x "$signature" >/dev/null 2>&1 || fail "$tool does not accept $signature"
    echo "OK signature by the same key, $tool says"
done
jq -r '.predicate | "signed, not recomputed: status \(.status)" + (if .throughput then ", \(.throughput.value) \(.throughput.unit)" else "" end)
    + (if .measured_by | not then ", last loss \(.loss_last.hex)" elif .throughput then ", measured by its own log" else "" end) + "; the signature "
    + "and the digests were checked, the figures are the signer\u0027s word"
    | gsub("[^ -~]"; "?")' "$tmp/payload" # a terminal obeys nothing of it
