#!/bin/bash
# The device code in the program is what the sources say: every architecture, or what ARCHS names, by the pinned compiler, in the worker as `version` names
# it, the same bytes wherever it is compiled; and an nvcc of this machine compiles the same sources. No network.
# timeout: 900
. "$TEST_DIR/common.inc"
"$REPRO" version --json >version.json
jq -e .gpu_worker version.json >/dev/null || { echo "this build has no GPU worker" && exit 77; }
deps=$(deps_dir)
cuda=$("$TOP/env/fetch-cuda.sh" --dir "$deps")
device=$BUILD/gpu/device
more=gemm16_wgmma # of sm_90a alone
names=$(cd "$TOP/src/backend/cuda" && printf '%s\n' *.cu | sed "s/\.cu$//; /^$more\$/d")
names_of() { # ARCH
    case $1 in *a) echo "$more" ;; *) echo "$names" ;; esac
}

# Every architecture there is to be. Where ARCHS was given, what was not compiled is the text that was compiled and tested when all were:
# --update writes its keys then.
all="sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_120 compute_100"
arm="sm_87 sm_121" # besides some of these, of the program for 64-bit Arm, which make ARCH=aarch64 CUDA=1 compiles
grep -qx "ARCHS ?= $all" "$TOP/env/gpu.mk" && grep -qx "ARCHS ?= sm_75 sm_80 ${arm% *} sm_89 sm_90 sm_90a sm_100 ${arm#* } compute_100" "$TOP/env/gpu.mk" ||
    fail "env/gpu.mk has other architectures"
want=$(jq -r '[.gpu_worker.device_code[].arch] | join(" ")' version.json)
case $want in
"$all") ;;
*sm_90*compute_*) ;;
*) fail "device code for $want only" ;;
esac
(
    cd "$TOP"
    export NVCC='' NVRTC="$BUILD/gpu/nvrtc $cuda/lib/libnvrtc.so.12"
    # shellcheck disable=SC2046,SC2086 # several words
    for arch in $all $arm; do
        env/device-code.sh --keys "$arch" $(printf 'src/backend/cuda/%s.cu ' $(names_of "$arch"))
    done
) >keys.txt
keys=$TOP/tests/build/device_code.keys
compiled() { # all, and for 64-bit Arm too: what was compiled is kept
    local arch name key
    [ "$want" = "$all" ] || return 1
    while read -r arch name key; do
        [ -e "$deps/device/$key" ] || { echo "$name was not compiled for $arch: make ARCH=aarch64 CUDA=1" >&2 && return 1; }
    done <keys.txt
}
[ -z "${UPDATE:-}" ] || ! compiled || cp keys.txt "$keys"
diff "$keys" keys.txt >keys.diff || {
    cat keys.diff >&2
    fail "device code was not compiled for all architectures since it changed: make test, then tests/run.sh --update build/device_code"
}
compiler=$(jq -r .gpu_worker.device_compiler version.json)
[ "$compiler" = "NVRTC $(sed -n 's/^nvidia-cuda-nvrtc[^=]*==\([^ ]*\) .*/\1/p' "$TOP/env/cuda.lock")" ] || fail "compiled by $compiler"
for arch in $want; do
    sum=$(for name in $(names_of "$arch"); do cat "$device/$arch/$name"; done | sha256sum | cut -d' ' -f1)
    [ "$(jq -r --arg a "$arch" '.gpu_worker.device_code[] | select(.arch == $a) | .sha256' version.json)" = "$sum" ] ||
        fail "version names other code for $arch"
    for name in $(names_of "$arch"); do
        case $arch in
        sm_*) head -c 4 "$device/$arch/$name" | grep -q ELF ;;
        *) grep -q "^.target sm_${arch#*_}" "$device/$arch/$name" ;;
        esac ||
            fail "$arch/$name is something else"
        zstd -dcq "$device/$arch/$name.zst" | cmp - "$device/$arch/$name"
    done
done

# What the library of tests/shim for GPUs before 8.0 takes from that for later ones has the same code for both. sm_70 has no kernels of bf16, which
# are those of fp16.
alike=$(CUDA=1 make_value 'notdir $(shim_alike:.cu=)')
if [ -d "$device/compute_70" ] && [ -d "$device/compute_90" ]; then
    [ "$(wc -w <<<"$alike")" -ge 20 ] || fail "few files are said to be alike: $alike"
    for name in $alike; do
        case $name in *_bf16) continue ;; esac
        diff <(grep -v '^\.target' "$device/compute_70/$name") <(grep -v '^\.target' "$device/compute_90/$name") >alike.diff ||
            fail "$name has other code for sm_70 than for sm_90: take it out of shim_alike in env/gpu-tests.mk"
    done
fi

# The packed code is in the worker.
cat >find.c <<'END'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(1 << 26);
    *n = f && p ? fread(p, 1, 1 << 26, f) : 0;
    return p;
}
int main(int argc, char **argv)
{
    size_t n, m;
    const char *whole = all(argv[1], &n);
    for (int i = 2; i < argc; i++) {
        const char *part = all(argv[i], &m);
        if (!m || !memmem(whole, n, part, m))
            return printf("%s\n", argv[i]), 1;
    }
    return 0;
}
END
gcc -O2 find.c -o find
# shellcheck disable=SC2046 # several words
./find "$BUILD/gpu/repro-gpu" $(for arch in $want; do printf '%s ' "$device/$arch"/*.zst; done) || fail "this is not in the worker"

# Another directory, nothing kept from before: the same bytes and statistics.
copy_sources another/directory
name=$(cd "$TOP/src/backend/cuda" && wc -c ./*.cu | sort -n | sed -n '1s|.*/\(.*\)\.cu|\1|p') # the shortest
compile() { # ARCH SOURCE OUT
    (cd another/directory && NVCC='' NVRTC="$BUILD/gpu/nvrtc $cuda/lib/libnvrtc.so.12" env/device-code.sh "$@")
}
for arch in sm_90 "${want##* }"; do
    compile "$arch" "src/backend/cuda/$name.cu" ../here
    cmp another/here "$device/$arch/$name"
    cmp another/here.txt "$device/$arch/$name.txt"
done

# What does not compile, by either compiler, says where and leaves nothing.
echo 'RP_KERNEL(add) { nothing(); }' >another/directory/src/backend/cuda/wrong.cu
if compile sm_90 src/backend/cuda/wrong.cu ../wrong >out.txt 2>&1; then fail "nonsense compiles"; fi
grep -q 'wrong.cu(1)' out.txt || { cat out.txt >&2 && fail "the message has no place"; }
[ ! -e another/wrong ] || fail "there is code of it"

# nvcc, where there is one: PTX of two files, and with LONG=1 of all, and the oldest architecture that it knows.
nvcc=$(command -v nvcc || ls -d /usr/local/cuda/bin/nvcc 2>/dev/null || :)
if [ -z "$nvcc" ]; then
    echo "no nvcc here: not compiled by it"
    exit 0
fi
by_nvcc() { # ARCHS GOAL...
    make -s -C "$TOP" BUILD="$PWD/nvcc" DEPS_DIR="$deps" CUDA=1 NVCC="$nvcc" ARCHS="$1" "${@:2}" >out.txt
}
some=$(printf '%s\n' "$names" | awk 'NR % 16 == 1')
# shellcheck disable=SC2046,SC2086 # several words
by_nvcc compute_100 $(printf "$PWD/nvcc/gpu/device/compute_100/%s " $some)
for name in $some; do
    grep -q '^.target sm_100' "nvcc/gpu/device/compute_100/$name" || fail "nvcc made something else of $name"
done
[ "${LONG:-0}" != 0 ] || exit 0
archs="sm_70 sm_75 compute_100"
by_nvcc "$archs" "$PWD/nvcc/gpu/images.txt"
head -n 1 nvcc/gpu/images.txt | grep -q '^nvcc 1[23]\.' || fail "it does not say by what"
for arch in $archs; do
    "$nvcc" --list-gpu-code | grep -qx "$arch" || "$nvcc" --list-gpu-arch | grep -qx "$arch" && known=1 || known=0
    [ "$(grep -c "^$arch [0-9a-f]\{64\} [0-9]*\$" nvcc/gpu/images.txt)" = "$known" ] || fail "nvcc and $arch: $(cat nvcc/gpu/images.txt)"
done
