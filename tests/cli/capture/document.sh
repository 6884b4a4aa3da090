#!/bin/sh
# The document hides names by default, and what it hides can be proved.
. "$TOP/tests/common.inc"
"$REPRO" capture --json >env.json
host=$(uname -n)
case $host in
??????*) ! grep -qF "\"$host\"" env.json || fail "the host's name shows" ;;
esac
[ "$(jq -r .identified env.json)" = false ] || fail "identified unasked"
"$REPRO" capture --identify --json >clear.json
[ "$(jq -r .probes.host.hostname.value clear.json)" = "$host" ] || fail "--identify hides the name"
[ "$(jq -r .probes.program.sha256.value env.json)" = "$(sha256sum <"$REPRO" | cut -c1-64)" ] || fail "not the digest of this program"
salt=$(jq -r .salt env.json)
proof=$(printf '%s\0host.hostname\0%s' "$salt" "$host" | sha256sum | cut -c1-64)
[ "$(jq -r .probes.host.hostname.value env.json)" = "sha256:$proof" ] || fail "the hidden name cannot be proved"
