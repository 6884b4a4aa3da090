#!/bin/bash
# run --hosts with OpenSSH's own ssh and sshd, between network namespaces: by names of ssh_config and by addresses; a host that nobody has, a key
# that is refused, a host that ssh does not know; a link that breaks ends the job and what ran there.
# timeout: 200
# serial
. "$TEST_DIR/hosts.inc"
sshd=$(command -v sshd) || skip "sshd is not installed"
need ssh ssh-keygen
[ "$(id -u)" = 0 ] || skip "only root can start sshd here"
model="$bert --set train.accumulation_steps=4"
ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -q -t ed25519 -N '' -f stranger
ssh-keygen -q -t ed25519 -N '' -f hostkey
cp key.pub authorized
made=
[ -d /run/sshd ] || { mkdir /run/sshd && made=/run/sshd; }
# shellcheck disable=SC2317,SC2329 # called by the trap
stop_all() {
    # shellcheck disable=SC2086
    [ -z "${daemons:-}" ] || kill $daemons 2>/dev/null || :
    [ -z "$made" ] || rmdir "$made" 2>/dev/null || :
    remove_hosts
}
trap stop_all EXIT
daemons=
for host in 1 2; do
    mkdir -p "home$host/tmp"
    cat >"sshd$host.conf" <<TEXT
Port 22
HostKey $PWD/hostkey
AuthorizedKeysFile $PWD/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
SetEnv HOME=$PWD/home$host XDG_CACHE_HOME=$PWD/home$host/cache TMPDIR=$PWD/home$host/tmp REPRO_HOST=host$host
TEXT
    ip netns exec "$(host_ns $host)" "$sshd" -D -e -f "$PWD/sshd$host.conf" 2>"sshd$host.log" &
    daemons="$daemons $!"
    wait_until $! grep -q listening "sshd$host.log"
    echo "192.0.2.$((host + 1)) $(cut -d ' ' -f 1,2 hostkey.pub)" >>known
done
cat >ssh.conf <<TEXT
IdentityFile $PWD/key
IdentitiesOnly yes
UserKnownHostsFile $PWD/known
StrictHostKeyChecking yes
User root
Host node1
    HostName 192.0.2.2
TEXT
export REPRO_SSH="ssh -F $PWD/ssh.conf" REPRO_HOST=host0
run_from_0() { # HOSTS OPTION...
    list=$1
    shift
    # shellcheck disable=SC2086
    ip netns exec "$(host_ns 0)" "$REPRO" run $model --hosts "$list" "$@"
}
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run $model --steps 2 -o one.repro.tar.zst
exit_of 0 run_from_0 192.0.2.1,node1:2,root@192.0.2.3 --steps 2 -o job.repro.tar.zst
ranks_in job.repro.tar.zst 4
same_bits one.repro.tar.zst job.repro.tar.zst
verified job.repro.tar.zst
[ -z "$(find home1 home2 -path '*/repro-*')" ] || fail "something is left: $(find home1 home2 -path '*/repro-*')"

refused() { # TEXT HOSTS OPTION...
    text=$1
    shift
    began=$(milliseconds)
    exit_of 7 run_from_0 "$@" --steps 1 -o refused.repro.tar.zst
    says "$text"
    [ $(($(milliseconds) - began)) -lt 15000 ] || fail "$*: after $(($(milliseconds) - began)) ms"
}
refused "host 192.0.2.9:" localhost,192.0.2.9
cp stranger.pub authorized
refused "Permission denied" localhost,node1
cp key.pub authorized
refused "Host key verification failed" localhost,node1 --ssh "ssh -F ssh.conf -o UserKnownHostsFile=/dev/null"
refused "host 192.0.2.4:" localhost,192.0.2.4

# The link of a host breaks: no process is left, on either side of it.
run_from_0 localhost,node1,192.0.2.3 --steps 100000 -o broken.repro.tar.zst >out.txt 2>err.txt &
job=$!
wait_until "$job" grep -q timed err.txt
there=$(ip netns pids "$(host_ns 2)")
link 2 down
began=$(milliseconds)
while alive "$job"; do
    [ $(($(milliseconds) - began)) -lt 15000 ] || fail "the job is there after 15 s"
    sleep 0.1
done
took=$(($(milliseconds) - began))
wait "$job" && fail "a job that lost a host succeeds"
status_of broken.repro.tar.zst failed 'rank 2\b'
began=$(milliseconds)
for one in $there; do
    while alive "$one" && { tr '\0' ' ' <"/proc/$one/cmdline"; } 2>/dev/null | grep -q -e --host-process -e --worker; do
        [ $(($(milliseconds) - began)) -lt 15000 ] || fail "process $one is left on the host that was cut off"
        sleep 0.1
    done
done
echo "a link breaks: the job has ended after $took ms"
