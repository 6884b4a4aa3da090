#!/bin/bash
# The printed scripts of mpirun and mpiexec, on two hosts that are network namespaces: ranks find rank 0 and train to the bits of one rank.
# One host is not enough: Open MPI 5 found nobody on the other.
# LAUNCHERS: others than Debian's, as words KIND=DIRECTORY of their programs (make oracle: torchrun too). Hydra looks
# for its proxy next to the name that it was started by: a link to mpiexec in another directory does not work.
# timeout: 300
hosts=2
. "$TEST_DIR/hosts.inc"
if [ -z "${LAUNCHERS:-}" ]; then
    ! command -v mpirun.openmpi >answer.txt || LAUNCHERS="openmpi="
    ! command -v mpiexec.hydra >answer.txt || LAUNCHERS="${LAUNCHERS:-} mpich="
fi
[ -n "${LAUNCHERS:-}" ] || skip "neither mpirun.openmpi nor mpiexec.hydra is installed"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HEAD=192.0.2.1 LENGTH="$bert --steps 2"
# In the place of ssh; and the program, which sees other hosts by the addresses of their interfaces.
mkdir bin
cat >bin/agent <<END
#!/bin/sh
while case \$1 in -*) ;; *) false ;; esac; do shift; done
host=\${1##*.}
shift
echo "\$host" >>"$PWD/agents.txt"
exec ip netns exec $prefix-\$((host - 1)) sh -c "\$*"
END
cat >bin/repro <<'END'
#!/bin/sh
read -r REPRO_HOST </sys/class/net/eth0/address
export REPRO_HOST
[ "$1" = run ] || exec "$REPRO" "$@"
shift
exec "$REPRO" run "$@" ${LENGTH#* }
END
chmod +x bin/*
path=$PATH
# torchrun finds its own host by the addresses of its name, and tells others that name: hosts need one each, which `ip netns exec` takes from /etc.
names() { # make|remove
    for host in 0 1; do
        [ "$1" = make ] || { rm -rf "/etc/netns/$(host_ns $host)" && continue; }
        mkdir -p "/etc/netns/$(host_ns $host)"
        printf '192.0.2.1 host0\n192.0.2.2 host1\n' >"/etc/netns/$(host_ns $host)/hosts"
    done
    rmdir /etc/netns 2>/dev/null || :
}
named() { # HOST COMMAND...
    host=$1
    shift
    # shellcheck disable=SC2016 # expanded there
    ip netns exec "$(host_ns "$host")" unshare --uts sh -c 'hostname "$0" && exec "$@"' "host$host" "$@"
}
export OMPI_MCA_plm_rsh_agent="$PWD/bin/agent" PRTE_MCA_plm_ssh_agent="$PWD/bin/agent" HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC="$PWD/bin/agent"
export I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC="$PWD/bin/agent"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $LENGTH --set train.accumulation_steps=4 -o one.repro.tar.zst

for one in $LAUNCHERS; do
    kind=${one%%=*} programs=${one#*=}
    rm -rf mpi
    mkdir mpi # the names that the scripts use
    [ -n "$programs" ] || case $kind in
        openmpi) ln -s "$(command -v mpirun.openmpi)" mpi/mpirun ;;
        *) printf '#!/bin/sh\nexec mpiexec.hydra "$@"\n' >mpi/mpiexec && chmod +x mpi/mpiexec ;; # by a link it would look for its proxy next to that
    esac
    export PATH="$PWD/bin:${programs:-$PWD/mpi}:$path"
    rm -f hosts agents.txt
    for address in 192.0.2.1 192.0.2.2; do
        case $kind in openmpi) echo "$address slots=2" ;; *) echo "$address" ;; esac >>hosts
    done
    repro launch "$kind" --nodes 2 --ranks-per-node 2 --recipe bert_tiny_fp32 --name job >job.sh
    case $kind in torchrun) # an agent on every host, with the same key
        trap 'remove_hosts; names remove' EXIT
        names make
        new_key
        named 1 sh job.sh >out1.txt 2>err1.txt &
        members=$!
        echo 2 >agents.txt
        ;;
    esac
    case $kind in torchrun) exit_of 0 named 0 sh job.sh ;; *) exit_of 0 ip netns exec "$(host_ns 0)" sh job.sh ;; esac
    [ -z "$members" ] || { wait $members && members=; } || { cat err1.txt >&2; fail "the agent of the second host"; }
    unset REPRO_JOB_KEY
    ranks_in job.repro.tar.zst 4
    same_bits one.repro.tar.zst job.repro.tar.zst
    jq -e --arg kind "$kind" '.run.world.nodes == 2 and (.facts | .launch.launcher == $kind and .launch.size == 4 and ([.process[].host] == [0, 0, 1, 1]))' bits.json >answer.txt ||
        { jq '.run.world, .facts' bits.json >&2; fail "${programs:-Debian}'s $kind is not recorded on two hosts"; }
    [ -s agents.txt ] || fail "$kind did not start ranks on the second host"
    verified job.repro.tar.zst
    rm job.repro.tar.zst

    # The other host first: Open MPI 4 starts with its own all the same, 5 does not, and names no other address.
    case $kind in openmpi)
        REPRO_JOB_KEY=$(repro launch key)
        export REPRO_JOB_KEY
        other="mpirun --host 192.0.2.2:1,192.0.2.1:1 -n 2 -x REPRO_JOB_KEY repro launch whoami --meet --join-timeout 3"
        # shellcheck disable=SC2086
        ip netns exec "$(host_ns 0)" $other >out.txt 2>err.txt || says "--join HOST:PORT"
        for host in 192.0.2.1 192.0.2.2; do
            # shellcheck disable=SC2086
            ! ip netns exec "$(host_ns 0)" $other --join $host >out.txt 2>>err.txt || break
        done
        [ "$(grep -c 'host [01] of 2' out.txt)" = 2 ] || { cat out.txt err.txt >&2; fail "--join does not bring two hosts together"; }
        unset REPRO_JOB_KEY
        ;;
    esac
done
