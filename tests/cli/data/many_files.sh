#!/bin/sh
# Many small files are flushed together and not one by one, and who unpacks them dies with the program.
. "$TEST_DIR/common.inc"
need strace
mkdir in
awk 'BEGIN { for (i = 0; i < 3000; i++) { f = "in/" i; print i >f; close(f) } }'
tar -cf many.tar in
exit_of 0 strace -f -qq -o every "$REPRO" data unpack many.tar --store counted
[ "$(wc -l <every)" -lt 13500 ] || fail "$(wc -l <every) system calls for 3,000 files"
exit_of 0 strace -f -qq -e trace=fsync,fdatasync,syncfs -o calls "$REPRO" data unpack many.tar
[ "$(grep -c 'fsync\|fdatasync' calls)" -lt 200 ] || fail "$(grep -c sync calls) calls for 3,000 files"
grep -q 'syncfs(.*= 0' calls || fail "nothing flushed the files"
unpacked=$(cat out.txt)
[ "$(find "$unpacked" -type f | wc -l)" = 3001 ] || fail "files are missing" # and the list of them
(cd "$unpacked" && sha256sum -c .repro-files >/dev/null) || fail "not these files"
exit_of 0 "$REPRO" data unpack many.tar # again: checked
mkdir sparse sparse/a sparse/a/b
truncate -s 3M sparse/a/holes
for at in 0 70000 2500000; do printf here | dd of=sparse/a/holes bs=1 seek=$at conv=notrunc status=none; done
truncate -s 200k sparse/a/zeros
: >sparse/a/b/empty
ln -s ../holes sparse/a/b/link
tar -S -cf sparse.tar sparse
exit_of 0 "$REPRO" data unpack sparse.tar
diff -r sparse "$(cat out.txt)/sparse" || fail "other files"
(cd "$(cat out.txt)" && sha256sum -c .repro-files >/dev/null && grep -q '^# link sparse/a/b/link -> ../holes$' .repro-files) || fail "another list"
exit_of 0 "$REPRO" data check # which lists what exists
echo other >"$unpacked/in/7"
exit_of 5 "$REPRO" data unpack many.tar

stopped() { # $parent and $child: the latter is stopped while it unpacks
    "$REPRO" data unpack many.tar >out.txt 2>err.txt &
    parent=$! child=
    while [ -z "$child" ]; do
        alive "$parent" || return
        child=$(cat "/proc/$parent/task/$parent/children" 2>/dev/null || true)
    done
    child=${child%% *}
    until ls -d "$(dirname "$unpacked")"/tmp.*/data/in >tmp.txt 2>&1; do # from then on it dies with its parent, even if it is stopped
        alive "$parent" || return
    done
    kill -STOP "$child" 2>/dev/null && alive "$child"
}
rm -r "$unpacked"
tries=1
until stopped; do # unpacked before this shell was there
    [ $tries -lt 5 ] || fail "it ended before its child had unpacked anything"
    tries=$((tries + 1))
    wait "$parent" || { cat err.txt >&2; fail "it does not unpack"; }
    rm -rf "$unpacked"
done
kill -KILL "$parent"
wait "$parent" || true
wait_gone "$child"
