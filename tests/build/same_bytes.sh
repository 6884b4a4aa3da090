#!/bin/bash
# What is compiled in a directory of another name has the bytes of this build: every eighth object of the program and of the GPU worker, and with
# LONG=1 both programs, from nothing. Neither paths nor what was built before is in them. The dependencies are shared; that they do not carry
# paths either is checked on the bytes of the program.
# timeout: 900
. "$TEST_DIR/common.inc"
deps=$(deps_dir)
cuda=$("$REPRO" version --json | jq 'if .gpu_worker then 1 else 0 end')
at=a/directory/with/another/name
copy_sources "$at"
objects=$(cd "$BUILD" && find static/src gpu/src -name '*.o' 2>/dev/null | sort | while read -r object; do
    source=${object#*/}
    [ ! -e "$TOP/${source%.o}.c" ] || echo "$object" # others are left from a source that was removed
done | awk 'NR % 8 == 1')
[ "$(wc -w <<<"$objects")" -gt 40 ] || fail "too few objects"
# shellcheck disable=SC2046,SC2086 # several words
make -s -C "$at" DEPS_DIR="$deps" BUILD=elsewhere CUDA="$cuda" $(printf 'elsewhere/%s ' $objects)
for object in $objects; do
    cmp "$at/elsewhere/$object" "$BUILD/$object"
done
! grep -qaE "$PWD|$deps|$TOP/" "$REPRO" || fail "the program carries a path of the machine that built it: $(strings "$REPRO" | grep -E "$PWD|$deps|$TOP/" | head -3)"
[ "${LONG:-0}" != 0 ] || exit 0
make -s -C "$at" DEPS_DIR="$deps" BUILD=elsewhere CUDA="$cuda"
[ "$cuda" = 0 ] || cmp "$at/elsewhere/gpu/repro-gpu.zst" "$BUILD/gpu/repro-gpu.zst"
cmp "$at/elsewhere/repro" "$REPRO"
