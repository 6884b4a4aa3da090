#!/bin/bash
# run --hosts with a played ssh: the program copies itself to hosts that print a greeting, and trains there with the bits of one rank; what is
# already there is not copied; hosts that cannot be reached or used are refused by name; a host that dies ends the job; nothing is left behind.
# timeout: 200
. "$TEST_DIR/common.inc"
export PLAY="$PWD/play" REPRO_SSH="sh $TEST_DIR/played_ssh.inc"
mkdir play
few_words
model="$bert $bert_few --set train.accumulation_steps=4"
# shellcheck disable=SC2086 # several words
exit_of 0 "$REPRO" run $model --steps 2 -o one.repro.tar.zst
sent() { stat -c %s "play/$1.sent"; }
left_behind() { # HOST...: nothing of the program is left there; other tests have directories in /tmp, and below them files of any name
    for host; do
        left=$(find "play/$host" "$TMPDIR" -path '*/repro-[0-9a-f]*'
            find /tmp /var/tmp /dev/shm -maxdepth 1 -newer mark | grep -E '/repro-[0-9a-f]{8}' || :)
        [ -z "$left" ] || fail "something is left on $host: $left"
    done
}
touch mark

# Two hosts with 2 and 1 ranks, one of them by user and name, beside one rank here. The recipe and what it names are files of this host alone.
# The hosts take them away before their process starts.
"$REPRO" recipes show bert_tiny_fp32 | sed '/^model:/,/^[a-z]*:/{/^  /d}; s|^model:|model:\n  config: mine.json|' >mine.yaml
echo '{"vocab_size": 2048, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02}' >mine.json
echo "mv '$PWD'/mine.* '$PWD/play' 2>/dev/null || :" >play/h2.setup
key=$("$REPRO" launch key)
# shellcheck disable=SC2086
REPRO_JOB_KEY=$key exit_of 0 "$REPRO" run mine.yaml ${model#bert_tiny_fp32} --hosts "localhost,me@loud1:2,h2" --steps 2 -o job.repro.tar.zst
ranks_in job.repro.tar.zst 4
same_bits one.repro.tar.zst job.repro.tar.zst
jq -e '.run.world.nodes == 3 and (.facts | .launch.launcher == "hosts" and .launch.decided_by == ["--hosts"] and (.process | map(.ranks)) == [1, 2, 1] and
    (.process | map(.program) | unique | length) == 1 and (.rank | map(.node)) == [0, 1, 1, 2])' bits.json >answer.txt || { jq '.run.world, .facts' bits.json >&2; fail "other hosts"; }
"$REPRO" inspect job.repro.tar.zst env/node1.before.json | jq -r '.probes.program.sha256.value' >digest.txt
[ "$(cat digest.txt)" = "$(jq -r '.facts.process[1].program' bits.json)" ] || fail "another digest of the program in the capture"
verified job.repro.tar.zst --replay 1 --data few/bert
left_behind loud1 h2
[ "$(sent h2)" -gt "$(stat -c %s "$REPRO")" ] || fail "the program was not copied"
grep -q 'me@loud1' play/loud1.args || fail "the user is lost"
! grep -rq "$key" play/*.args || fail "the key of the job is in arguments"

# What stays in the cache is not copied again, unless it has other bytes.
# shellcheck disable=SC2086
on_h2() { exit_of 0 "$REPRO" run $model --hosts localhost,h2 --steps 1 -f -o job.repro.tar.zst "$@"; }
on_h2 --keep-program
[ "$(find play/h2/.cache -name 'repro-*' -type f | wc -l)" = 1 ] || fail "the program is not in the cache"
cached=$(find play/h2/.cache -name 'repro-*' -type f)
on_h2
[ "$(sent h2)" -lt 100000 ] || fail "the program was copied again: $(sent h2) bytes"
printf '#!/bin/sh\ntouch %s/wrong\n' "$PWD" >"$cached"
on_h2 --ranks-per-node 2
[ "$(sent h2)" -gt 100000 ] && [ ! -e wrong ] || fail "another file was taken for the program"
ranks_in job.repro.tar.zst 4
rm -r play/h2/.cache

# Refused before anything runs: names, then hosts. The words are in over_ssh.out.
refused() { # STATUS HOSTS OPTION...
    status=$1 hosts=$2
    shift 2
    began=$(milliseconds)
    # shellcheck disable=SC2086
    exit_of "$status" "$REPRO" run $model --hosts "$hosts" --steps 1 -o refused.repro.tar.zst "$@"
    words
    [ $(($(milliseconds) - began)) -lt 10000 ] || fail "$hosts: refused after $(($(milliseconds) - began)) ms"
    [ ! -e refused.repro.tar.zst ] || fail "a bundle of a run that was refused"
}
rm -f play/*.args
# shellcheck disable=SC2016 # nothing is to be expanded
for name in '-oProxyCommand=touch wrong' 'a;touch wrong' 'a$(touch wrong)' "a'b" '`touch wrong`' "$(printf 'a\nb')" 'a:0' '-x@b'; do
    refused 2 "localhost,$name"
done
refused 2 localhost,h1,me@h1:2
refused 2 192.0.2.7,192.0.2.8
refused 2 localhost:2
refused 2 localhost,h1 --ranks 2
refused 2 localhost,h1 --nodes 2
refused 2 localhost,h1 --ssh " "
[ -z "$(ls play/*.args 2>/dev/null)" ] && [ ! -e wrong ] || fail "ssh was started for a name that is refused"
refused 7 localhost,h1,refused
refused 7 localhost,nobody
refused 7 localhost,hang,h1 --join-timeout 2
refused 7 localhost,chatter
refused 7 localhost,arm
refused 7 localhost,early
refused 7 localhost,short
refused 7 localhost,h1 --ssh no-such-program
left_behind h1
[ -z "$(pgrep -f "$PLAY" || :)" ] || fail "processes are left: $(pgrep -af "$PLAY")"

# Another build of the same version is refused where it joins; the played host has it in its PATH under the digest of ours.
cat >play/other.setup <<'TEXT'
tools sha256sum "$(sha256sum <"$REPRO" | cut -c 1-64)  -"
{ cat "$REPRO" && echo "another build"; } >"$home/bin/repro"
chmod 755 "$home/bin/repro"
TEXT
refused 5 localhost,other >other.txt
sed 's/ ([^()]*, [^()]*) has/ (NAME, ADDRESS) has/; s/rank 0 ([^()]*)/rank 0 (NAME)/' other.txt
# shellcheck disable=SC2086
exit_of 0 "$REPRO" run $model --hosts localhost,other --allow-different-programs --steps 1 -o different.repro.tar.zst
"$REPRO" inspect different.repro.tar.zst facts.json | jq -e '.process | map(.program) | unique | length == 2' >answer.txt || fail "one digest for two programs"
verified different.repro.tar.zst

# A directory that is mounted noexec is passed over; with nothing else, the remedy is named.
if unshare -m mount -t tmpfs -o noexec none /var/tmp 2>answer.txt; then
    # shellcheck disable=SC2016 # for the shell there
    cat >play/noexec.setup <<'TEXT'
mkdir -p "$home/tmp"
extra="TMPDIR=$home/tmp"
wrapper="unshare -m sh $PLAY/mounts $home/tmp"
TEXT
    # shellcheck disable=SC2016
    printf '%s\n' 'for one in $(echo "$1" | tr , " "); do mount -t tmpfs -o noexec none "$one" || exit 9; done; shift; exec "$@"' >play/mounts
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" run $model --hosts localhost,noexec --steps 1 -f -o job.repro.tar.zst
    sed 's|home/tmp"$|home/tmp,$home/.cache,/var/tmp,/dev/shm"|; s|^mkdir .*|mkdir -p "$home/tmp" "$home/.cache"|' play/noexec.setup >play/nowhere.setup
    refused 7 localhost,nowhere >nowhere.txt
    says TMPDIR
    says /dev/shm
else
    echo "no mounts here" >&2
fi

# What ends a job of hours: the process there dies, ssh breaks, Ctrl-C.
start_job() {
    rm -f job.repro.tar.zst err.txt
    # shellcheck disable=SC2086
    setsid "$REPRO" run $model --hosts localhost,h1,h2 --steps 100000 -o job.repro.tar.zst >out.txt 2>err.txt &
    job=$!
    wait_until "$job" grep -q timed err.txt
    all=$(children "$job")
}
job_ends() { # STATUS LIMIT_MS
    began=$(milliseconds) status=0
    while alive "$job"; do
        [ $(($(milliseconds) - began)) -lt "$2" ] || fail "the job is there $2 ms later"
        sleep 0.05
    done
    wait "$job" || status=$?
    [ "$status" = "$1" ] || { cat err.txt >&2; fail "the job ends with $status"; }
    # shellcheck disable=SC2086
    none_left $all
    echo "$3: ended in time"
}
process_on() { # HOST: the process of the job there
    for one in $all; do
        tr '\0' '\n' <"/proc/$one/environ" 2>/dev/null | grep -qx "REPRO_HOST=$1" && tr '\0' ' ' <"/proc/$one/cmdline" | grep -q -- --host-process && echo "$one" && return
    done
    fail "no process on $1"
}
# Ctrl-C before anything runs elsewhere.
rm -f play/hang.args
# shellcheck disable=SC2086
setsid "$REPRO" run $model --hosts localhost,hang --steps 1 -o early.repro.tar.zst >out.txt 2>err.txt &
job=$!
wait_until "$job" test -s play/hang.args
all=$(children "$job")
kill -INT "$job"
job_ends 130 5000 "Ctrl-C while ssh hangs"
[ ! -e early.repro.tar.zst ] || fail "a bundle of a run that never began"
start_job
kill -KILL "$(process_on h2)"
job_ends 7 10000 "a process is killed"
status_of job.repro.tar.zst failed 'rank 2\b'
verified job.repro.tar.zst
start_job
kill "$(cat play/h1.relay)"
job_ends 7 10000 "ssh breaks"
status_of job.repro.tar.zst failed '^unavailable, rank 1, timed'
says_in h1 err.txt
start_job
kill -INT "$job"
job_ends 130 10000 "Ctrl-C"
status_of job.repro.tar.zst incomplete interrupted
steps=$("$REPRO" inspect job.repro.tar.zst steps/rank0.jsonl | tail -n +2 | wc -l)
"$REPRO" inspect job.repro.tar.zst facts.json | jq -e --argjson n "$steps" '(.reason | capture("after (?<n>[0-9]+) step") | .n | tonumber) == $n' >answer.txt ||
    fail "the reason has another number of steps than the bundle, $steps"
says_in "after $steps step" err.txt
left_behind h1 h2
start_job
kill -KILL "$job"
job_ends 137 10000 "process 0 is killed"
