#!/bin/sh
# Every document of a bundle and every output of a command follows the schema that `repro schema` prints for it.
. "$TEST_DIR/common.inc"
follows() { # SCHEMA FILE
    exit_of 0 "$REPRO" schema "$1" "$2"
}
# STATUS SCHEMA COMMAND...: its output
returns() {
    status=$1 schema=$2
    shift 2
    exit_of "$status" "$REPRO" "$@" --json
    mv out.txt "$schema.json"
    follows "$schema-output" "$schema.json"
    used="$used $schema"
}
lines() { # SCHEMA FILE
    split -l 1 "$2" line.
    for line in line.*; do follows "$1" "$line"; done
    rm line.*
}
used=
"$REPRO" key new >new.txt
returns 0 key-show key show
returns 0 key-new key new -o other.pem
returns 0 key-trust key trust
"$REPRO" key show >key.pem
returns 0 key-trust key trust key.pem
returns 0 recipes recipes
returns 0 recipes-list recipes list gpt
returns 0 recipes-show recipes show bert_tiny_fp32
returns 0 recipes-keys recipes keys
returns 0 recipes-check recipes check bert_tiny_fp32
returns 0 version version
returns 0 help help
returns 0 schema schema
returns 0 capture capture --explain gpu.count
exit_of 2 "$REPRO" verify --json
mv out.txt error.json
follows error error.json
exit_of 4 "$REPRO" schema verify-output error.json
returns 0 launch launch whoami
returns 0 launch launch key
returns 0 estimate estimate gpt/DP_8x1x1_16_1536x16
returns 0 estimate estimate --check
returns 0 data-list data list
returns 0 data-make data make bert data --sequences 40 --shards 2 --seq-length 32
returns 0 data-check data check data
returns 0 run run bert_tiny_fp32 --plan
returns 0 run run bert_tiny_fp32 --threads 1 --steps 2 --set measure.warmup_steps=1 --set measure.repeats=1 -q -o a.repro.tar.zst
returns 0 replicate replicate a.repro.tar.zst -q -o b.repro.tar.zst
exit_of 0 "$REPRO" exec --json --log csv --unit images/s -q -o e.repro.tar.zst -- printf 'step,throughput\n0,5\n1,5\n2,5\n'
mv out.txt exec.json
follows exec-output exec.json
used="$used exec"
returns 0 verify verify e.repro.tar.zst
returns 0 verify verify a.repro.tar.zst --replay 1
returns 0 verify verify --list
returns 0 report report a.repro.tar.zst
returns 0 inspect inspect a.repro.tar.zst
returns 0 inspect inspect a.repro.tar.zst facts.json
returns 0 inspect inspect e.repro.tar.zst
returns 0 sign sign a.repro.tar.zst --key other.pem -o signed.repro.tar.zst --role reviewer
returns 0 challenge-new challenge new -o c.txt
returns 0 challenge-show challenge show c.txt
returns 0 timestamp-request timestamp request a.repro.tar.zst
returns 0 ledger-list ledger list
returns 0 ledger-check ledger check
returns 0 ledger-export ledger export
returns 0 ledger-head ledger head
returns 0 export export mllog a.repro.tar.zst
"$REPRO" doctor --json >doctor.json 2>err.txt || :
follows doctor-output doctor.json
used="$used doctor"
"$REPRO" compare a.repro.tar.zst b.repro.tar.zst --json >compare.json
follows compare compare.json
"$REPRO" compare a.repro.tar.zst published:dlperf_v100 --layout dlperf --json >layout.json
follows layout layout.json
printf 'step,throughput\n1,10\n2,11\n3,12\n' >log.csv
exit_of 0 "$REPRO" import csv log.csv --unit sequences/s -o imported.json
follows imported imported.json
returns 0 capture-diff capture diff a.repro.tar.zst b.repro.tar.zst
# members
for member in facts.json run.json env/node0.before.json steps/rank0.jsonl; do "$REPRO" inspect a.repro.tar.zst $member >"$(basename $member)"; done
follows facts facts.json
follows run run.json
follows env node0.before.json
lines step rank0.jsonl
"$REPRO" ledger export -o ledger.jsonl
lines ledger ledger.jsonl
"$REPRO" inspect a.repro.tar.zst statement.dsse.json | jq -r .payload | base64 -d >statement.json
follows statement statement.json
# what does not follow is refused with its path
jq '.results.throughput.value = "fast"' run.json >bad.json
exit_of 4 "$REPRO" schema run bad.json
says /results/throughput/value
exit_of 2 "$REPRO" schema nothing
# every command has a schema, and what is not tried above is written here
"$REPRO" schema --json | jq -r '.schemas[].name' | sort >names.txt
"$REPRO" help --json | jq -r '.commands[].name' | tr ' ' - | sed 's/$/-output/' | sort >commands.txt
echo "groups and documents of their own: $(comm -13 names.txt commands.txt | tr '\n' ' ')"
for name in $used; do echo "$name-output"; done | sort -u >used.txt
echo "not tried: $(comm -13 used.txt commands.txt | comm -12 - names.txt | tr '\n' ' ')"
