#!/bin/bash
# Fetch the libraries of 64-bit Arm from Debian's archive, for the program that the tests run in an emulator: compiling the dependencies
# of the static program once more takes minutes.
#
#   env/fetch-arm64.sh DEPS_DIR          make DEPS_DIR/arm64-KEY: usr/include usr/lib, what a compiler and qemu take for a sysroot
#   env/fetch-arm64.sh --dir DEPS_DIR    print that directory and do nothing
#   env/fetch-arm64.sh --package NAME DIR DEPS_DIR    the files of one package into DIR, unless it exists (tests/bench/neon.sh)
#
# apt gets lists and packages into a directory of its own: nothing is installed, and the machine has no foreign architecture afterwards.
# Its keys are this machine's. OFFLINE=1 refuses to use the network. The directory gets its name by rename: what has its name is whole.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
packages="libgit2-dev libhwloc-dev libjpeg62-turbo-dev libarchive-dev libssl-dev libjansson-dev libyaml-dev libzstd-dev zlib1g-dev libc6-dev"
key=$(sha256sum <"$here/fetch-arm64.sh" | cut -c1-16)
if [ "$1" = --dir ]; then
    echo "$(realpath -m "$2")/arm64-$key"
    exit 0
fi
name=
if [ "$1" = --package ]; then
    name=$2
    mkdir -p "$(dirname "$3")"
    out=$(realpath -m "$3")
    shift 3
fi
mkdir -p "$1"
deps=$(cd "$1" && pwd)
[ -n "$name" ] || out=$deps/arm64-$key
[ ! -d "$out" ] || exit 0
exec 9>"$deps/.lock-arm64"
flock 9
[ ! -d "$out" ] || exit 0

die() {
    echo "fetch-arm64: $*" >&2
    exit 1
}

[ -z "${OFFLINE:-}" ] || die "OFFLINE is set, and $out does not exist"
command -v apt-get >/dev/null || die "no apt-get here: the libraries of 64-bit Arm come from Debian's archive"
tmp=$(mktemp -d "$deps/.arm64.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$tmp/state/lists/partial" "$tmp/cache/archives/partial" "$tmp/out/usr/lib"
: >"$tmp/state/status" # nothing is installed, so that every package that is needed is fetched
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$tmp/state" -o Dir::State::status="$tmp/state/status" \
        -o Dir::Cache="$tmp/cache" -o APT::Install-Recommends=false -o Acquire::Languages=none -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
        -o APT::Sandbox::User="$(id -un)" "$@" </dev/null >"$tmp/log" 2>&1 || {
        sed 's/^/  /' "$tmp/log" >&2
        die "apt-get $1 failed: is Debian's archive reachable?"
    }
}
apt update
if [ -n "$name" ]; then
    (cd "$tmp/cache" && apt download "$name" && dpkg-deb -x ./*.deb "$tmp/package")
    mv "$tmp/package" "$out"
    exit 0
fi
# shellcheck disable=SC2086 # several words
apt install -d -y $packages
ln -s usr/lib "$tmp/out/lib"
for deb in "$tmp"/cache/archives/*.deb; do
    case ${deb##*/} in
    libperl* | lib[aht]*san* | libdb* | libgdbm*) ;; # of tools
    lib* | zlib* | linux-libc-dev*) dpkg-deb --fsys-tarfile "$deb" | tar xf - -C "$tmp/out" --keep-directory-symlink --no-same-owner ;;
    esac
done
rm -rf "$tmp"/out/usr/{share,bin,sbin} "$tmp"/out/{etc,var}
# Links that are absolute would lead to this machine's files.
find "$tmp/out/usr/lib" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn "$(realpath -m --relative-to="${link%/*}" "$tmp/out$(readlink "$link")")" "$link"
done
[ -e "$tmp/out/lib/ld-linux-aarch64.so.1" ] || die "the packages have no ld-linux-aarch64.so.1"
mv "$tmp/out" "$out"
echo "  ARM64   $out"
