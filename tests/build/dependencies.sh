#!/bin/bash
# A fetch or a build of a dependency that is killed, or a download that is not what the lock says, is never believed later.
# The finished parts of this build are borrowed, so that only lz4 is built here. No network.
# timeout: 600
. "$TEST_DIR/common.inc"
real=$(deps_dir)
key=$("$TOP/env/deps-key.sh")
[ -d "$real/$key/part" ] || fail "no built dependencies in $real/$key"
mkdir -p "deps/$key" mirror
cp -rl "$real/$key/part" "deps/$key/part"
rm -rf "deps/$key/part/lz4"
cp "$real"/cache/* mirror/
export DEPS_MIRROR=$PWD/mirror OFFLINE=1

# Killed while lz4 compiles: neither the part nor the sysroot has its name.
setsid "$TOP/env/build-deps.sh" deps >killed.txt 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ ! -e "$(echo deps/"$key"/tmp.*/work.lz4/objects)" ] || break
    sleep 0.1
done
kill -9 -- "-$pid"
wait "$pid" || :
[ -e "$(echo deps/"$key"/tmp.*/work.lz4/objects)" ] || fail "the build was not caught in the middle"
[ ! -e "deps/$key/part/lz4" ] || fail "a half-built part has its name"
[ ! -e "deps/$key/sysroot" ] || fail "a half-built sysroot has its name"

# A download cut short, and one that was changed, under the names of the real ones: fetched again.
for f in deps/cache/lz4_*.orig.tar.*; do
    head -c 1000 "$f" >short && mv short "$f"
done
for f in deps/cache/libzstd_*.orig.tar.*; do
    printf x | dd of="$f" bs=1 seek=5000 conv=notrunc status=none
done
# What a killed fetch leaves has no name that is looked for.
mkdir deps/cache/.fetch.killed && echo junk >deps/cache/.new.1
"$TOP/env/build-deps.sh" deps >again.txt 2>&1 || { cat again.txt >&2; fail "the build after a kill"; }
[ -f "deps/$key/sysroot/sources.txt" ] || fail "no sysroot"
cmp "deps/$key/sysroot/lib/liblz4.a" "$real/$key/sysroot/lib/liblz4.a" || fail "a resumed build gives other bytes"
diff -r "deps/$key/sysroot" "$real/$key/sysroot" >diff.txt || { cat diff.txt >&2; fail "a resumed sysroot differs"; }
! grep -raqE "$PWD|$real/$key|/tmp\.[A-Za-z0-9]{6}/" "$real/$key/sysroot/lib" || fail "a library carries the path it was built in"
! ls -d "deps/$key"/tmp.* 2>/dev/null || fail "the temporary directory of the killed build is still there"

# A mirror whose file has another digest is not believed either; nothing is left under the file's name.
rm -rf "deps/$key/sysroot" deps/cache/bzip2_*.orig.tar.*
for f in mirror/bzip2_*.orig.tar.*; do
    head -c 1000 "$f" >short && mv short "$f"
done
! "$TOP/env/build-deps.sh" deps >refused.txt 2>&1 || fail "a wrong file was accepted"
grep -q OFFLINE refused.txt || { cat refused.txt >&2; fail "the message does not say why"; }
! ls deps/cache/bzip2_*.orig.tar.* 2>/dev/null || fail "a wrong file is in the cache"
[ ! -e "deps/$key/sysroot" ] || fail "a sysroot without its sources"
