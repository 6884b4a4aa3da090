#!/bin/sh
# Capture works where little can be seen: an ordinary user, /proc with hidepid, no /sys, no /proc, no standard output.
. "$TOP/tests/common.inc"
[ "$(id -u)" = 0 ] || skip "only root can make these places"
need setpriv unshare mount
chmod 755 .. .
cp "$REPRO" repro && chmod 755 repro
mkdir shared && chmod 777 shared
cat >inside.sh <<'END'
set -eu
case $1 in
hidepid) mount -t proc -o hidepid=2 proc /proc ;;
no-sys) umount -l /sys ;;
no-proc) umount -l /proc ;;
esac
exec setpriv --reuid 65534 --regid 65534 --clear-groups ./repro capture --json >"shared/$1.json"
END
unshare --mount --pid --fork true 2>err.txt || skip "no namespaces here: $(cat err.txt)"
for place in plain hidepid no-sys no-proc; do
    unshare --mount --pid --fork sh ./inside.sh $place || fail "capture fails with $place"
    jq -e '.schema == "repro-env/1"' shared/$place.json >true.txt || fail "no document with $place"
    errors=$(jq -c '[.probes | paths(objects and .state == "error")]' shared/$place.json)
    [ "$errors" = "[]" ] || fail "in error with $place: $errors"
done
[ "$(jq -r .probes.security.user.value shared/plain.json)" = ordinary ] || fail "the user is not seen"
[ "$(jq -r .probes.host.product_uuid.state shared/plain.json)" != ok ] || fail "an ordinary user reads a serial number"
[ "$(jq -r .probes.cpu.sockets.state shared/no-sys.json)" = denied ] || fail "without /sys nobody can tell that there are no sockets"
[ "$(jq -r .probes.memory.total.state shared/no-proc.json)" = denied ] || fail "without /proc nobody can tell that there is no memory"
[ "$(jq -r .probes.kernel.release.value shared/no-proc.json)" = "$(uname -r)" ] || fail "uname is always there"

# Without standard output the files are written whole, which is all that was asked for.
status=0
./repro capture -o env.json --record machine >&- 2>err.txt || status=$?
[ $status = 0 ] && [ ! -s err.txt ] || fail "exit status $status: $(cat err.txt)"
jq -e .probes env.json >true.txt || fail "the document is not whole"
./repro capture --root machine >out.txt || fail "the record is not whole"
