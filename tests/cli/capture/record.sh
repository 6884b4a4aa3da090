#!/bin/sh
# A record stands in for the machine: the same document, names hidden in it too; what is no whole record is refused.
. "$TOP/tests/common.inc"
export OMP_NUM_THREADS=3 MY_SECRET=planted-in-a-variable NCCL_SECRET_TOKEN=planted-in-an-allowed-one
# A device may go while it is recorded, such as an interface of another test: then once more.
same() { # RECORD COMMAND...: writes live.json and again.json
    rm -rf "$1"
    record=$1
    shift
    "$@"
    diff live.json again.json >difference.txt && return
    rm -rf "$record"
    "$@"
    diff live.json again.json >difference.txt || { cat difference.txt >&2 && fail "the record '$record' gives another document"; }
}
here() { "$REPRO" capture --record machine --json >live.json && "$REPRO" capture --root machine --json >again.json; }
same machine here
# A name that is hidden in the record is not hidden once more when it is read.
deep=$PWD/storage/$(echo deep | sha256sum | cut -c 1-64)/shm
mkdir -p "$deep"
if unshare -m mount -t tmpfs tmpfs "$deep" 2>answer.txt; then
    mounted() {
        # shellcheck disable=SC2016 # of the shell below
        unshare -m sh -c 'mount -t tmpfs tmpfs "$1" && "$2" capture --record mounted --json >live.json && "$2" capture --root mounted --json' sh "$deep" "$REPRO" >again.json
    }
    same mounted mounted
    grep -q '<hidden>/shm' live.json || fail "the mount is not in the document"
fi
for option in "--repo ." --digests --identify; do
    # shellcheck disable=SC2086
    exit_of 2 "$REPRO" capture --root machine $option
    says "record"
done
for secret in planted "$(uname -n)" "$(cat /etc/machine-id 2>/dev/null || echo none)" "$(cat /proc/sys/kernel/random/boot_id)"; do
    case $secret in
    ???????*) ! grep -rqF -e "$secret" machine again.json || fail "'$secret' is in the record: $(grep -rlF -e "$secret" machine)" ;;
    esac
done
[ -s machine/proc/cpuinfo ] || fail "no file of the machine"
[ "$(find machine -type f -size +8M | wc -l)" = 0 ] || fail "the record holds something large"

# Only what is asked for, and only what it read.
"$REPRO" capture --probe cpu,kernel --record part --json >part.json
[ "$(jq -r '.probes | keys | join(" ")' part.json)" = "cpu kernel" ] || fail "other probes ran"
[ ! -e part/proc/meminfo ] || fail "other probes' files are recorded"
exit_of 2 "$REPRO" capture --probe cpu,memroy
words
for list in "" "cpu," ",cpu" "cpu,,memory"; do
    exit_of 2 "$REPRO" capture --probe "$list"
    words
done

# Refused: into a full directory, not redacted, unfinished, not a record's document, nothing there.
exit_of 3 "$REPRO" capture --record machine
words
exit_of 2 "$REPRO" capture --record new --identify
words
[ ! -e new ] || fail "something was written for a refused record"
rm part/.repro/live.json
exit_of 4 "$REPRO" capture --root part
words
echo '{"schema": "other"}' >part/.repro/live.json
exit_of 4 "$REPRO" capture --root part
says "repro-record/1"
exit_of 3 "$REPRO" capture --root nothing-there
says "nothing-there"

# A record that cannot be finished says so, and is refused afterwards.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 .. . && mkdir closed && cp "$REPRO" repro-copy && chmod 755 repro-copy
    exit_of 3 setpriv --reuid 65534 --regid 65534 --clear-groups ./repro-copy capture --record closed
    says "closed"
fi

# A link of a stranger's record leads nowhere outside it, and odd answers make no odd document.
dmi=sys/class/dmi/id
mkdir -p hostile/.repro hostile/proc hostile/etc hostile/$dmi
printf 'model name\t: outside-of-the-root\nPRETTY_NAME=outside-of-the-root\n' >secret.txt
echo inside-the-root >hostile/vendor
ln -s /vendor hostile/$dmi/sys_vendor
ln -s "$PWD/secret.txt" hostile/proc/cpuinfo
ln -s ../../../../../../../../../../../../../../../.."$PWD/secret.txt" hostile/etc/os-release
echo '{"schema": "repro-record/1", "salt": 7, "states": {"/proc/meminfo": {"state": "ok"}, "/proc/uptime": 1},
    "answers": {"git workdir": {"commit": {"a": [[]]}, "x": 5, "modified": 7, "submodules": [1], "branch": {"state": "ok", "value": "\u001b[31m", "source": "x"}},
    "git odd name": 1, "uname": 3, "space /dev/shm": {"total": "x"}, "file /proc/self/exe": []}}' \
    >hostile/.repro/live.json
look() {
    "$@" "$REPRO" capture --root hostile --json >hostile.json || fail "a hostile record is no reason to fail"
    ! grep -q outside-of-the-root hostile.json || fail "a link led out of the record"
    [ "$(jq -r .probes.host.vendor.value hostile.json)" = inside-the-root ] || fail "a link inside the record is not followed"
}
look env
if strace -o trace.txt -e trace=openat2 -e inject=openat2:error=ENOSYS true 2>err.txt; then # as on Linux before 5.6
    look strace -f -o trace.txt -e trace=openat2 -e inject=openat2:error=ENOSYS
fi
jq -e '[.probes | .. | objects | select(has("state") and (.state | type) == "string") | select(.state != "ok" and .value != null)] == []' \
    hostile.json >true.txt || fail "odd values: $(cat true.txt)"
jq -e '.probes.git | keys == ["workdir"] and .workdir.branch.state == "error" and [.. | numbers, arrays] == []' hostile.json >true.txt || fail "the record put something of its own into the document"

# tests/hosts/tree.sh says the same record as text.
"$TOP/tests/hosts/tree.sh" machine >tree.txt
entries=$(find machine -mindepth 1 \( -type l -o -type f -o -type d -empty \) | wc -l)
[ "$(grep -c '^@ ' tree.txt)" = "$entries" ] || fail "files are missing"
grep -q '^@ /proc/cpuinfo$' tree.txt || fail "no /proc/cpuinfo in the text"
