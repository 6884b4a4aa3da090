#!/bin/sh
# The GPU probe through the real worker, with libraries of our own making where NVIDIA's would be: what is found, what fails to load,
# crashes or hangs; and the document read back from a record. Nothing is written to the disk.
. "$TOP/tests/common.inc"
"$REPRO" version --json | jq -e .gpu_worker >/dev/null || skip "this build has no GPU worker"
probe() { # FILTER: of the gpu group
    "$REPRO" capture --probe gpu --json >env.json || fail "capture failed"
    jq -r ".probes.gpu | $1" env.json
}
library() { # SONAME: a library from the C text on stdin
    mkdir -p lib
    gcc -shared -fPIC -x c - -o "lib/$1" || fail "no library"
}
is() { # GOT EXPECTED
    [ "$1" = "$2" ] || fail "'$1', expected '$2'"
}
export LD_LIBRARY_PATH="$PWD/lib"

echo 'int ncclGetVersion(int *v) { *v = 21805; return 0; }' | library libnccl.so.2
is "$(probe '.worker.value, .cuda_runtime_version.state, .nccl_version.value')" "present
ok
2.18.5"
echo 'int ncclGetVersion(int *v) { *v = 2708; return 0; }' | library libnccl.so.2
is "$(probe .nccl_version.value)" 2.7.8
echo 'int ncclGetVersion(int *v) { *v = 0; return 3; }' | library libnccl.so.2
is "$(probe '.nccl_version | .state, .detail')" "error
returned 3 and the number 0"
echo 'int other;' | library libnccl.so.2
is "$(probe '.nccl_version | .state, .detail')" "error
the library has no such function"

# There and not loadable is an error; not there is absent.
echo 'no library' >lib/libnccl.so.2
is "$(probe .nccl_version.state)" error
echo 'int missing;' | library libmissing.so
echo 'extern int missing; int ncclGetVersion(int *v) { return *v = missing; }' >needs.c
gcc -shared -fPIC needs.c -o lib/libnccl.so.2 -Llib -lmissing
rm lib/libmissing.so
is "$(probe '.nccl_version | .state, .detail')" "error
libmissing.so: cannot open shared object file: No such file or directory"
if ! ldconfig -p 2>/dev/null | grep -q libnccl; then
    rm lib/libnccl.so.2
    is "$(probe .nccl_version.state)" absent
fi

# Where a library lies, what it is called and what it says at its end names nobody and opens nothing.
token=ghp_$(echo token | sha256sum | tr 0-5 K-P | cut -c 1-36)
mkdir -p "$token/u/planted"
echo 'int nvmlInit_v2(void) { return 0; }' | library libnvidia-ml.so.1
mv lib/libnvidia-ml.so.1 "$token/u/planted"
is "$(LD_LIBRARY_PATH="$PWD/$token/u/planted:$PWD/lib" probe '.nvml_library | .state, (.value | test("/<hidden>/u/<hidden>/libnvidia-ml.so.1$"))')" "ok
true"
! grep -q -e "$token" -e planted env.json || fail "$(jq .probes.gpu.nvml_library env.json)"
host=$(hostname | cut -d . -f 1)
[ ${#host} -ge 4 ] || host=planted@host.example # too short to be told from a word
cat <<END | library libnccl.so.2
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void load(void)
{
    fprintf(stderr, "$host: planted@host.example, board 0321219012345, id 550e8400-e29b-41d4-a716-446655440000, at path=/srv/u/planted\\n");
    abort();
}
END
is "$(probe .worker.state)" error
! grep -q -e "$host" -e planted -e 0321219012345 -e 550e8400 env.json || fail "$(jq .probes.gpu.worker env.json)"

# A library that brings the process down or never comes back: said in time, and what was answered before stays.
echo '#include <stdlib.h>
__attribute__((constructor)) static void load(void) { abort(); }' | library libnccl.so.2
is "$(probe '.worker.state, .cuda_runtime_version.state, .nccl_version')" "error
ok
null"
jq -r .probes.gpu.worker.detail env.json
echo '#include <unistd.h>
__attribute__((constructor)) static void load(void) { for (;;) pause(); }' | library libnccl.so.2
is "$(RP_GPU_TIMEOUT_MS=700 probe '.worker.state, .cuda_runtime_version.state')" "error
ok"
jq -r .probes.gpu.worker.detail env.json

# What the library prints does not reach the result or the terminal.
echo '#include <stdio.h>
int ncclGetVersion(int *v) { puts("NOISE"); fputs("NOISE", stderr); fflush(stdout); *v = 22809; return 0; }' | library libnccl.so.2
"$REPRO" capture --probe gpu --json --record record >env.json 2>err.txt
! grep -q NOISE env.json err.txt || fail "the library's output shows"

# The record gives the same values, without a worker.
rm -r lib
"$REPRO" capture --probe gpu --json --root record >again.json
[ "$(jq -r .probes.gpu.nccl_version.value again.json)" = 2.28.9 ] || fail "not recorded"
jq -S .probes.gpu env.json >a.json
jq -S .probes.gpu again.json >b.json
diff a.json b.json || fail "the record says something else"
echo '{"nvml": {"a": ' >record/.repro/gpu.json
is "$("$REPRO" capture --probe gpu --json --root record | jq -r .probes.gpu.worker.state)" error
rm record/.repro/gpu.json
is "$("$REPRO" capture --probe gpu --json --root record | jq -r .probes.gpu.worker.state)" absent

[ -z "$(find "$HOME" "$TMPDIR" -type f)" ] || fail "files were written: $(find "$HOME" "$TMPDIR" -type f)"

# A build without the worker says so, and what to do.
is "$("$BUILD/native/repro" version --json | jq .gpu_worker)" null
"$BUILD/native/repro" version | grep -q 'GPU worker .*none.*CUDA=1' || fail "version does not say that there is none"
is "$("$BUILD/native/repro" capture --probe gpu --json | jq -r '.probes.gpu.worker | .state, .detail')" "absent
this build has no GPU worker (make CUDA=1)"
