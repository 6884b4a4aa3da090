#!/bin/bash
# Fetch what repro-gpu needs of CUDA: headers, libcudart_static.a and libnvrtc, from the wheels of env/cuda.lock. No CUDA installation.
#
#   env/fetch-cuda.sh DEPS_DIR          make DEPS_DIR/cuda-KEY: include/ lib/ lib/aarch64/ sources.txt LICENSES.txt
#   env/fetch-cuda.sh --dir DEPS_DIR    print that directory and do nothing
#
# Wheels come from DEPS_DIR/cache, from $DEPS_MIRROR (a directory), or through pip from the index it is configured for; each is
# believed only with the lock's digest. OFFLINE=1 refuses to use the network. The directory gets its name by rename: what has its
# name is whole. KEY covers the lock, this file and the header added.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lock=$here/cuda.lock
key=$(cat "$lock" "$here/fetch-cuda.sh" "$here/gpu/host_defines.h" | sha256sum | cut -c1-16)
if [ "$1" = --dir ]; then
    echo "$(realpath -m "$2")/cuda-$key"
    exit 0
fi
mkdir -p "$1/cache"
deps=$(cd "$1" && pwd)
out=$deps/cuda-$key
[ ! -d "$out" ] || exit 0
exec 9>"$deps/.lock-cuda"
flock 9
[ ! -d "$out" ] || exit 0
tmp=$(mktemp -d "$deps/.cuda.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

die() {
    echo "fetch-cuda: $*" >&2
    exit 1
}

find_wheel() { # DIRECTORY SHA256: the path of the file with that digest
    local f
    for f in "$1"/*.whl; do
        if [ -f "$f" ] && [ "$(sha256sum <"$f" | cut -d' ' -f1)" = "$2" ]; then
            echo "$f"
            return 0
        fi
    done
    return 1
}

# Debian's python comes without pip: a virtual environment brings one.
download() { # REQUIREMENT MACHINE: into $tmp/got
    local python="python3"
    [ -z "${OFFLINE:-}" ] || die "a wheel of $lock is missing in $deps/cache and OFFLINE is set"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$tmp/venv" >"$tmp/log" 2>&1 ||
            die "no pip here: run make setup CUDA=1, or put the wheels of $lock into a directory and name it in DEPS_MIRROR"
        python=$tmp/venv/bin/python3
    fi
    echo "${1%% *} --hash${1##*--hash}" >"$tmp/requirement" # without a marker, which is about the machine that pip runs on
    "$python" -m pip --disable-pip-version-check --no-input --retries 2 --timeout 20 download --quiet --no-deps --require-hashes \
        --only-binary :all: --platform "manylinux2014_$2" -r "$tmp/requirement" -d "$tmp/got" >"$tmp/log" 2>&1 || {
        sed 's/^/  /' "$tmp/log" >&2
        die "cannot download ${1%% *}: is the network reachable? (else name a directory with its file in DEPS_MIRROR)"
    }
}

command -v python3 >/dev/null || die "no python3 here to open wheels with: run make setup CUDA=1"
mkdir -p "$tmp/out/include/crt" "$tmp/out/lib/aarch64"
cp "$here/gpu/host_defines.h" "$tmp/out/include/crt/"
while read -r requirement; do
    sha=${requirement##*sha256:}
    name=${requirement%%==*}
    version=${requirement#*==}
    version=${version%% *}
    machine=x86_64 lib=lib sources=sources.txt
    case $requirement in *'"aarch64"'*) machine=aarch64 lib=lib/aarch64 sources=aarch64.txt ;; esac
    if ! wheel=$(find_wheel "$deps/cache" "$sha"); then
        if [ -z "${DEPS_MIRROR:-}" ] || ! wheel=$(find_wheel "$DEPS_MIRROR" "$sha"); then
            download "$requirement" $machine
            wheel=$(find_wheel "$tmp/got" "$sha") ||
                die "$name $version has another digest than $lock says (expected sha256 $sha): refusing it"
        fi
        cp "$wheel" "$tmp/new" && mv "$tmp/new" "$deps/cache/${wheel##*/}"
        wheel=$deps/cache/${wheel##*/}
    fi
    python3 -m zipfile -e "$wheel" "$tmp/$name"
    [ $machine = aarch64 ] || cp -r "$tmp/$name"/nvidia/*/include/. "$tmp/out/include/"
    for f in "$tmp/$name"/nvidia/*/lib/{libcudart_static.a,libnvrtc.so.12,libnvrtc-builtins.so.*}; do
        [ ! -f "$f" ] || mv "$f" "$tmp/out/$lib/"
    done
    echo "$name $version $sha ${wheel##*/}" >>"$tmp/out/$sources"
    rm -rf "$tmp/$name"/nvidia # libnvrtc comes twice, 100 MB each
    [ $machine = aarch64 ] || { printf '\n==== %s ====\n\n' "$name" && cat "$tmp/$name"/*.dist-info/licenses/*; } >>"$tmp/out/LICENSES.txt"
    rm -rf "${tmp:?}/$name"
done < <(grep -v '^#' "$lock")
# What a program for 64-bit Arm is built from: its library in the place of this machine's.
{ grep -v '^nvidia-cuda-runtime-' "$tmp/out/sources.txt" && cat "$tmp/out/aarch64.txt"; } | sort >"$tmp/both" && mv "$tmp/both" "$tmp/out/aarch64.txt"
for f in lib/libcudart_static.a lib/aarch64/libcudart_static.a lib/libnvrtc.so.12 include/cuda_runtime_api.h include/nvml.h include/nvrtc.h; do
    [ -f "$tmp/out/$f" ] || die "there is no $f in the wheels of $lock"
done
mv "$tmp/out" "$out"
echo "  CUDA    $out"
