#!/bin/sh
# Print the key of the dependency sysroot: a digest of all that decides its bytes. Same key, same sysroot.
set -eu
cd "$(dirname "$0")"
gcc=${RP_GCC:-gcc}
command -v "$gcc" >/dev/null || { echo "no compiler '$gcc': run env/setup.sh build" >&2; exit 1; }
command -v nasm >/dev/null || { echo "no assembler nasm: run env/setup.sh build" >&2; exit 1; }
{
    cat "${DEPS_LOCK:-deps.lock}" build-deps.sh musl.specs repro-cc
    "$gcc" -dumpfullversion -dumpmachine
    "$gcc" --version | sed 1q
    ld --version | sed 1q
    nasm -v | cut -d' ' -f1-3
    dpkg-query -W -f '${Version}\n' linux-libc-dev 2>/dev/null || echo no linux-libc-dev
} | sha256sum | cut -c1-16
