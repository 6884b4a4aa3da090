#!/bin/sh
# A tool that watches programs with a GPU starts the worker (RP_GPU_TOOL): what it is given, that it can report, and
# that nothing of either is left, however repro ends. The driver executes nothing, so the operations differ.
. "$TEST_DIR/common.inc"
export SHIM_IDLE="$PWD/idle.txt"
cat >tool <<'EOS'
#!/bin/sh
echo "$1 of $# words" >&2
echo $$ >tool.pid
for program; do :; done
trap '' INT
"$program"
echo "the worker ended with $?" >&2
[ "$1" != stay ] || exec sleep 61
[ "$1" != nine ] || exit 9
EOS
chmod +x tool
running() {
    pgrep -f "^$XDG_CACHE_HOME/repro/repro-gpu-" >/dev/null
}
none_left() {
    wait_gone "$(cat tool.pid)"
    while running; do sleep 0.05; done # no longer than the time limit of the test
}
nine="$PWD/tool nine
  a* $PWD/*"
exit_of 5 on_gpu RP_GPU_TOOL="$nine" "$REPRO" selftest --backend cuda --json
says 'nine of 4 words'
says 'the worker ended with 0'
words err.txt '^repro: note: '
jq -e '.operations | length > 40' out.txt >answer.txt || fail "no operations"
none_left

# Times mean nothing: few calls.
exit_of 0 on_gpu RP_GPU_TOOL="$PWD/tool speed" "$REPRO" selftest --backend cuda --speed --json
jq -e '.speed | length > 40 and all(.calls == 1)' out.txt >answer.txt || fail "more calls than needed: $(jq -c '.speed[].calls' out.txt)"

exit_of 7 on_gpu RP_GPU_TOOL="$PWD/none x" "$REPRO" selftest --backend cuda
words
exit_of 3 on_gpu RP_GPU_TOOL="$PWD/tool x" XDG_CACHE_HOME=/proc/none "$REPRO" selftest --backend cuda
words

# A kernel hangs, and repro is asked to end: the worker ends, the tool reports. One that does not end is killed.
interrupted() { # SIGNAL WORD
    env LD_LIBRARY_PATH="$shim" SHIM_HANG=cuStreamSynchronize:200 RP_GPU_TOOL="$PWD/tool $2" "$REPRO" selftest --backend cuda --json >out.txt 2>err.txt &
    wait_until $! running
    kill "-$1" $!
    status=0
    wait $! || status=$?
    none_left
}
interrupted TERM report
[ $status = 130 ] || fail "status $status after TERM: $(cat err.txt)"
says 'the worker ended with 130'
interrupted TERM stay
[ $status = 130 ] || fail "status $status after TERM: $(cat err.txt)"
interrupted KILL report
exit_of 7 on_gpu SHIM_HANG=cuStreamSynchronize:200 RP_GPU_TIMEOUT_MS=2000 RP_GPU_TOOL="$PWD/tool report" "$REPRO" selftest --backend cuda
says 'the worker ended with 130'
grep -q '^repro: .* 2 s in ' err.txt || fail "no word of the hang: $(cat err.txt)"
none_left

# What only asks the driver needs no tool; a record says that there was one.
exit_of 0 on_gpu RP_GPU_TOOL="$PWD/none x" "$REPRO" capture --probe gpu,environment --json
jq -e --arg tool "$PWD/none x" '.probes | .gpu.worker.value == "present" and .environment.RP_GPU_TOOL.value == $tool' out.txt >answer.txt ||
    fail "not recorded: $(jq -c .probes.environment out.txt)"
