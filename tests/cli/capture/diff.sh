#!/bin/sh
# Two captures compared: what counts, what does not, what cannot be told, and documents of strangers.
. "$TOP/tests/common.inc"
need jq
"$REPRO" capture --probe cpu,memory,kernel,host,limits -o a.json >/dev/null
bend() { # FILTER: of a.json into b.json
    jq "$1" a.json >b.json
}

exit_of 0 "$REPRO" capture diff a.json a.json
says_in "equal," out.txt
# Load and uptime are of the moment, a host's name is of no influence.
bend '.probes.kernel.load_1min.value = 9999.5 | .probes.host.bios_version = {state: "ok", value: "a new name", source: "x"}
    | .probes.host.hostname.value = "sha256:'"$(printf '0%.0s' $(seq 64))"'"'
exit_of 0 "$REPRO" capture diff a.json b.json
says_in "9999.5 tasks" out.txt
[ "$("$REPRO" capture diff --json a.json b.json | jq -r '.different[] | select(.field == "host.bios_version") | .impact')" = low ] || fail "the version of the BIOS counts"
words out.txt 'bios_version|^[A-Z].*:$'
# The same hidden value under another salt is nothing that can be compared.
bend '.salt = "ffffffffffffffffffffffffffffffff" | .probes.host.hostname.value = "sha256:'"$(printf '0%.0s' $(seq 64))"'"'
exit_of 0 "$REPRO" capture diff a.json b.json
words out.txt '^[A-Z].*:$'
# A setting that counts; the reason stands by it.
bend '.probes.cpu.threads.value = 9999 | .probes.cpu.flags.value -= [.probes.cpu.flags.value[0]] | .probes.kernel.release.value = "a\u001b[31mb"'
exit_of 5 "$REPRO" capture diff a.json b.json
words
words out.txt 'threads|release'
says_in "$(jq -r '.probes.cpu.flags.value[0]' a.json)  |  (" out.txt
! grep -q "$(printf '\033')" out.txt || fail "a control character reaches the terminal"
exit_of 5 "$REPRO" capture diff a.json b.json --json
[ "$(jq -r '[.different[] | select(.varies | not) | .field] | sort | join(" ")' out.txt)" = "cpu.flags cpu.threads kernel.release" ] ||
    fail "the JSON lists $(cat out.txt)"
[ "$(jq -r '.error.exit, .a.name, (.different[0].why | length > 0)' out.txt | tr '\n' ' ')" = '5 a.json true ' ] || fail "no error in the JSON"
bend '.probes.cpu.flags.value = []'
exit_of 5 "$REPRO" capture diff a.json b.json
says_in "|  (none)" out.txt
# Unknown is neither equal nor different; the last line counts it, and --strict minds.
bend '.probes.cpu.threads = {state: "denied", value: null, source: "x"}'
exit_of 0 "$REPRO" capture diff a.json b.json
words out.txt '^[A-Z].*:$|could not' | sed 's/^[0-9]* equal, [0-9]* /N equal, N /'
exit_of 5 "$REPRO" capture diff --strict a.json b.json
words
exit_of 0 "$REPRO" capture diff --strict a.json a.json
exit_of 0 "$REPRO" capture diff b.json b.json
words out.txt '^[A-Z].*:$'
bend 'del(.probes.cpu)'
exit_of 0 "$REPRO" capture diff a.json b.json
words out.txt '^[A-Z].*:$|1 probe' | sed 's/^[0-9]* equal, [0-9]* /N equal, N /'
exit_of 5 "$REPRO" capture diff a.json b.json --strict
bend '.probes = {git: {}}'
exit_of 2 "$REPRO" capture diff a.json b.json
words

# Sizes of the moment in words, but every digit where these are the same; a row of the matrix cell by cell.
bend '.probes.memory.free.value = 3221225472'
jq '.probes.memory.free.value = 1610612736' a.json >c.json
exit_of 0 "$REPRO" capture diff c.json b.json
says_in "1.5 GiB  |  3 GiB" out.txt
jq '.probes.memory.free.value = 1610612737' a.json >b.json
exit_of 0 "$REPRO" capture diff c.json b.json
says_in "1610612736 B  |  1610612737 B" out.txt
matrix() { # GPU1'S AND GPU2'S CELLS OF GPU0
    jq '.probes.topology.matrix = {columns: {state: "ok", value: ["GPU0", "GPU1", "GPU2"], source: "x"},
        rows: {GPU0: {state: "ok", value: ["X", "'"$1"'", "'"$2"'"], source: "x"}}}' a.json
}
matrix NV1 NV2 >b.json
matrix NV2 NV1 >c.json
exit_of 5 "$REPRO" capture diff b.json c.json
says_in "GPU1 NV1, GPU2 NV2  |  GPU1 NV2, GPU2 NV1" out.txt
words
# Several things of which the same is to be said are named.
for j in b c; do
    jq --arg v $j '.probes.network.interfaces = ([range(9)] | map({("eth\(.)"): {mtu: {state: "ok", value: ($v == "b" | if . then 1500 else 9000 end), source: "x"}}}) | add)' \
        a.json >$j.json
done
exit_of 5 "$REPRO" capture diff b.json c.json
says_in "network.interfaces.*.mtu (eth0, eth1, eth2, eth3, eth4, eth5, eth6, eth7, eth8)" out.txt

# Documents through pipes.
exit_of 0 "$REPRO" capture diff a.json - <a.json
says_in "equal," out.txt
# Of other files only regular ones: nothing waits for a writer, and no device is read.
mkfifo pipe
for other in pipe /dev/zero /dev/stdin .; do
    exit_of 3 timeout 20 "$REPRO" capture diff $other a.json </dev/zero
    words
    exit_of 3 timeout 20 "$REPRO" capture diff a.json $other </dev/zero
done
exit_of 2 "$REPRO" capture diff - -
words
exit_of 4 "$REPRO" capture diff a.json - </dev/null
says "standard input"
exit_of 3 "$REPRO" capture diff a.json .

# Bundles: the capture before the run.
bundle=$TOP/results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst
exit_of 0 "$REPRO" capture diff "$bundle" "$bundle"
exit_of 2 "$REPRO" capture diff "$bundle" - <"$bundle"
words
"$REPRO" inspect "$bundle" env/node0.before.json >before.json
exit_of 0 "$REPRO" capture diff before.json "$bundle"
says_in "equal, " out.txt
dd if="$bundle" of=cut.zst bs=1000 count=1 2>dd.txt
exit_of 4 "$REPRO" capture diff before.json cut.zst

# Documents of strangers.
refused() { # STATUS FILE TEXT
    exit_of "$1" "$REPRO" capture diff a.json "$2"
    says "$3"
    words
}
refused 3 missing.json "missing.json"
printf '{"schema": "repro-env/1"}' >bad.json
refused 4 bad.json "captured_at"
bend '.schema = "repro-env/2"'
refused 4 b.json "schema"
bend '.probes.cpu.threads = {state: "ok", value: {"deep": 1}, source: "x"}'
refused 4 b.json "threads"
bend '.probes.cpu.threads.state = "perhaps"'
refused 4 b.json "threads"
(printf '{"probes":' && head -c 100000 /dev/zero | tr '\0' '[') >deep.json
refused 4 deep.json deep.json
head -c 9000000 /dev/zero | tr '\0' ' ' >huge.json
refused 4 huge.json "huge.json"
printf '{"schema": "\377\376"}' >bytes.json
refused 4 bytes.json bytes.json
: >empty.json
refused 4 empty.json empty.json
name=$(printf 'n%.0s' $(seq 2000))
bend ".probes.cpu.$name = {state: \"ok\", value: 1, source: \"x\"}"
refused 4 b.json "1024 bytes"
exit_of 2 "$REPRO" capture diff a.json
exit_of 2 "$REPRO" capture dif a.json a.json
words

