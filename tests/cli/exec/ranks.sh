#!/bin/sh
# A launcher starts several `repro exec`: one bundle by process 0, with the output and the end of each; one that fails
# ends all, and is what all end with; signals, and a process that is gone. timeout: 200
# shellcheck disable=SC2086,SC2154 # several words in $table; process0 and 1 by eval
. "$TEST_DIR/common.inc"
job_port=$TEST_PORT
# start N SIZE WORD...: that process of torchrun's variables in the background
start() {
    rank=$1 size=$2
    shift 2
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$size LOCAL_WORLD_SIZE=$size GROUP_RANK=0 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$job_port TORCHELASTIC_RUN_ID=$$ "$REPRO" exec --port $((job_port + 1)) "$@" >"out.$rank" \
        2>"err.$rank" &
    eval "process$rank=$!"
}
ended() { # STATUS...: of processes 0, 1, ...
    rank=0
    for want; do
        eval "one=\$process$rank"
        status=0
        wait "$one" || status=$?
        [ $status = "$want" ] || { cat err.? >&2; fail "process $rank ends with $status, not with $want"; }
        rank=$((rank + 1))
    done
}
facts() { # BUNDLE JQ
    "$REPRO" inspect "$1" facts.json >facts.json
    jq -e "$2" facts.json >answer.txt || { jq 'del(.tool)' facts.json >&2; fail "$1: not so: $2"; }
}

# what each wrote comes through where it was written, and is in the one bundle; the log is that of the process that has
# a figure
new_key
for rank in 0 1 2; do
    start $rank 3 --log csv $table --input train.sh --output out.bin -o job.repro.tar.zst \
        -- sh -c 'echo "rank $RANK of $WORLD_SIZE, key ${REPRO_JOB_KEY:-none}" >&2
        [ $RANK != 2 ] || { ./train.sh; echo data >out.bin; }'
done
ended 0 0 0
cp out.2 wrote.txt
./train.sh >plain.txt 2>plain.err
cmp plain.txt wrote.txt || fail "the output of process 2 is another"
grep -qx "rank 1 of 3, key none" err.1 || fail "the output of process 1 is lost, or has the key"
[ "$(find . -name '*.repro.tar.zst')" = ./job.repro.tar.zst ] || fail "other bundles: $(find . -name '*.repro.tar.zst')"
facts job.repro.tar.zst '.status == "complete" and .ended_by == 0 and (.process | length == 3 and
    all(.[]; .exit_status == 0 and .node == 0 and .stopped == false and
    has("argv") == false)) and .launch.launcher == "torchrun" and .launch.size == 3 and .log.process == 2 and
    (.file | map([.process, .role, .name, .existed]) ==
        [[0, "input", "train.sh", true], [0, "output", "out.bin", false]]) and
    .file[1].sha256 != null'
"$REPRO" inspect job.repro.tar.zst log/process2.stdout | cmp - plain.txt || fail "the bundle has another log"
"$REPRO" inspect job.repro.tar.zst log/process1.stderr | grep -qx "rank 1 of 3, key none" ||
    fail "the bundle lacks what process 1 wrote"
"$REPRO" inspect job.repro.tar.zst run.json |
    jq -e '.log.result[0].throughput.value - 1280 | fabs < 1e-6' >answer.txt || fail "another figure"
exit_of 0 "$REPRO" verify job.repro.tar.zst
exit_of 0 "$REPRO" report job.repro.tar.zst --format md
says_in "| 2 | 0 | status 0 |" out.txt
exit_of 0 "$REPRO" report job.repro.tar.zst --format html

# words that differ are those of the process; without a log there is no figure
start 0 2 -o words.repro.tar.zst -- sh -c 'exit 0' first
start 1 2 -o words.repro.tar.zst -- sh -c 'exit 0' second
ended 0 0
facts words.repro.tar.zst '.argv[3] == "first" and (.process[0] | has("argv") | not) and
    .process[1].argv[3] == "second"'
exit_of 0 "$REPRO" verify words.repro.tar.zst

# one fails: the others get SIGTERM with what they started, then SIGKILL; all end with its status
cat >stubborn.sh <<'END'
#!/bin/sh
trap '' TERM
echo $$ >stubborn.pid
while :; do sleep 0.1; done
END
chmod +x stubborn.sh
start 0 3 -o failed.repro.tar.zst -- sh -c 'sleep 100; true'
start 1 3 -o failed.repro.tar.zst -- ./stubborn.sh
start 2 3 -o failed.repro.tar.zst -- sh -c 'while [ ! -s stubborn.pid ]; do sleep 0.1; done; echo bad >&2; exit 3'
ended 3 3 3
! alive "$(cat stubborn.pid)" || fail "a process of the command is left"
facts failed.repro.tar.zst '.status == "failed" and .ended_by == 2 and
    .reason == "process 2 of the command ended with status 3" and
    (.process | .[2].exit_status == 3 and (.[2].stopped | not) and all(.[0, 1]; .stopped))'
exit_of 10 "$REPRO" verify failed.repro.tar.zst
"$REPRO" inspect failed.repro.tar.zst run.json | jq -e '.exit_status == 3' >answer.txt || fail "another status"
"$REPRO" inspect failed.repro.tar.zst log/process2.stderr | grep -qx bad || fail "its message is lost"

# process 0 fails itself; a signal ends one
start 0 2 -o own.repro.tar.zst -- sh -c 'exit 4'
start 1 2 -o own.repro.tar.zst -- sleep 100
ended 4 4
start 0 2 -o killed.repro.tar.zst -- sleep 100
start 1 2 -o killed.repro.tar.zst -- sh -c 'kill -9 $$'
ended 137 137
facts killed.repro.tar.zst '.process[1].signal == 9 and .ended_by == 1'

# a signal to one process is its command's
start 0 2 -o signal.repro.tar.zst -- sleep 100
start 1 2 -o signal.repro.tar.zst -- sh -c 'touch begun; exec sleep 100'
wait_until $process1 test -e begun
kill -TERM $process1
ended 143 143
facts signal.repro.tar.zst '.status == "incomplete" and .ended_by == 1 and (.reason | test("signal 15 was passed on"))'

# a process that is gone: the rest ends within seconds, and what is known is sealed
rm -f begun
start 0 2 -o gone.repro.tar.zst -- sh -c 'touch begun; sleep 100'
start 1 2 -o gone.repro.tar.zst -- sleep 100
wait_until $process0 test -e begun
kill -9 $process1
status=0
wait $process0 || status=$?
[ $status = 7 ] || { cat err.0 >&2; fail "status $status after a process was gone"; }
wait $process1 || :
facts gone.repro.tar.zst '.status == "failed" and .ended_by == 1 and (.process[1] | .start_ns == null and
    .exit_status == null and .signal == null) and
    .process[0].stopped'
exit_of 10 "$REPRO" verify gone.repro.tar.zst
exit_of 10 "$REPRO" report gone.repro.tar.zst --format md
says_in "gone before it reported" out.txt

# one that is gone after its command had ended
rm -f begun
start 0 2 -o late.repro.tar.zst -- sh -c 'touch begun; sleep 100'
start 1 2 -o late.repro.tar.zst -- true
wait_until $process0 test -e begun
sleep 0.5
kill -9 $process1
status=0
wait $process0 || status=$?
[ $status = 7 ] || { cat err.0 >&2; fail "status $status after a process was gone that had ended"; }
wait $process1 || :
facts late.repro.tar.zst '.status == "failed" and .ended_by == 1 and .process[1].exit_status == null and .process[0].stopped'
exit_of 10 "$REPRO" verify late.repro.tar.zst

# mistakes are those of all: a command that is missing on one, two logs, no key
start 0 2 --log csv:a.csv -o none.repro.tar.zst -- true
start 1 2 --log csv:b.csv -o none.repro.tar.zst -- true
ended 2 2
grep -q "process 0 names the log 'csv' of 'a.csv', and process 1 'csv' of 'b.csv'" err.0 || fail "$(cat err.0)"
unset REPRO_JOB_KEY
start 0 2 -o none.repro.tar.zst -- true
ended 2
grep -q "before torchrun" err.0 || { cat err.0 >&2; fail "no remedy"; }
[ ! -e none.repro.tar.zst ] || fail "a bundle of nothing"

# real launchers; an MPI program would find its process manager as without repro
if command -v mpiexec.hydra >answer.txt; then
    new_key
    for how in "" -pmi-port; do
        exit_of 0 mpiexec.hydra $how -n 3 "$REPRO" exec --force -o mpich.repro.tar.zst \
            -- sh -c 'echo "rank $PMI_RANK"; [ -z "$PMI_FD" ] || [ -e /proc/self/fd/$PMI_FD ]'
        facts mpich.repro.tar.zst '.launch.launcher == "mpich" and (.process | length) == 3'
        exit_of 0 "$REPRO" verify mpich.repro.tar.zst
    done
    exit_of 5 mpiexec.hydra -n 2 "$REPRO" exec --force -o mpich.repro.tar.zst \
        -- sh -c '[ $PMI_RANK = 0 ] || exit 5; sleep 100'
    # one repro around the launcher is one process, and needs no key
    exit_of 0 env -u REPRO_JOB_KEY "$REPRO" exec --force -o mpich.repro.tar.zst -- mpiexec.hydra -n 2 echo hello
    facts mpich.repro.tar.zst '(.process | length) == 1 and (has("launch") | not)'
fi
exit 0
