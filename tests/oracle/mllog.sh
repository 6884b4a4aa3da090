#!/bin/sh
# MLPerf's own compliance checker accepts what `repro export mllog` writes, and would not accept less.
# usage: mllog.sh [BUILD]      the checker comes from pip, into BUILD/peers.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
venv=$build/peers
scratch=$build/oracle-mllog

if [ ! -e "$venv/.mllog-ready" ]; then
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet mlperf-logging==4.1.68
    touch "$venv/.mllog-ready"
fi
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
accepts() { # RULESET FILE
    "$venv/bin/python" -m mlperf_logging.compliance_checker --usage training --ruleset "$1" --werror "$2" >checker.txt 2>&1
}
"$build/repro" run bert_tiny_fp32 --threads 1 --steps 2 --set measure.repeats=2 --set evidence.state_root_every=1 -o tiny.repro.tar.zst --quiet >/dev/null
"$build/repro" run bert_tiny_fp32 --threads 1 --steps 2 --set train.accumulation_steps=2 --ranks 2 -o ranks.repro.tar.zst --quiet >/dev/null
for bundle in "$top"/results/*/*.repro.tar.zst tiny.repro.tar.zst ranks.repro.tar.zst; do
    case $("$build/repro" inspect "$bundle" facts.json | jq -r .recipe.workload.value) in bert) ;; *) continue ;; esac # of which a log is written
    "$build/repro" export mllog "$bundle" -o log.txt --force
    for rules in 3.1.0 4.0.0 4.1.0 5.0.0; do
        accepts $rules log.txt || { cat checker.txt >&2; echo "$bundle: rules $rules do not accept its log" >&2; exit 1; }
    done
    for key in eval_accuracy train_samples cache_clear run_stop submission_org; do
        grep -v "\"key\": \"$key\"" log.txt >less.txt
        ! accepts 4.1.0 less.txt || { echo "the checker accepts a log without $key: it checks nothing" >&2; exit 1; }
    done
done
echo "mllog: accepted by the rules 3.1.0, 4.0.0, 4.1.0 and 5.0.0"
