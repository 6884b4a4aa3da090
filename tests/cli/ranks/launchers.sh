#!/bin/sh
# mpirun of Open MPI, mpiexec of MPICH and torchrun's variables start training: one bundle with the bits of one rank, which names the launcher.
# timeout: 300
. "$TEST_DIR/common.inc"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
few_words
model="$bert $bert_few --set train.accumulation_steps=4"
short="$model --steps 2"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $short -o one.repro.tar.zst
one_bundle() { # LAUNCHER RANKS: of the last exit_of
    ranks_in job.repro.tar.zst "$2"
    same_bits one.repro.tar.zst job.repro.tar.zst
    jq -e --arg l "$1" --argjson n "$2" '.run.world.nodes == 1 and (.facts | .launch.launcher == $l and .launch.size == (.process | length) and
        (.process | map(.ranks) | add) == $n)' bits.json >answer.txt || { jq '.run.world, .facts' bits.json >&2; fail "$1 is not recorded"; }
    [ "$(grep -c 'job\.repro\.tar\.zst$' out.txt)" = 1 ] || { cat out.txt >&2; fail "not one process has printed the bundle"; }
    [ "$(find . -name '*.repro.tar.zst' | wc -l)" = 2 ] || fail "other bundles"
    verified job.repro.tar.zst --replay 1 --data few/bert
    rm job.repro.tar.zst
}
ran=
if command -v mpirun.openmpi >answer.txt; then
    new_key
    # shellcheck disable=SC2086
    exit_of 0 mpirun.openmpi -n 4 -x REPRO_JOB_KEY "$REPRO" run $short -o job.repro.tar.zst
    one_bundle openmpi 4
    # a process for a node with two ranks each is asked for in vain: the launcher has given every process one rank
    # shellcheck disable=SC2086
    exit_of 2 mpirun.openmpi -n 2 -x REPRO_JOB_KEY "$REPRO" run $short --ranks 2 -o job.repro.tar.zst
    says "--ranks asks"
    ran="$ran openmpi"
fi
if command -v mpiexec.hydra >answer.txt; then
    new_key
    # shellcheck disable=SC2086
    exit_of 0 mpiexec.hydra -n 3 "$REPRO" run $short -o job.repro.tar.zst
    one_bundle mpich 3
    ran="$ran mpich"
fi
# What torchrun gives its processes.
new_key
for rank in 0 1; do
    # shellcheck disable=SC2086
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT="$TEST_PORT" TORCHELASTIC_RUN_ID=$$ \
        "$REPRO" run $short --port $((TEST_PORT + 1)) -o job.repro.tar.zst >"out.$rank" 2>"err.$rank" &
    eval "process$rank=$!"
done
# shellcheck disable=SC2154 # by eval
{ wait "$process0" && wait "$process1"; } || { cat err.0 err.1 >&2; fail "torchrun's variables"; }
cp out.0 out.txt
[ ! -s out.1 ] || { cat out.1 >&2; fail "rank 1 prints"; }
one_bundle torchrun 2

# A rank's worker dies under a launcher: everything ends and the bundle records it.
if command -v mpirun.openmpi >answer.txt; then
    rm -f err.txt
    # shellcheck disable=SC2086
    mpirun.openmpi -n 3 -x REPRO_JOB_KEY "$REPRO" run $model --steps 100000 -o job.repro.tar.zst >out.txt 2>err.txt &
    launcher=$!
    wait_until "$launcher" grep -q timed err.txt
    all=$(children "$launcher")
    victim=
    for one in $all; do # the first rank: a child of a `repro run`
        [ -n "$victim" ] || case $(tr '\0' ' ' <"/proc/$one/cmdline" 2>/dev/null) in *" run "*) victim=$(children "$one" | head -n 1) ;; esac
    done
    [ -n "$victim" ] || fail "no rank among '$all'"
    kill -KILL "$victim"
    wait "$launcher" && fail "mpirun ends with 0"
    # shellcheck disable=SC2086
    none_left $all
    status_of job.repro.tar.zst failed 'rank [0-2]\b'
    verified job.repro.tar.zst
fi
echo "with$ran and torchrun's variables"
