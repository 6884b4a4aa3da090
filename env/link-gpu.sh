#!/bin/bash
# Link repro-gpu so that it starts with any glibc from 2.28 on, whatever glibc it is built with.
#
#   env/link-gpu.sh OUT OBJECT|ARCHIVE...
#
# The linker takes the version of a symbol from the library it links with, which here would be this machine's newest. So it links
# with stubs: empty libraries that have each symbol in the newest version that is not above the limit. A symbol that came
# later breaks the build and not its user. What the program needs is found by linking it once without libraries; calls from
# functions that the linker throws away do not count.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
limit=2.28
out=$1
shift
cc=${RP_GCC:-gcc}
target=$("$cc" -dumpmachine)
case ${target%%-*} in
aarch64) loader=/lib/ld-linux-aarch64.so.1 ;;
*) loader=/lib64/ld-linux-x86-64.so.2 ;;
esac
tools= # the prefix of binutils
[ "${target%%-*}" = "$(uname -m)" ] || tools=$target-
tmp=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

"$cc" -c "$here/gpu/start.S" -o "$tmp/start.o"
"$cc" -O2 -fPIE -ffunction-sections -c "$here/gpu/init.c" -o "$tmp/init.o"
"$cc" -r -nostdlib -Wl,--gc-sections,-e,_start -o "$tmp/all.o" "$tmp/start.o" "$tmp/init.o" "$@" "$("$cc" -print-libgcc-file-name)"

# Undefined symbols that a relocation of what is left names (ld -r --gc-sections keeps those of dropped functions), and
# every symbol of glibc with its versions.
"${tools}readelf" -rW "$tmp/all.o" | awk '$3 ~ /^R_(X86_64|AARCH64)_/ {print $5}' | sort -u >"$tmp/named"
"${tools}nm" -u "$tmp/all.o" | awk '{print $NF, $1}' | sort -u | join - "$tmp/named" >"$tmp/needed" # NAME U, or w: may stay undefined
libraries="libc.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6 ${loader##*/}"
for library in $libraries; do
    file=$("$cc" -print-file-name="$library")
    [ "$file" != "$library" ] || file=$loader # it lies where the ABI says
    [ -e "$file" ] || { echo "link-gpu: no $library beside $cc: repro-gpu is built on a machine with glibc" >&2 && exit 1; }
    "${tools}readelf" --dyn-syms -W "$file" | awk -v library="$library" '$7 != "UND" && $8 ~ /@/ {
        name = $8; version = $8; sub(/@.*/, "", name); sub(/.*@/, "", version)
        if (version ~ /^GLIBC_[0-9.]+$/) print name, substr(version, 7), $4 == "OBJECT" ? $3 : 0, library}'
done >"$tmp/exported"

# NAME VERSION SIZE (0: a function), the loader's own symbols apart from all others, which are taken for libc's: only the list of
# libraries to load tells where a symbol is, and it has them all.
awk -v limit="$limit" '
    function number(v, p) { split(v, p, "."); return p[1] * 1000000 + p[2] * 1000 + p[3] }
    NR == FNR {
        if (number($2) <= number(limit) && number($2) > number(best[$1])) { best[$1] = $2; size[$1] = $3; from[$1] = $4 }
        some[$1] = $2
        next
    }
    $1 in best { print $1, best[$1], size[$1], from[$1] ~ /^ld-/ ? "loader" : "libc"; next }
    $1 in some { print "link-gpu: " $1 " came with glibc " some[$1] ", later than " limit > "/dev/stderr"; bad = 1; next }
    $2 == "w" || $1 ~ /^(_GLOBAL_OFFSET_TABLE_|__dso_handle|__(pre)?init_array_(start|end))$/ { next }
    { print "link-gpu: nothing has " $1 > "/dev/stderr"; bad = 1 }
    END { exit bad }' "$tmp/exported" "$tmp/needed" >"$tmp/picked"

stub() { # SONAME WHICH
    awk -v which="$2" '
        $4 == which && $3 == 0 { printf ".text\n.globl %s\n.type %s, @function\n%s: ret\n", $1, $1, $1 }
        $4 == which && $3 > 0 { printf ".bss\n.globl %s\n.type %s, @object\n.size %s, %d\n%s: .zero %d\n", $1, $1, $1, $3, $1, $3 }
        END { print ".section .note.GNU-stack,\"\",@progbits" }' "$tmp/picked" >"$tmp/stub.s"
    awk -v which="$2" '$4 == which {list[$2] = list[$2] " " $1 ";"}
        END {for (v in list) print "GLIBC_" v " {" list[v] " };"}' "$tmp/picked" | sort >"$tmp/stub.map"
    [ -s "$tmp/stub.map" ] || echo '{ local: *; };' >"$tmp/stub.map"
    "$cc" -shared -nostdlib -Wl,-soname,"$1",--build-id=none -Wl,--version-script,"$tmp/stub.map" -o "$tmp/$1" "$tmp/stub.s"
}
for library in $libraries; do
    case $library in
    libc.so.6) stub "$library" libc ;;
    ld-*) stub "$library" loader ;;
    *) stub "$library" none ;;
    esac
done

file() { "$cc" -print-file-name="$1"; }
"$cc" -pie -nostdlib -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack,--build-id=none,--dynamic-linker="$loader" \
    -o "$tmp/program" "$tmp/start.o" "$tmp/init.o" "$(file crtbeginS.o)" "$@" -lgcc -Wl,--no-as-needed \
    "$tmp/libpthread.so.0" "$tmp/libdl.so.2" "$tmp/librt.so.1" "$tmp/libm.so.6" "$tmp/libc.so.6" "$tmp/${loader##*/}" \
    "$(file crtendS.o)"
"${tools}strip" "$tmp/program"
newest=$("${tools}readelf" -VW "$tmp/program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" "$limit" | sort -V | tail -n 1)" = "$limit" ] ||
    { echo "link-gpu: $out would need glibc $newest, more than $limit" >&2 && exit 1; }
mv "$tmp/program" "$out"
