#!/bin/bash
# A clean build in a directory of another name, gives the bytes of the program under test, the GPU worker in it
# included: neither paths nor what was built before is in them. The dependencies are shared; that they do not carry paths either is
# checked on the bytes of the program.
# timeout: 900
. "$TEST_DIR/common.inc"
deps=$(deps_dir)
cuda=$("$REPRO" version --json | jq 'if .gpu_worker then 1 else 0 end')
at=a/directory/with/another/name
copy_sources "$at"
make -s -C "$at" DEPS_DIR="$deps" BUILD=elsewhere CUDA="$cuda"
[ "$cuda" = 0 ] || cmp "$at/elsewhere/gpu/repro-gpu.zst" "$BUILD/gpu/repro-gpu.zst"
cmp "$at/elsewhere/repro" "$REPRO"
! grep -qaE "$PWD|$deps|$TOP/" "$REPRO" || fail "the program carries a path of the machine that built it: $(strings "$REPRO" | grep -E "$PWD|$deps|$TOP/" | head -3)"
