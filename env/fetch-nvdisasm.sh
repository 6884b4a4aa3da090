#!/bin/bash
# Fetch nvdisasm for tests/sass from the wheel of env/nvdisasm.lock.
#
#   env/fetch-nvdisasm.sh DEPS_DIR          make DEPS_DIR/nvdisasm-KEY: nvdisasm LICENSE.txt
#   env/fetch-nvdisasm.sh --dir DEPS_DIR    print that directory and do nothing
#
# The wheel comes from where env/fetch-cuda.sh takes its wheels: DEPS_DIR/cache, $DEPS_MIRROR (a directory), or through pip; it is believed only
# with the lock's digest. OFFLINE=1 refuses to use the network. Apart from that script, because its text and its lock are part of the key of what
# the product is built with.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lock=$here/nvdisasm.lock
out=nvdisasm-$(cat "$lock" "$here/fetch-nvdisasm.sh" | sha256sum | cut -c1-16)
if [ "$1" = --dir ]; then
    echo "$(realpath -m "$2")/$out"
    exit 0
fi
mkdir -p "$1/cache"
deps=$(cd "$1" && pwd)
[ ! -d "$deps/$out" ] || exit 0
exec 9>"$deps/.lock-nvdisasm"
flock 9
[ ! -d "$deps/$out" ] || exit 0
tmp=$(mktemp -d "$deps/.nvdisasm.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

die() {
    echo "fetch-nvdisasm: $*" >&2
    exit 1
}

requirement=$(grep -v '^#' "$lock")
sha=${requirement##*sha256:}
find_wheel() { # DIRECTORY: the path of the file with the lock's digest
    local f
    for f in "$1"/*.whl; do
        if [ -f "$f" ] && [ "$(sha256sum <"$f" | cut -d' ' -f1)" = "$sha" ]; then
            echo "$f"
            return 0
        fi
    done
    return 1
}

# Debian's python comes without pip: a virtual environment brings one.
download() { # into $tmp/got
    local python="python3"
    [ -z "${OFFLINE:-}" ] || die "the wheel of $lock is missing in $deps/cache and OFFLINE is set"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$tmp/venv" >"$tmp/log" 2>&1 || die "no pip here: run make setup CUDA=1, or put the wheel of $lock into a directory and name it in DEPS_MIRROR"
        python=$tmp/venv/bin/python3
    fi
    echo "$requirement" >"$tmp/requirement"
    "$python" -m pip --disable-pip-version-check --no-input --retries 2 --timeout 20 download --quiet --no-deps --require-hashes \
        --only-binary :all: --platform manylinux2014_x86_64 -r "$tmp/requirement" -d "$tmp/got" >"$tmp/log" 2>&1 || {
        sed 's/^/  /' "$tmp/log" >&2
        die "cannot download ${requirement%% *}: is the network reachable? (else name a directory with its file in DEPS_MIRROR)"
    }
}

command -v python3 >/dev/null || die "no python3 here to open the wheel with: run make setup CUDA=1"
if ! wheel=$(find_wheel "$deps/cache"); then
    if [ -z "${DEPS_MIRROR:-}" ] || ! wheel=$(find_wheel "$DEPS_MIRROR"); then
        download
        wheel=$(find_wheel "$tmp/got") || die "the wheel has another digest than $lock says: refusing it"
    fi
    cp "$wheel" "$tmp/new" && mv "$tmp/new" "$deps/cache/${wheel##*/}"
    wheel=$deps/cache/${wheel##*/}
fi
python3 -m zipfile -e "$wheel" "$tmp/wheel"
mkdir "$tmp/out"
mv "$tmp"/wheel/nvidia/*/bin/nvdisasm "$tmp/out/" && chmod +x "$tmp/out/nvdisasm"
cat "$tmp"/wheel/*.dist-info/licenses/* >"$tmp/out/LICENSE.txt"
"$tmp/out/nvdisasm" --version >/dev/null || die "nvdisasm does not run here"
mv "$tmp/out" "$deps/$out"
echo "  SASS    $deps/$out"
