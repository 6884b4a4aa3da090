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

# Images of CUDA 12.9 list every driver that they accept in 2 to 4 KB.
list=$(for brand in unknown grid tesla nvidia quadro quadrortx nvidiartx vapps vpc vcs vws cloudgaming; do
    for driver in 535 550 565 570; do printf ' brand=%s,driver>=%s,driver<%s' $brand $driver $((driver + 1)); done
done)
NVIDIA_REQUIRE_CUDA="cuda>=12.9$list" "$REPRO" capture --json >long.json
[ "$(jq -r .probes.environment.NVIDIA_REQUIRE_CUDA.value long.json)" = "cuda>=12.9$list" ] || fail "a list of drivers is cut"
[ "$(jq -r .probes.nvidia.toolkit.requires.value long.json)" = "cuda>=12.9$list" ] || fail "what the image requires is cut"
