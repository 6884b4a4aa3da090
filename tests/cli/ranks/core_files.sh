#!/bin/bash
# The key of a job is in no core file: not of a process that waits, that leads or follows, and not of a worker. The same key in the memory of
# another program is in its core, so that there is something to find.
# timeout: 120
. "$TEST_DIR/common.inc"
need python3
pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in '|'* | */*) skip "cores are written elsewhere: $pattern" ;; esac
ulimit -c unlimited 2>limit.txt || skip "no core files here: $(cat limit.txt)"
key=$("$REPRO" launch key)
found() { # FOLDER: whether a core in it has the key, as bytes or as digits
    python3 - "$key" "$1" <<'END'
import os, sys
key, folder = sys.argv[1], sys.argv[2]
cores = [os.path.join(folder, f) for f in os.listdir(folder)]
assert cores, "no core"
texts = [open(c, "rb").read() for c in cores]
assert all(t[:4] == b"\x7fELF" for t in texts), "not a core"
forms = (bytes.fromhex(key), bytes.fromhex(key)[:16], bytes.fromhex(key)[16:], key.encode(), key.upper().encode())
sys.exit(0 if any(f in t for f in forms for t in texts) else 1)
END
}
collect() { # FOLDER: cores of this directory
    mkdir -p "$1"
    for _ in $(seq 200); do
        ls core* >answer.txt 2>/dev/null && break
        sleep 0.05
    done
    sleep 0.3
    mv core* "$1/" 2>/dev/null || skip "the kernel writes no core here"
}
KEY_OF_OTHERS=$key sleep 60 &
other=$!
sleep 0.2
kill -SEGV $other
wait $other 2>/dev/null || :
collect control
found control || fail "a core of another program does not have the key: nothing is tested"

export REPRO_JOB_KEY=$key
tiny=(resnet50_tiny_fp32 --threads 1 --steps 1000000 --set measure.ceilings=false --set train.accumulation_steps=2)
"$REPRO" run "${tiny[@]}" --nodes 2 --node-rank 1 --ranks-per-node 1 --join "127.0.0.1:$TEST_PORT" >other.txt 2>&1 & # which waits for the other
alone=$!
wait_until $alone grep -q join other.txt
kill -SEGV $alone
wait $alone 2>/dev/null || :
collect waiting
! found waiting || fail "the core of a process that waits has the key"
job() {
    rm -f err.txt
    "$REPRO" run "${tiny[@]}" --nodes 2 --node-rank 1 --ranks-per-node 1 --join "127.0.0.1:$TEST_PORT" >other.txt 2>&1 &
    follower=$!
    "$REPRO" run "${tiny[@]}" --nodes 2 --node-rank 0 --ranks-per-node 1 --join "127.0.0.1:$TEST_PORT" -o a.repro.tar.zst --force >out.txt 2>err.txt &
    leader=$!
    wait_until $leader grep -q '^timed' err.txt
    worker=$(children "$leader")
    worker=${worker%%$'\n'*}
}
for which in leader follower worker; do # the names of variables
    job
    kill -SEGV "${!which}"
    wait $leader $follower 2>/dev/null || :
    collect "$which"
    ! found "$which" || fail "the core of the $which has the key"
done
job # and it would be there
echo 0x33 >"/proc/$leader/coredump_filter"
kill -SEGV "$leader"
wait $leader $follower 2>/dev/null || :
collect unguarded
found unguarded || fail "the core of the leader does not have the key even with its memory: nothing is tested"
unset REPRO_JOB_KEY
# ranks of one process have a key of their own
grep -q '^VmFlags' /proc/self/smaps || exit 0
"$REPRO" run "${tiny[@]}" --ranks 2 -o b.repro.tar.zst >out.txt 2>err2.txt &
parent=$!
wait_until $parent grep -q '^timed' err2.txt
for one in $parent $(children $parent | head -n 1); do
    [ "$(cat "/proc/$one/coredump_filter")" = 00000000 ] || fail "process $one would dump memory: $(cat "/proc/$one/coredump_filter")"
done
kill -INT $parent
wait $parent || :
