#!/bin/bash
# A pinned version that has left the archive: the current one is used and the build record says so; STRICT=1 refuses, before
# and after. A lock that asks for a version of lz4 that never was stands in for it.
# timeout: 600
. "$TEST_DIR/common.inc"
real=$(deps_dir)
mkdir -p deps mirror
cp "$real"/cache/*.tar.* mirror/
rm mirror/lz4_*
export DEPS_MIRROR=$PWD/mirror DEPS_LOCK=$PWD/gone.lock
awk -F'\t' -v OFS='\t' '$1 == "lz4" {$2 = "1.0.0-99"; $4 = "lz4_1.0.0.orig.tar.gz"; $5 = "00"} {print}' "$TOP/env/deps.lock" >gone.lock
key=$("$TOP/env/deps-key.sh")
mkdir -p "deps/$key"
cp -rl "$real/$(DEPS_LOCK='' "$TOP/env/deps-key.sh")/part" "deps/$key/part"
rm -rf "deps/$key/part/lz4"
build() { make -s -C "$TOP" BUILD="$PWD/build" DEPS_DIR="$PWD/deps" "$@"; }

if build deps STRICT=1 >strict.txt 2>&1; then
    fail "STRICT=1 built"
fi
if grep -q 'cannot download\|no apt-get\|no sources configured' strict.txt; then
    skip "no Debian archive can be reached from here"
fi
grep -q 'lz4 1.0.0-99 is not in the archive any more and STRICT is set' strict.txt || { cat strict.txt >&2; fail "STRICT=1 does not say why"; }
[ ! -e "deps/$key/sysroot" ] || fail "STRICT=1 left a sysroot"

build "$PWD/build/static/gen/build.c" >forward.txt 2>&1 || {
    cat forward.txt >&2
    ! grep -q 'is the network reachable' forward.txt || skip "no Debian archive can be reached from here"
    fail "the build did not fall forward"
}
grep -q 'lz4 1.0.0-99 has left the archive; using its current version' forward.txt || { cat forward.txt >&2; fail "nothing was said"; }
grep -q 'fell-forward: lz4 1.0.0-99 -> ' build/static/gen/build.c || fail "the build record does not say so"
grep -qE 'lz4 [^ ]+ [0-9a-f]{64} lz4_' build/static/gen/build.c || fail "the build record does not have the digest used"

for goal in deps "$PWD/build/static/gen/build.c"; do
    ! build "$goal" STRICT=1 >after.txt 2>&1 || fail "STRICT=1 takes a sysroot that fell forward for '$goal'"
    grep -q 'STRICT is set' after.txt || { cat after.txt >&2; fail "STRICT=1 does not say why"; }
done
