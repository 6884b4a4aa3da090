#!/bin/bash
# The largest batch that fits is trained under the memory limit of a control group, and what does not fit is refused by the plan.
# timeout: 120
. "$TEST_DIR/common.inc"
group=
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    file=memory.limit_in_bytes
    [ $root = /sys/fs/cgroup/memory ] || file=memory.max
    if mkdir "$root/repro-test.$$" 2>mkdir.txt; then
        group=$root/repro-test.$$
        [ ! -w "$group/$file" ] || break
        rmdir "$group"
        group=
    fi
done
[ -n "$group" ] || skip "no control group can be made here: $(cat mkdir.txt)"
trap 'rmdir "$group"' EXIT
limited() { # MIB OPTION...: a run in the group
    echo $(($1 << 20)) >"$group/$file" || skip "no limit can be set"
    shift
    (echo $BASHPID >"$group/cgroup.procs" && exec "$REPRO" run bert_tiny_fp32 --steps 1 --set measure.repeats=1 --set measure.warmup_steps=0 \
        --set measure.ceilings=false --force -o max.zst "$@")
}
exit_of 0 limited 220 --batch-size max
"$REPRO" inspect max.zst facts.json | jq -e '.status == "complete" and .plan.batch == .plan.max_batch and .plan.total_bytes > 100e6 and .plan.available_bytes < 220e6' \
    >answer.txt || { "$REPRO" inspect max.zst facts.json | jq .plan >&2; fail "not the largest batch"; }
rm max.zst
exit_of 7 limited 220 --set train.batch_size=100
says "that fits is"
[ ! -e max.zst ] || fail "a bundle of a run that was refused"
