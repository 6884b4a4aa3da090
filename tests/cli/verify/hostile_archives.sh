#!/bin/sh
# verify.sh unpacks no more than a bundle can hold, and refuses every archive that is not of the form of a bundle's before it unpacks it.
. "$TEST_DIR/common.inc"
PATH=${STOCK_PATH:-$PATH} # verify.sh is for the jq that people have
need tar zstd sha256sum base64 jq openssl gzip
openssl version | grep -q '^OpenSSL 3' || skip "openssl is not OpenSSL 3"
make_bundle a.repro.tar.zst
"$REPRO" key show | sed -n '3,$p' >me.pem
zstd -dcq <a.repro.tar.zst >a.tar
tar -xf a.tar verify.sh
mkdir tmp
export TMPDIR="$PWD/tmp"

refused() { # NAME FILE: whatever it is, nothing of it is unpacked next to the script or left behind
    exit_of 1 sh verify.sh "$2" me.pem
    echo "$1: $(grep -o 'FAILED: .*' err.txt | sed "s|'$2'|FILE|")"
    grep -q OK out.txt && fail "$1: $(cat out.txt)"
    [ -z "$(ls tmp)" ] || fail "$1: left behind: $(ls tmp)"
}
packed() { # NAME: x.tar as one frame
    zstd -q -f x.tar -o x.zst
    refused "$1" x.zst
}
poked() { # NAME OFFSET BYTES: a.tar with these bytes there
    cp a.tar x.tar
    # shellcheck disable=SC2059 # bytes as octal escapes
    printf "$3" | dd of=x.tar bs=1 seek="$2" conv=notrunc 2>dd.txt
    packed "$1"
}

cp a.tar x.tar
zstd -q -f x.tar -o x.zst # packed by somebody else: the same bundle
exit_of 0 sh verify.sh x.zst me.pem
tail -n 1 out.txt | grep -q '^signed, not recomputed: ' || fail "the last line: $(cat out.txt)"
mkdir good
tar -xf a.tar -C good
exit_of 0 sh -c 'cd good && sh verify.sh'
mv good/statement.dsse.json good/statement.json
exit_of 1 sh -c 'cd good && sh verify.sh'

# A bomb of 200 MiB, where no file may have more than 10: a bundle of its size has at most 5.
head -c 209715200 /dev/zero | zstd -q -19 >bomb.zst
(
    ulimit -f 20480
    refused bomb bomb.zst
) || fail "the bomb was unpacked"
cat a.repro.tar.zst a.repro.tar.zst >two.zst
refused "two frames" two.zst
{ cat a.repro.tar.zst && printf 'more'; } >after.zst
refused "bytes after the frame" after.zst
{ printf '\120\052\115\030\004\000\000\000more' && cat a.repro.tar.zst; } >skipped.zst
refused "a frame that is skipped" skipped.zst
gzip -c a.tar >a.tar.gz
refused "another packer" a.tar.gz
: >empty.zst
refused "an empty file" empty.zst
mkfifo pipe
refused "a pipe" pipe

{ cat a.tar && head -c 512 /dev/zero; } >x.tar
packed "more zeros at the end"
cat a.tar a.tar >x.tar
packed "two archives"
head -c "$(($(wc -c <a.tar) - 1024))" a.tar >x.tar
packed "no end"
{ head -c "$(($(wc -c <a.tar) - 1024))" a.tar && head -c $((512 + ($(wc -c <good/statement.json) + 511) / 512 * 512)) a.tar && head -c 1024 /dev/zero; } >x.tar
zstd -q -f x.tar -o x.zst
exit_of 1 sh verify.sh x.zst me.pem # a member twice: found by the names that were signed
words err.txt FAILED
poked "a directory" 156 5
poked "a link" 156 1
poked "a symbolic link" 156 2
poked "a device" 156 3
poked "an extension of PAX" 156 x
poked "extensions for all members" 156 g
poked "a long name of GNU" 156 L
poked "a sparse file of GNU" 156 S
poked "another type" 156 '\000'
poked "the form of GNU" 257 'ustar  '
poked "a name in two parts" 345 '..'
poked "a target" 157 '/etc/passwd'
poked "a set-user-ID bit" 100 '0004755'
poked "a path upwards" 0 '../statement.json\000'
poked "an absolute path" 0 '/tmp/ent.dsse.json\000'
poked "a hidden name" 0 '.tatement'
poked "a name for a terminal" 0 '\033[2Jment'
poked "an @ for a zero" 19 '@'
poked "a larger member" 124 '00000077777'
poked "a larger member than any" 124 '77777777777'
poked "a smaller member" 124 '00000000001'
poked "a size with a letter" 124 '0000000000x'
poked "a size of another form" 124 '\200\000\000\000'
for format in ustar pax gnu; do
    tar --format=$format -cf x.tar -C good .
    packed "tar's own form $format"
done

# As many members as a bundle of the most ranks and nodes has, and one more.
archive() { # COUNT SIZE: members of SIZE blocks, in the form of a bundle's
    awk -v n="$1" -v blocks="$2" 'BEGIN {
        for (i = 0; i < 256; i++) code[sprintf("%c", i)] = i
        zeros = sprintf("%512s", ""); gsub(" ", "@", zeros)
        for (i = 0; i < n; i++) {
            name = sprintf("steps/rank%d.jsonl", i)
            head = name substr(zeros, 1, 100 - length(name)) "0000644@0000000@0000000@" sprintf("%011o@", blocks * 512) "00000000000@"
            tail = "0" substr(zeros, 1, 100) "ustar@00" substr(zeros, 1, 247)
            text = head tail
            sum = 8 * 32
            for (k = 1; k <= length(text); k++) {
                c = substr(text, k, 1)
                sum += c == "@" ? 0 : code[c]
            }
            printf "%s%06o@ %s", head, sum, tail
            for (k = 0; k < blocks; k++) printf "%s", zeros
        }
        printf "%s%s", zeros, zeros
    }' | tr @ '\000' >x.tar
    zstd -q -f -1 x.tar -o x.zst
}
members() { # WORDS COUNT SIZE
    archive "$2" "$3"
    began=$(date +%s)
    # shellcheck disable=SC2086 # several words
    exit_of 1 ${shell:-sh} verify.sh x.zst me.pem
    says_in "FAILED: $1" err.txt
    # ten seconds alone; a loaded machine took 80; work that grows with the square of the members took minutes alone
    [ $(($(date +%s) - began)) -lt 200 ] || fail "$2 members take $(($(date +%s) - began)) s"
}
most=$(($(sed -n 's/^#define RP_BUNDLE_RANKS_MAX \([0-9]*\).*/\1/p' "$TOP/src/bundle/bundle.h") * 3 +
    $(sed -n 's/^#define RP_BUNDLE_NODES_MAX \([0-9]*\).*/\1/p' "$TOP/src/bundle/bundle.h") * 3 + 32))
members "statement.dsse.json is missing" 1001 0
members "statement.dsse.json is missing" "$most" 1
members "the archive is not as large" $((most + 1)) 0
command -v busybox >answer.txt || exit 0
shell="busybox sh"
[ "${LONG:-0}" != 0 ] || most=1001
members "statement.dsse.json is missing" "$most" 1
