#!/bin/bash
# What is compiled in a directory of another name, with another umask and time zone, has the bytes of this build: every sixteenth object of the
# program and of the GPU worker, every 64th of the program for 64-bit Arm, and with LONG=1 all programs, from nothing. Neither paths nor what was
# built before is in them. The dependencies are shared; that they do not carry paths either is checked on the bytes of the programs.
# timeout: 900
. "$TEST_DIR/common.inc"
deps=$(deps_dir)
cuda=$("$REPRO" version --json | jq 'if .gpu_worker then 1 else 0 end')
at=a/directory/with/another/name
copy_sources "$at"
elsewhere() { # GOAL|VARIABLE=VALUE...
    (umask 027 && TZ=Asia/Tokyo make -s -C "$at" DEPS_DIR="$deps" BUILD=elsewhere "$@")
}
every() { # N FOLDER...: every Nth object below these folders of BUILD, but the kernels, each of which takes as long as a hundred others
    local n=$1
    shift
    (cd "$BUILD" && find "$@" -name '*.o' ! -path '*/cpu/ops_*' 2>/dev/null) | sort | while read -r object; do
        source=src/${object#*src/}
        [ ! -e "$TOP/${source%.o}.c" ] || echo "$object" # others are left from a source that was removed
    done | awk -v n="$n" 'NR % n == 1'
}
same_objects() { # LEAST "OBJECT..." [VARIABLE=VALUE...]
    local least=$1 objects=$2
    shift 2
    [ "$(wc -w <<<"$objects")" -ge "$least" ] || fail "too few objects: $objects"
    # shellcheck disable=SC2046,SC2086 # several words
    elsewhere "$@" $(printf 'elsewhere/%s ' $objects)
    for object in $objects; do
        cmp "$at/elsewhere/$object" "$BUILD/$object"
    done
}
no_paths() { # PROGRAM
    ! grep -qaE "$PWD|$deps|$TOP/" "$1" || fail "$1 carries a path of the machine that built it: $(strings "$1" | grep -E "$PWD|$deps|$TOP/" | head -3)"
}
same_objects 25 "$(every 16 static/src gpu/src)" CUDA="$cuda"
no_paths "$REPRO"
# Of the static program if it was built, else of the one that `make test` builds.
arm=native
[ ! -e "$BUILD/aarch64/repro" ] || arm=static
if [ -e "$BUILD/aarch64/$arm/repro" ]; then
    same_objects 5 "$(every 64 aarch64/$arm/src)" ARCH=aarch64 CUDA=0
    [ $arm = native ] || no_paths "$BUILD/aarch64/repro"
fi

[ "${LONG:-0}" != 0 ] || exit 0
archs=$("$REPRO" version --json | jq -r '[.gpu_worker.device_code[]?.arch] | join(" ")') # the others would take minutes
elsewhere CUDA="$cuda" ${archs:+ARCHS="$archs"}
[ "$cuda" = 0 ] || cmp "$at/elsewhere/gpu/repro-gpu.zst" "$BUILD/gpu/repro-gpu.zst"
cmp "$at/elsewhere/repro" "$REPRO"
command -v aarch64-linux-gnu-gcc >/dev/null && [ "$(uname -m)" = x86_64 ] || exit 0
for where in "$at" "$at/../again"; do
    [ -e "$where" ] || copy_sources "$where"
    make -s -C "$where" ARCH=aarch64 DEPS_DIR="$deps" BUILD="$PWD/${where##*/}" CUDA="$cuda" ${archs:+ARCHS="$archs"}
done
[ "$cuda" = 0 ] || cmp name/aarch64/gpu/repro-gpu.zst again/aarch64/gpu/repro-gpu.zst
cmp name/aarch64/repro again/aarch64/repro
no_paths "$PWD/again/aarch64/repro"
