#!/bin/bash
# A container started by Podman, as it is seen from inside: its limits, and the flags it was started with come back.
# timeout: 240
. "$TOP/tests/common.inc"
[ "$(id -u)" = 0 ] || skip "only root can start this container"
need podman
"$REPRO" version >out.txt
mkdir -p tree/{proc,sys,dev,tmp,etc,data} data
cp "$REPRO" tree/repro
own_container_storage
cat >containers.conf <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
log_driver = "k8s-file"
END
command -v crun >/dev/null || sed -i 's/^\[engine\]$/&\nruntime = "runc"/' containers.conf
export CONTAINERS_CONF=$PWD/containers.conf
# Limits that a machine without the right to raise any can give; without a network, since that needs no firewall.
lower=(--ulimit nofile=1000:2000 --ulimit nproc=500:600 --ulimit memlock=65000 --ulimit stack=67108864 --network none)
inside() { # FILE FLAG...
    file=$1
    shift
    podman run --rm "${lower[@]}" "$@" --rootfs "$PWD/tree" /repro capture --json >"$file" 2>err.txt
}
flags() { # FILE: one a line
    jq -r '.probes.launch | (.known + .inferred)[].value' "$1" | LC_ALL=C sort
}
expect() { # FILE FLAG...: these and no others
    file=$1
    shift
    printf '%s\n' "--ulimit nofile=1000:2000" "--ulimit nproc=500:600" "--ulimit memlock=65000" "--ulimit stack=67108864" "$@" |
        LC_ALL=C sort >expected.txt
    diff expected.txt <(flags "$file") >difference.txt || { cat difference.txt >&2 && fail "other flags come back in $file"; }
}
inside plain.json --pids-limit 100 || skip "podman does not work here: $(tail -n 1 err.txt)"
expect plain.json --pids-limit=100
[ "$(jq -r .probes.container.engine.value plain.json)" = podman ] || fail "the engine is $(jq -c .probes.container.engine plain.json)"
[ "$(jq -r .probes.security.privileged.value plain.json)" = no ] || fail "it is not privileged"
[ "$(jq -r .probes.security.namespaces.net.value plain.json)" = own ] || fail "the network is its own"
[ "$(jq -r .probes.limits.memlock.hard.value plain.json)" = 65000 ] || fail "the limit of locked memory"

if inside limits.json --pids-limit 100 --memory 512m --cpus 1.5 --cpuset-cpus 0 --shm-size 96m -v "$PWD/data:/data:ro" \
    --tmpfs /scratch:size=16m -e NCCL_DEBUG=INFO; then
    cpuset=--cpuset-cpus=0
    [ "$(cat /sys/devices/system/cpu/online)" != 0 ] || cpuset=
    # shellcheck disable=SC2086
    expect limits.json --pids-limit=100 --memory=512m --cpus=1.5 $cpuset --shm-size=96m "-v HOST:/data:ro" \
        "--tmpfs /scratch:size=16384k"
    [ "$(jq -r .probes.limits.shm_size.value limits.json)" = 100663296 ] || fail "the size of /dev/shm"
    ! grep -qF "$PWD" limits.json || fail "a path of the host shows"
else
    grep -qiE 'cgroup|controller' err.txt || fail "podman refuses limits: $(tail -n 1 err.txt)"
fi
inside rights.json --pids-limit 100 --cap-drop all --cap-add net_admin --security-opt no-new-privileges --security-opt seccomp=unconfined ||
    fail "podman refuses fewer rights: $(tail -n 1 err.txt)"
rights=$(jq -c '.probes.security | [.capabilities_bounding, .no_new_privileges, .seccomp] | map(.value)' rights.json)
[ "$rights" = '[["net_admin"],"yes","off"]' ] || fail "the rights are $rights"
inside privileged.json --pids-limit 100 --privileged --ipc host --pid host --uts host ||
    fail "podman refuses --privileged: $(tail -n 1 err.txt)"
expect privileged.json --pids-limit=100 --privileged --ipc=host --pid=host --uts=host
[ "$(jq -r .probes.security.privileged.value privileged.json)" = yes ] || fail "it is privileged"

# A run without root, without a home, with nothing writable but the two volumes of the images, by a user that the container does not know.
mkdir -p tree/{work,key} work key
chmod 1777 work key
walk() { # FLAG... -- ARGUMENT OF run...
    flags=()
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    podman run --rm "${lower[@]}" --read-only --workdir /work --env HOME=/work --env XDG_CONFIG_HOME=/key "${flags[@]}" --rootfs "$PWD/tree" /repro run \
        bert_tiny_fp32 --steps 1 --threads 1 --set measure.warmup_steps=0 --set measure.repeats=1 --set measure.ceilings=false "$@"
}
walk --user 4321:8765 --volume "$PWD/work:/work" --volume "$PWD/key:/key" -- >out.txt 2>err.txt || fail "a run in two volumes: $(tail -n 3 err.txt)"
[ -f work/"$(grep -o '^bert_tiny.*zst$' out.txt)" ] || fail "no bundle in the volume: $(ls work)"
[ "$(stat -c %u key/repro/key.pem)" = 4321 ] || fail "the key is not in its volume"
grep -q "lost with" err.txt && fail "volumes are taken for the container's own layer"
walk --user 4321:8765 --unsetenv-all --volume "$PWD/key:/key:ro" -- --key /key/repro/key.pem -o - >piped.zst 2>err.txt || fail "-o -: $(tail -n 3 err.txt)"
"$REPRO" verify piped.zst --any-key >out.txt || fail "the bundle of -o - does not verify"
walk --user 99 -- -o - >piped.zst 2>err.txt && fail "a run without a place for a key"
grep -q "cannot make the signing key '/key/repro/key.pem': .*Read-only file system; .*REPRO_KEY=FILE.* on a volume" err.txt || fail "what to do is not said: $(cat err.txt)"
