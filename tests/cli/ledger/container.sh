#!/bin/sh
# A ledger on the layer of a container goes with the container: that is said, and in the bundle. On a volume it stays.
. "$TEST_DIR/common.inc"
unset REPRO_LEDGER
make_root
mkdir -p root/home root/proc
# In the root, with mounts of its own, of which "/" is one.
in_root() { # COMMAND THAT MOUNTS MORE
    unshare -m sh -c "mount --bind root root && cd root/.. && mount -t proc proc root/proc && $1 &&
        env -i HOME=/home '$change_root' root /repro run bert_tiny_fp32 --threads 1 --steps 1 --set measure.warmup_steps=1 --set measure.repeats=1 \
        --set train.accumulation_steps=1 --set measure.ceilings=false -o /home/a.zst --force && cp root/home/a.zst a.zst" >out.txt 2>err.txt
}
unshare -m sh -c 'mount --bind root root && mount -t proc proc root/proc && mount -t tmpfs none root/home' 2>err.txt || skip "nothing can be mounted here"
layer() {
    "$REPRO" inspect a.zst facts.json | jq -c .ledger.container_layer
}
: >root/.dockerenv
in_root true || { cat err.txt >&2; fail "no run in the root"; }
[ "$(layer)" = true ] || { cat err.txt >&2; fail "a ledger on the layer is not named"; }
words err.txt 'container'
exit_of 0 "$REPRO" verify --any-key a.zst --no-ledger
words out.txt 'container'
in_root 'mount -t tmpfs none root/home' || { cat err.txt >&2; fail "no run with a volume"; }
[ "$(layer)" = false ] || { cat err.txt >&2; fail "a ledger on a volume is named"; }
