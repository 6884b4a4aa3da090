#!/bin/sh
# Print the key of the dependency sysroot: a digest of all that decides its bytes. Same key, same sysroot. RP_GCC is the
# compiler, and its machine is the one that is built for.
set -eu
cd "$(dirname "$0")"
gcc=${RP_GCC:-gcc}
command -v "$gcc" >/dev/null || { echo "no compiler '$gcc': run env/setup.sh ${RP_SETUP:-build}" >&2; exit 1; }
target=$("$gcc" -dumpmachine)
machine=${target%%-*} tools='' headers=linux-libc-dev
if [ "$machine" != "$(uname -m)" ]; then
    tools=$target- headers=linux-libc-dev-$(echo "$machine" | sed 's/aarch64/arm64/')-cross
fi
[ "$machine" != x86_64 ] || command -v nasm >/dev/null || { echo "no assembler nasm: run env/setup.sh build" >&2; exit 1; }
{
    cat "${DEPS_LOCK:-deps.lock}" build-deps.sh musl.specs repro-cc
    "$gcc" -dumpfullversion -dumpmachine
    "$gcc" --version | sed 1q
    "${tools}ld" --version | sed 1q
    [ "$machine" != x86_64 ] || nasm -v | cut -d' ' -f1-3
    dpkg-query -W -f '${Version}\n' "$headers" 2>/dev/null || echo "no $headers"
} | sha256sum | cut -c1-16
