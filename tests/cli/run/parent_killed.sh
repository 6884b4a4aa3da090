#!/bin/sh
# When the parent dies, the worker does not go on alone.
. "$TEST_DIR/common.inc"
start_endless
kill -KILL "$parent"
wait "$parent" || :
wait_gone "$worker"
[ ! -e endless.repro.tar.zst ] || fail "a bundle under the final name"
