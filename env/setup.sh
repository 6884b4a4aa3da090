#!/bin/bash
# Install the Debian packages that a purpose needs, only those that are missing: a ready machine needs no network.
#
#   env/setup.sh build    the static program
#   env/setup.sh aarch64  both static programs, that of this machine and that for 64-bit Arm (make ARCH=aarch64), and an emulator to try it
#   env/setup.sh cuda     as build, with the GPU worker: pip fetches the wheels
#   env/setup.sh test     and the tests: native libraries for the sanitizer builds, valgrind, stock tools of verify.sh, on x86-64 a
#                         compiler for 64-bit Arm and an emulator; if they can be had, what makes and tries container images, a browser
#                         for pages, and launchers (those tests are skipped without)
#   env/setup.sh lint     and the linters
#   env/setup.sh bench    and what PyTorch, MKL and OpenBLAS need: pip, the allocator that serves PyTorch best, and the
#                         compiler of torch.compile
set -euo pipefail

want_build="gcc libc6-dev linux-libc-dev binutils make nasm git perl patch bzip2 xz-utils ca-certificates"
for_aarch64="gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu linux-libc-dev-arm64-cross qemu-user-static"
want_aarch64="$want_build $for_aarch64 libc6-dev-arm64-cross libzstd-dev python3 python3-venv jq"
want_cuda="$want_build python3 python3-venv"
want_test="$want_cuda pkg-config libssl-dev libarchive-dev libjansson-dev libyaml-dev libgit2-dev libhwloc-dev libzstd-dev libjpeg62-turbo-dev zlib1g-dev
    valgrind shellcheck jq gojq zstd lz4 zip unzip openssl signify-openbsd minisign procps util-linux strace"
[ "$(uname -m)" != x86_64 ] || want_test="$want_test $for_aarch64"
optional_test="buildah chromium debootstrap podman runc openmpi-bin mpich slurmctld slurmd slurm-client munge"
want_bench="$want_test libjemalloc2 g++"
want_lint="$want_test clang clang-tidy clang-format cppcheck"

optional=
case ${1:-build} in
build) want=$want_build ;;
aarch64) want=$want_aarch64 ;;
cuda) want=$want_cuda ;;
test) want=$want_test optional=$optional_test ;;
lint) want=$want_lint ;;
bench) want=$want_bench ;;
*) echo "usage: env/setup.sh build|aarch64|cuda|test|lint|bench" >&2 && exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is not Debian; install the equivalents of: ${want//$'\n'/ }" >&2
    exit 0
fi
not_installed() { # PACKAGE...
    local p
    for p; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo -n " $p"
    done
}
# shellcheck disable=SC2086
missing=$(not_installed $want)
# shellcheck disable=SC2086
missing_optional=$(not_installed $optional)
[ -n "$missing$missing_optional" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
    [ -n "$missing" ] || sudo -n true 2>/dev/null || exit 0 # nobody is asked for a password for what is optional
    command -v sudo >/dev/null || { echo "setup: missing packages, and neither root nor sudo to install them:$missing" >&2 && exit 1; }
    sudo="sudo"
fi
echo "  SETUP  $missing$missing_optional"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    # RUNLEVEL=1: daemons that come with a package (munge, slurmd) are not started; tests start their own.
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -qq "$@" </dev/null >"$log" 2>&1 && return
    cat "$log" >&2
    return 1
}
# shellcheck disable=SC2086
[ -z "$missing" ] || apt install -y --no-install-recommends $missing 2>/dev/null || {
    apt update || echo "setup: some package lists could not be refreshed; trying with what there is" >&2
    apt install -y --no-install-recommends $missing || { echo "setup: could not install$missing" >&2 && exit 1; }
}
# shellcheck disable=SC2086
[ -z "$missing_optional" ] || apt install -y --no-install-recommends $missing_optional 2>/dev/null ||
    echo "setup: without$missing_optional, which could not be installed, the tests of container images, of pages in a browser or of launchers are skipped" >&2
