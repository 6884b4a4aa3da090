#!/bin/sh
# `version` says what this binary is; --version is the same; the notices of everything linked in are there.
. "$TEST_DIR/common.inc"
"$REPRO" version >version.txt
"$REPRO" --version | cmp - version.txt
"$REPRO" -V | cmp - version.txt
grep -q '^repro [0-9]' version.txt || fail "no version"
grep -q 'repro-fp32/1' version.txt || fail "no version of the arithmetic"
"$REPRO" version --json >version.json
jq -e '.version and (.numerics | length == 6 and .[0] == "repro-fp32/1" and .[5] == "repro-bf16-tc16/0") and .compiler and (.commit | type == "string") and (.dirty | type == "boolean")' version.json >answer.txt ||
    { cat version.json >&2; fail "fields are missing"; }
jq -e '.isa | index("scalar")' version.json >answer.txt || fail "the scalar instruction set is always usable"
for dependency in "openssl|libssl" libjpeg libarchive jansson libgit2 hwloc zlib zstd; do
    jq -e --arg d "$dependency" '[.dependencies[].name | test($d)] | any' version.json >answer.txt || fail "$dependency is not listed"
done
"$REPRO" version --licenses >licenses.txt
for word in Apache OpenSSL "libjpeg-turbo" "Independent JPEG Group" "libarchive" "jansson" "==== hwloc ====" "GNU GENERAL PUBLIC LICENSE" musl; do
    grep -qi "$word" licenses.txt || fail "no notice of $word"
done
