#!/bin/sh
# A network interface whose name somebody chose: its name is neither in a document nor in a record, and --identify shows it.
. "$TOP/tests/common.inc"
[ "$(id -u)" = 0 ] || skip "only root can make interfaces"
need unshare mount ip jq
cat >inside.sh <<'END'
set -eu
for type in dummy bridge ifb veth; do
    ! ip link add vpn-customer7 type $type 2>>kinds.txt || break
done
ip link show vpn-customer7 >/dev/null
mount -t sysfs sysfs /sys
ip link set vpn-customer7 up
ip addr add 10.0.0.1/24 dev vpn-customer7
ip route add default via 10.0.0.2 dev vpn-customer7
ip link set lo up
export NCCL_SOCKET_IFNAME="^docker0,vpn-customer7" GLOO_SOCKET_IFNAME=vpn-customer7 UCX_NET_DEVICES=mlx5_0:1,vpn-customer7
"$REPRO" capture --json --record record >live.json
"$REPRO" capture >page.txt
"$REPRO" capture --json --root record >again.json
"$REPRO" capture --json --identify >clear.json
END
unshare --net --mount sh -c 'mount -t sysfs sysfs /sys && { ip link add vpn-customer7 type dummy || ip link add vpn-customer7 type bridge; }' 2>err.txt ||
    skip "no interfaces can be made here: $(cat err.txt)"
unshare --net --mount sh ./inside.sh 2>err.txt || { cat err.txt >&2 && fail "capture fails"; }

! grep -rlF customer7 record live.json again.json page.txt >found.txt || fail "the name is in $(cat found.txt)"
[ -z "$(find record -name '*customer7*')" ] || fail "the record has a file of that name"
find record -type l -exec readlink {} + >links.txt
! grep -F customer7 links.txt || fail "a link of the record leads to the name"
diff live.json again.json >difference.txt || { cat difference.txt >&2 && fail "the record gives another document"; }

# One hidden form everywhere, so that values can still be joined.
name=$(jq -r .probes.network.default_interface.value live.json)
expr "$name" : 'if-[0-9a-f]\{12\}$' >true.txt || fail "'$name' is no hidden name"
jq -e --arg name "$name" '.probes | (.network.interfaces | has($name) and has("lo")) and
    .network.interfaces[$name].mtu.source == "/sys/class/net/\($name)/mtu" and
    (.environment | .NCCL_SOCKET_IFNAME.value == "^docker0,\($name)" and .GLOO_SOCKET_IFNAME.value == $name and
        .UCX_NET_DEVICES.value == "mlx5_0:1,\($name)")' live.json >true.txt || fail "another form elsewhere: $(jq .probes.network live.json)"
[ -e "record/sys/class/net/$name/mtu" ] || fail "the record lacks the interface"

jq -e '.probes | (.network | .default_interface.value == "vpn-customer7" and (.interfaces | has("vpn-customer7"))) and
    .environment.NCCL_SOCKET_IFNAME.value == "^docker0,vpn-customer7"' clear.json >true.txt || fail "--identify does not show the name"
