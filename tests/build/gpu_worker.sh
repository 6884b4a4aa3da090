#!/bin/bash
# repro-gpu is what the build says: it starts with glibc 2.28, it fits, and it starts where memory cannot be executed (that its bytes
# depend on the sources alone: same_bytes.sh). No network.
# timeout: 600
. "$TEST_DIR/common.inc"
"$REPRO" version --json | jq -e .gpu_worker >/dev/null || { echo "this build has no GPU worker" && exit 77; }
worker=$BUILD/gpu/repro-gpu
deps=$(deps_dir)

readelf -hW "$worker" >header
readelf -lW "$worker" >segments
readelf -dW "$worker" >dynamic
readelf -SW "$worker" >sections
none() { ! grep -qE "$1" "$2"; }
grep -qE 'Type: +DYN' header || fail "no PIE"
grep -qF '[Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]' segments || fail "another loader"
grep -q GNU_RELRO segments || fail "no RELRO"
grep -qE 'GNU_STACK .* RW +0x' segments || fail "executable stack"
grep -q BIND_NOW dynamic || fail "not bound at start"
none 'RPATH|RUNPATH|TEXTREL' dynamic || fail "a path or text relocations"
none '\.symtab|\.debug_|build-id' sections || fail "not stripped"
others=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' dynamic |
    grep -vxE 'lib(c|m).so.6|libpthread.so.0|lib(dl|rt).so.[12]|ld-linux-x86-64.so.2' || :)
[ -z "$others" ] || fail "it needs $others"
newest=$(readelf -VW "$worker" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
[ "$(printf 'GLIBC_2.28\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || fail "it needs $newest"
none "$PWD|$deps|$TOP/" "$worker" || fail "it carries a path of the machine that built it"
strings -a "$worker" | grep -q nvmlInit || fail "this check does not see its texts"

# What is inside the program is this.
[ "$("$REPRO" version --json | jq -r .gpu_worker.sha256)" = "$(sha256sum <"$worker" | cut -d' ' -f1)" ] || fail "version names another one"
zstd -dcq "$worker.zst" | cmp - "$worker"
[ "$(stat -c %s "$REPRO")" -lt $((22 << 20)) ] || fail "the program has $(stat -c %s "$REPRO") bytes"
"$REPRO" version --licenses | grep -q 'nvidia-cuda-runtime' || fail "no licence of the CUDA runtime"

# A function that came after 2.28 breaks the build and says which.
printf '#include <unistd.h>\nint main(void) { return gettid() == 1; }\n' >late.c
gcc -O2 -fPIE -D_GNU_SOURCE -c late.c
! "$TOP/env/link-gpu.sh" late late.o 2>err.txt || fail "a late symbol was linked"
grep -q 'gettid came with glibc 2.30, later than 2.28' err.txt || { cat err.txt >&2 && fail "not said"; }
[ ! -e late ] || fail "there is a program all the same"

# A wheel is believed by its digest only.
mkdir mirror
cp "$deps"/cache/nvidia_cuda_runtime*.whl mirror/
echo "no wheel" >"mirror/nvidia_nvml_dev_cu12-12.9.79-py3-none-manylinux2014_x86_64.whl"
! DEPS_MIRROR=$PWD/mirror OFFLINE=1 "$TOP/env/fetch-cuda.sh" new 2>err.txt || fail "a wrong wheel was taken"
grep -q 'OFFLINE' err.txt || fail "the message does not say why"
[ ! -e "$("$TOP/env/fetch-cuda.sh" --dir new)" ] || fail "half of it has the name"
DEPS_MIRROR=$deps/cache OFFLINE=1 "$TOP/env/fetch-cuda.sh" new
diff -r "$("$TOP/env/fetch-cuda.sh" --dir new)" "$("$TOP/env/fetch-cuda.sh" --dir "$deps")" || fail "another result"
# So does the disassembler of the tests, where it could be had.
disassembler=$("$TOP/env/fetch-nvdisasm.sh" --dir "$deps")
if [ -d "$disassembler" ]; then
    ! DEPS_MIRROR=$PWD/mirror OFFLINE=1 "$TOP/env/fetch-nvdisasm.sh" other 2>err.txt || fail "another wheel was taken for the disassembler"
    DEPS_MIRROR=$deps/cache OFFLINE=1 "$TOP/env/fetch-nvdisasm.sh" other
    diff -r "$("$TOP/env/fetch-nvdisasm.sh" --dir other)" "$disassembler" || fail "another disassembler"
fi

# Where the kernel gives no executable memory, a file in the cache; where there is no glibc, a message.
cat >no_memfd.c <<'END'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, f};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 77;
    execv(argv[1], argv + 1);
    return 1;
}
END
gcc no_memfd.c -o no_memfd
state() { jq -r '.probes.gpu.worker | .state, .detail // ""' | paste -sd' '; }
[ "$("$REPRO" capture --probe gpu --json | state)" = "ok " ] || fail "it does not start"
[ ! -e "$XDG_CACHE_HOME/repro" ] || fail "a file where none was needed"
status=0
./no_memfd "$REPRO" capture --probe gpu --json >env.json || status=$?
if [ $status != 77 ]; then
    [ "$(state <env.json)" = "ok " ] || fail "without memfd: $(state <env.json)"
    cmp "$XDG_CACHE_HOME/repro/repro-gpu-$(sha256sum <"$worker" | cut -d' ' -f1)" "$worker"
fi
if [ "$(id -u)" = 0 ]; then
    mkdir empty && cp "$REPRO" empty/repro
    PATH=$PATH:/usr/sbin chroot empty /repro capture --probe gpu --json >env.json
    [[ $(state <env.json) = "absent "*"no glibc loader"* ]] || fail "without glibc: $(state <env.json)"
fi
