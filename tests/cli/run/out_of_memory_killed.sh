#!/bin/bash
# In a control group with little memory: what cannot fit is refused; when another process takes the rest, the kernel kills the worker
# and not its parent, which tells what happened and seals.
# timeout: 120
. "$TEST_DIR/common.inc"
group=
for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    mkdir "$top/repro-test.$$" 2>/dev/null || continue
    group=$top/repro-test.$$
    trap 'rmdir "$group"' EXIT
    [ ! -e "$group/memory.limit_in_bytes" ] || limit=memory.limit_in_bytes kills=memory.oom_control
    [ ! -e "$group/memory.max" ] || limit=memory.max kills=memory.events
    [ -z "${limit:-}" ] || break
    rmdir "$group"
    trap - EXIT
    group=
done
[ -n "$group" ] || skip "no control group for memory can be made here"
plan=$("$REPRO" run bert_tiny_fp32 --plan --json | jq .total_bytes)
echo $((plan + (128 << 20))) >"$group/$limit" 2>/dev/null || skip "the limit of a control group cannot be set here"
cat >inside <<END
#!/bin/sh
echo \$\$ >"$group/cgroup.procs" && exec "\$@"
END
chmod +x inside
./inside true || skip "no process can be moved into a control group here"

exit_of 7 ./inside "$REPRO" run bert_fp32 --steps 1 -o no.repro.tar.zst
words | sed 's/[0-9.]* GiB/N GiB/g'
[ ! -e no.repro.tar.zst ] || fail "a bundle was written"

printf '#!/bin/sh\nexec ./inside "%s" "$@"\n' "$REPRO" >limited
chmod +x limited
program=$REPRO
REPRO=./limited
tiny=bert_tiny_fp32 start_endless
REPRO=$program
./inside tail /dev/zero >/dev/null 2>&1 & # keeps all it reads, waiting for the end of a line
hog=$!
expect_end 7 memory failed
words | sed 's/[0-9][0-9]*/N/g'
wait "$hog" 2>/dev/null || :
[ "$(sed -n 's/^oom_kill //p' "$group/$kills")" -ge 1 ] || { cat "$group/$kills" >&2; fail "the kernel killed nothing: nothing was tested"; }
