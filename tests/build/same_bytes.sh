#!/bin/bash
# Two clean builds in differently named directories give the same bytes. The dependencies are shared; that they do not carry
# paths either is checked on the bytes of the program.
# timeout: 900
. "$TEST_DIR/common.inc"
deps=$(deps_dir)
copy_sources one
copy_sources a/directory/with/another/name
make -s -C one DEPS_DIR="$deps" BUILD=build
make -s -C a/directory/with/another/name DEPS_DIR="$deps" BUILD=elsewhere -j1
cmp one/build/repro a/directory/with/another/name/elsewhere/repro
! grep -qaE "$PWD|$deps|$TOP/" one/build/repro || fail "the program carries a path of the machine that built it: $(strings one/build/repro | grep -E "$PWD|$deps|$TOP/" | head -3)"
