#!/bin/sh
# The log of a command: named formats, streams and files; what has no figure is sealed all the same, and says so.
# shellcheck disable=SC2086 # several words in $table and $option
. "$TEST_DIR/common.inc"
figure() { # BUNDLE VALUE UNIT
    "$REPRO" inspect "$1" run.json | jq -e --argjson v "$2" --arg u "$3" \
        '.log.read and (.log.result | length == 1) and .log.result[0].throughput.unit == $u and
            (.log.result[0].throughput.value - $v | fabs < 1e-9)' \
        >/dev/null || { "$REPRO" inspect "$1" run.json | jq .log >&2; fail "$1: another figure"; }
}

# standard output, standard error, a file; the figure is that of repro import
exit_of 0 "$REPRO" exec --log csv $table -o out.repro.tar.zst -- ./train.sh
says "1280.000 images/s, measured by its own log"
figure out.repro.tar.zst 1280 images/s
"$REPRO" inspect out.repro.tar.zst log/process0.stdout >log.csv
"$REPRO" import csv log.csv $table >import.json
"$REPRO" inspect out.repro.tar.zst run.json |
    jq -e --slurpfile i import.json '.log.result[0].throughput == $i[0].rows[0].throughput' >/dev/null ||
    fail "repro import reads another figure"
exit_of 0 "$REPRO" exec --log csv:stderr $table -o err.repro.tar.zst -- sh -c './train.sh >&2 2>/dev/null'
figure err.repro.tar.zst 1280 images/s
exit_of 0 "$REPRO" exec --log csv:steps.csv $table -o file.repro.tar.zst -- sh -c './train.sh >steps.csv'
figure file.repro.tar.zst 1280 images/s
"$REPRO" inspect file.repro.tar.zst log/file | cmp - steps.csv || fail "the bundle has another log"
exit_of 0 "$REPRO" exec --log csv $table --from 2 --to 6 -o window.repro.tar.zst -- ./train.sh
"$REPRO" inspect window.repro.tar.zst run.json |
    jq -e '.log.result[0].timed_window == "step 2 to step 6 of the log"' >/dev/null || fail "another window"
for b in out err file window; do exit_of 0 "$REPRO" verify $b.repro.tar.zst; done
cat >dll.sh <<'END'
#!/bin/sh
for i in 0 1 2 3 4; do
    echo "DLLL {\"timestamp\": \"16001801$i.0\", \"elapsedtime\": \"$i.0\", \"datetime\": \"\", \"type\": \"LOG\", \"step\": [0, $i], \"data\": {\"train.total_ips\": 100.0}}"
done
END
exit_of 0 "$REPRO" exec --log dllogger -o dll.repro.tar.zst -- sh dll.sh
figure dll.repro.tar.zst 100 images/s
printf '{"log_history": [{"step": 1, "loss": NaN}, {"step": 1, "train_runtime": 0.01, "train_samples_per_second": 3200.0, "train_steps_per_second": 100.0}], "max_steps": 1, "global_step": 1}' >state.json
exit_of 0 "$REPRO" exec --log hf_trainer:out/trainer_state.json -o hf.repro.tar.zst -- \
    sh -c 'mkdir out && sleep 0.05 && cp state.json out/trainer_state.json'
figure hf.repro.tar.zst 3200 samples/s
exit_of 0 "$REPRO" verify hf.repro.tar.zst

# what training programs print for people, between lines of their own
cat >lines.sh <<'END'
#!/bin/sh
sleep 0.1
case $1 in
megatron)
    for i in 10 20 30; do
        echo " iteration       $i/     100 | consumed samples:         $((i * 8)) | elapsed time per iteration (ms): 2.0 | global batch size:     8 | lm loss: 1.0E+00 |"
    done ;;
nanogpt)
    echo "tokens per iteration will be: 4,096"
    for i in 0 10 20; do echo "iter $i: loss 3.2202, time 1.00ms, mfu 16.68%"; done ;;
llmc)
    echo "| total batch size      | 4096                                               |"
    for i in 1 2 3; do echo "step    $i/3 | loss 3.208939 (+nanz)| norm 1.48 (+nanz)| lr 3.00e-04 | 0.50 ms | 50.0% bf16 MFU | 8192000 tok/s"; done ;;
esac
END
while read -r format value unit; do
    exit_of 0 "$REPRO" exec --log "$format" -o "$format.repro.tar.zst" -- sh lines.sh "$format"
    figure "$format.repro.tar.zst" "$value" "$unit"
    exit_of 0 "$REPRO" verify "$format.repro.tar.zst"
done <<'END'
megatron 4000 sequences/s
nanogpt 4096000 tokens/s
llmc 8192000 tokens/s
END

# a log that times more than the command took
exit_of 0 "$REPRO" exec --log csv $table -o long.repro.tar.zst -- printf 'step,timestamp\n0,0\n1,100\n2,200\n'
says "the log times 100.0 s, but the command took "
exit_of 5 "$REPRO" verify long.repro.tar.zst --json
jq -e '.verdict == "failed" and ([.checks[] | select(.state == "failed") | .check] == ["time"])' out.txt >/dev/null ||
    fail "not failed: $(jq -c '[.verdict, .checks]' out.txt)"

# so is MLPerf's time to train
cat >mlperf.log <<'END'
:::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "submission_benchmark", "value": "bert", "metadata": {}}
:::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {}}
:::MLLOG {"namespace": "", "time_ms": 1700003600000, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success"}}
END
exit_of 0 "$REPRO" exec --log mllog -o train.repro.tar.zst -- cat mlperf.log
says "the log times 3600.0 s, but the command took "
exit_of 5 "$REPRO" verify train.repro.tar.zst
sed -i 's/1700003600000/1700000000600/' mlperf.log
exit_of 0 "$REPRO" exec --log mllog -o train.repro.tar.zst -f -- cat mlperf.log
says "0.010 minutes to train, measured by its own log"
exit_of 0 "$REPRO" verify train.repro.tar.zst
says_in "cat, measured by its own log: 0.010 minutes to train" out.txt
exit_of 0 "$REPRO" report train.repro.tar.zst --format md
says_in "time to train, minutes" out.txt
exit_of 0 "$REPRO" report train.repro.tar.zst
says_in "<dt>time to train, measured by its own log" out.txt
exit_of 0 "$REPRO" report train.repro.tar.zst train.repro.tar.zst
says_in "<td>minutes to train</td>" out.txt

# rates without times, of more steps than there was time for
exit_of 0 "$REPRO" exec --log csv $table -o rates.repro.tar.zst -- printf 'step,throughput\n0,4\n1,4\n2,4\n'
says "by the rates and the samples per step of the log its steps took "
exit_of 0 "$REPRO" verify rates.repro.tar.zst
says_in "consistent with 1 warning (time)" out.txt

# an earlier log would count as this command's
exit_of 2 "$REPRO" exec --log csv:steps.csv $table -o none.repro.tar.zst -- sh -c './train.sh >steps.csv'
says "'steps.csv' exists: move it away"

# no figure: the command's status stands, the bundle verifies, and says what is missing
exit_of 0 "$REPRO" exec --log csv $table -o empty.repro.tar.zst -- true
says "the importer 'csv' finds no figure in the log"
says "the log is empty"
exit_of 0 "$REPRO" verify empty.repro.tar.zst
says_in "no figure of speed" out.txt
says_in "the importer 'csv' finds no figure in the log" out.txt
exit_of 0 "$REPRO" exec --log mllog -o other.repro.tar.zst -- ./train.sh
says "the log begins with: step,"
"$REPRO" inspect other.repro.tar.zst run.json | jq -e '.log.read == false and .log.result == []' >/dev/null ||
    fail "figures of a log of another format"
exit_of 0 "$REPRO" verify other.repro.tar.zst
exit_of 0 "$REPRO" exec --log csv:no.csv $table -o missing.repro.tar.zst -- ./train.sh
says "cannot open 'no.csv'"
exit_of 0 "$REPRO" verify missing.repro.tar.zst
says_in "the command wrote no log 'no.csv'" out.txt
exit_of 0 "$REPRO" exec -o without.repro.tar.zst -- ./train.sh
says "without --log FORMAT the bundle has no figure of speed"
exit_of 0 "$REPRO" verify --all without.repro.tar.zst
says_in "no log was named (--log)" out.txt
for b in empty missing without; do
    exit_of 7 "$REPRO" compare $b.repro.tar.zst out.repro.tar.zst
    says "has no figure"
    exit_of 0 "$REPRO" report $b.repro.tar.zst --format md
done
words >messages.txt

# mistakes are found before the command runs
exit_of 2 "$REPRO" exec --log cvs -o none.repro.tar.zst -- touch ran
says "unknown format 'cvs'; did you mean 'csv'?"
exit_of 2 "$REPRO" exec --log xyzzy -o none.repro.tar.zst -- touch ran
says "expected one of dlperf, dllogger"
exit_of 2 "$REPRO" exec --log csv --set batch=3 -o none.repro.tar.zst -- touch ran
exit_of 2 "$REPRO" exec --log csv --from 5 --to 3 -o none.repro.tar.zst -- touch ran
exit_of 2 "$REPRO" exec --set global_batch=64 -o none.repro.tar.zst -- touch ran
says "name it with --log"
exit_of 3 "$REPRO" exec --input no-file -o none.repro.tar.zst -- touch ran
exit_of 2 "$REPRO" exec --input . -o none.repro.tar.zst -- touch ran
exit_of 2 "$REPRO" exec --output . -o none.repro.tar.zst -- touch ran
[ ! -e ran ] && [ ! -e none.repro.tar.zst ] || fail "the command ran"

# files: digests of inputs before, of outputs after; one that was there before, and one that is not there after
echo model >old.pt
exit_of 0 "$REPRO" exec --input train.sh --output new.pt --output old.pt --output lost.pt -o files.repro.tar.zst \
    -- sh -c 'echo 1 >new.pt; echo >>train.sh'
says "cannot open 'lost.pt'"
"$REPRO" inspect files.repro.tar.zst facts.json |
    jq -e --arg new "$(sha256sum <new.pt | cut -c1-64)" --arg after "$(sha256sum <train.sh | cut -c1-64)" '
    .file | (map(.role + " " + .name) == ["input train.sh", "output new.pt", "output old.pt", "output lost.pt"]) and
    .[0].sha256 != $after and .[1].sha256 == $new and .[1].bytes == 2 and
        (map(.existed) == [true, false, true, false]) and .[3].sha256 == null' \
    >/dev/null || fail "other files: $("$REPRO" inspect files.repro.tar.zst facts.json | jq -c .file)"
exit_of 0 "$REPRO" verify files.repro.tar.zst

# attempts: the ledger counts those at the same words and inputs
exit_of 0 "$REPRO" exec --input old.pt -o one.repro.tar.zst -- echo again
exit_of 0 "$REPRO" exec --input old.pt -o two.repro.tar.zst -- echo again
"$REPRO" inspect two.repro.tar.zst facts.json | jq -e '.ledger.earlier == 1' >/dev/null ||
    fail "the earlier attempt does not count"
echo other >old.pt
exit_of 0 "$REPRO" exec --input old.pt -o three.repro.tar.zst -- echo again
"$REPRO" inspect three.repro.tar.zst facts.json | jq -e '.ledger.earlier == 0' >/dev/null ||
    fail "an attempt at other inputs counts"
exit_of 0 "$REPRO" ledger export -o ledger.jsonl
exit_of 0 "$REPRO" verify two.repro.tar.zst --ledger ledger.jsonl
says_in "attempts at this command before it: 1 (1 sealed" out.txt
