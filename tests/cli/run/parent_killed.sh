#!/bin/sh
# When the parent dies, the worker does not go on alone.
. "$TEST_DIR/common.inc"
start_endless
kill -KILL "$parent"
wait "$parent" || :
i=0
while kill -0 "$worker" 2>/dev/null; do
    i=$((i + 1))
    [ "$i" -lt 30 ] || fail "the worker lives on without its parent"
    sleep 0.1
done
[ ! -e endless.repro.tar.zst ] || fail "a bundle under the final name"
