#!/bin/sh
# The command runs as without repro: its output, its exit status, its signals; and whatever happens to it, there is a
# bundle.
# shellcheck disable=SC2086 # several words in $table and $option
. "$TEST_DIR/common.inc"

# what it prints comes through, byte for byte; nothing of repro is among it
./train.sh 3 >plain.txt 2>plain.err
exit_of 0 "$REPRO" exec -o a.repro.tar.zst -- ./train.sh 3
cmp plain.txt out.txt || fail "standard output is another"
grep -qx "a warning" err.txt || fail "standard error is lost"
"$REPRO" inspect a.repro.tar.zst log/process0.stdout | cmp - plain.txt || fail "the bundle has another output"
"$REPRO" inspect a.repro.tar.zst log/process0.stderr | cmp - plain.err || fail "the bundle has another standard error"
echo given | "$REPRO" exec -q -o in.repro.tar.zst -- cat >out.txt || fail "cat"
grep -qx given out.txt || fail "standard input is not the command's"

# its exit status is repro's; it is sealed as failed, and verify says so
exit_of 3 "$REPRO" exec -o b.repro.tar.zst -- ./train.sh 3 3
says "the command ended with status 3: sealed as failed"
exit_of 10 "$REPRO" verify b.repro.tar.zst
exit_of 0 "$REPRO" verify a.repro.tar.zst
"$REPRO" inspect b.repro.tar.zst facts.json | jq -e '.status == "failed" and (.process[0] | .exit_status == 3 and
    .signal == null)' >/dev/null || fail "another end"
exit_of 137 "$REPRO" exec -o c.repro.tar.zst -- sh -c 'kill -9 $$'
"$REPRO" inspect c.repro.tar.zst facts.json | jq -e '.status == "failed" and (.process[0] | .exit_status == null and
    .signal == 9)' >/dev/null || fail "no signal"
exit_of 10 "$REPRO" verify c.repro.tar.zst

# what cannot be started: the statuses of shells, a clear message, and nothing sealed
exit_of 127 "$REPRO" exec -o none.repro.tar.zst -- no-such-command --lr 1
says "'no-such-command': there is no such command in \$PATH"
exit_of 127 "$REPRO" exec -o none.repro.tar.zst -- ./no-such-file
says "'./no-such-file': there is no such file"
echo true >plain.sh
exit_of 126 "$REPRO" exec -o none.repro.tar.zst -- ./plain.sh
says "'./plain.sh' is not an executable file"
printf '#!/no/such/interpreter\n' >lost.sh
chmod +x lost.sh
exit_of 127 "$REPRO" exec -o none.repro.tar.zst -- ./lost.sh
says "the interpreter that it names is missing"
exit_of 2 "$REPRO" exec -o none.repro.tar.zst
[ ! -e none.repro.tar.zst ] || fail "a bundle of nothing"
exit_of 2 "$REPRO" exec -o a.repro.tar.zst -- true
says "'a.repro.tar.zst' exists; choose another name with --bundle, or give --force"
exit_of 2 "$REPRO" exec -o - -- true

# the name of a bundle that is not named; --json: one document on standard output, the command's output on standard
# error
mkdir own && cd own
exit_of 0 "$REPRO" exec --json -- echo hello
jq -e '.status == "complete" and .exit == 0 and .command == "echo" and .results == 0 and
    (.bundle | test("^echo-[0-9T]+Z.repro.tar.zst$"))' \
    out.txt >/dev/null || fail "another document: $(cat out.txt)"
says hello
[ -f "$(jq -r .bundle out.txt)" ] || fail "no bundle"
cd ..

# signals are passed on; a command that handles one and ends well is complete. A shell starts what is in the background
# with SIGINT
# ignored, which repro leaves as it is.
cat >waits.sh <<'END'
#!/bin/sh
trap 'echo "got $1"; exit $2' TERM INT USR1
echo ready
while :; do sleep 0.1; done
END
chmod +x waits.sh
cat >reset.py <<'END'
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
END
for signal in TERM USR1 INT; do
    how=
    if [ $signal = INT ]; then
        command -v python3 >/dev/null || continue
        how="python3 reset.py"
    fi
    rm -f ready.txt
    $how "$REPRO" exec -o "$signal.repro.tar.zst" -- ./waits.sh "$signal" 0 >ready.txt 2>err.txt &
    pid=$!
    wait_until $pid grep -q ready ready.txt
    kill -$signal $pid
    wait $pid || fail "$signal: status $?: $(cat err.txt)"
    grep -qx "got $signal" ready.txt || fail "$signal did not arrive"
    exit_of 0 "$REPRO" verify "$signal.repro.tar.zst"
done

# the second Ctrl-C ends a command that ignores the first: by TERM, and by KILL at the third
cat >ignores.sh <<'END'
#!/bin/sh
trap '' $1
echo ready
while :; do sleep 0.1; done
END
chmod +x ignores.sh
sent() { [ "$(grep -c "gets $1" err.txt)" != 0 ]; }
if command -v python3 >/dev/null; then
    for ignored in INT 'INT TERM'; do
        expected=137
        [ "$ignored" != INT ] || expected=143
        rm -f ready.txt
        python3 reset.py "$REPRO" exec -f -o stubborn.repro.tar.zst -- ./ignores.sh "$ignored" >ready.txt 2>err.txt &
        pid=$!
        wait_until $pid grep -q ready ready.txt
        kill -INT $pid
        sleep 0.5
        grep -q "gets TERM" err.txt && fail "TERM after one Ctrl-C"
        kill -INT $pid
        wait_until $pid sent TERM || :
        [ "$ignored" = INT ] || kill -INT $pid
        status=0
        wait $pid || status=$?
        [ $status = $expected ] || fail "status $status: $(cat err.txt)"
        exit_of 10 "$REPRO" verify stubborn.repro.tar.zst
    done
fi

"$REPRO" exec -o ended.repro.tar.zst -- sleep 60 2>err.txt &
pid=$!
sleeps() { pgrep -P "$1" sleep >/dev/null; }
if command -v pgrep >/dev/null; then
    wait_until $pid sleeps $pid
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ $status = 143 ] || fail "status $status of a command that a signal ended"
    "$REPRO" inspect ended.repro.tar.zst facts.json | jq -e '.status == "incomplete" and
        .process[0].signal == 15' >/dev/null || fail "not incomplete"
    exit_of 10 "$REPRO" verify ended.repro.tar.zst
else
    kill -9 $pid
fi

# what is ignored stays ignored, as under nohup
(trap '' HUP; exec "$REPRO" exec -q -o hup.repro.tar.zst \
    -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo survived') >out.txt 2>err.txt ||
        fail "HUP under nohup: $(cat err.txt)"
grep -qx survived out.txt || fail "the command did not survive"

# a process that it leaves behind and that holds its output does not keep repro waiting
exit_of 0 "$REPRO" exec -o left.repro.tar.zst -- sh -c 'sleep 100 & echo $! >left.pid; echo ended'
grep -qx ended out.txt || fail "the output is lost"
kill "$(cat left.pid)"

# a reader that is gone is gone for the command too
("$REPRO" exec -q -o head.repro.tar.zst -- sh -c 'while :; do echo y; done' || echo $? >status.txt) | head -n 1 >out.txt
grep -qx 141 status.txt || fail "status $(cat status.txt) after a closed pipe"
exit_of 10 "$REPRO" verify head.repro.tar.zst

# 50 MB: all of it comes through, the beginning and the end are kept, in whole lines
exit_of 0 "$REPRO" exec --log csv $table -o large.repro.tar.zst \
    -- awk 'BEGIN { print "step,timestamp"; for (i = 0; i < 3600000; i++) printf "%d,%.8f\n", i, i / 1e8 }'
[ "$(wc -c <out.txt)" -gt 50000000 ] || fail "the output is cut: $(wc -c <out.txt)"
"$REPRO" inspect large.repro.tar.zst log/process0.stdout >kept.txt
[ "$(wc -c <kept.txt)" -le 6291456 ] && head -n 3 kept.txt | tail -n 1 | grep -qx "1,0.00000001" &&
    tail -n 1 kept.txt | grep -qx "3599999,0.03599999" ||
    fail "the ends are not kept"
! grep -qvE '^(step,timestamp|[0-9]+,[0-9]+\.[0-9]+)$' kept.txt || fail "a line is cut"
"$REPRO" inspect large.repro.tar.zst facts.json |
    jq -e --argjson n "$(wc -c <out.txt)" '.process[0].standard_output | .bytes == $n and .dropped > 40000000' \
    >/dev/null || fail "what is missing is not said"
exit_of 0 "$REPRO" verify large.repro.tar.zst
says_in "bytes in its middle" out.txt
