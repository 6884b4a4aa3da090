#!/bin/sh
# Results that come in one import are told apart by their log, their place in it and their figure.
. "$TEST_DIR/common.inc"
need jq
log() { # FILE MILLISECOND: a run whose block of 1000 samples ends there
    cat >"$1" <<END
:::MLLOG {"time_ms": 1000, "key": "global_batch_size", "value": 56, "metadata": {}}
:::MLLOG {"time_ms": 2000, "key": "run_start", "value": null, "metadata": {}}
:::MLLOG {"time_ms": 2000, "key": "block_start", "value": null, "metadata": {"samples_count": 0}}
:::MLLOG {"time_ms": $2, "key": "block_stop", "value": null, "metadata": {"samples_count": 1000}}
:::MLLOG {"time_ms": 12000, "key": "run_stop", "value": null, "metadata": {"status": "success"}}
END
}
notes_of() { # COMMAND...: pairs of results that are one, as 2-1
    exit_of 0 "$REPRO" compare "$@" --json
    jq -r '[.notes[] | capture("^(?<b>[0-9]+) [^0-9:]+ (?<a>[0-9]+)$") | "\(.b)-\(.a)"] | join(" ")' out.txt
}
log a 4000
log b 5000
log c 5000
exit_of 0 "$REPRO" import mllog a b c -o abc.json --set model=bert-large
[ "$(jq -c '[.rows[].throughput.value | floor]' abc.json)" = "[500,333,333]" ] || { jq .rows abc.json; fail "not these figures"; }
[ "$(notes_of abc.json)" = "3-2" ] || fail "c has the bytes of b: $(jq .notes out.txt)"
printf '\n' >>c
exit_of 0 "$REPRO" import mllog a b c -o abc.json --force --set model=bert-large
[ "$(notes_of abc.json)" = "" ] || fail "three logs: $(jq .notes out.txt)"
[ "$(notes_of abc.json abc.json)" = "4-1 5-2 6-3" ] || fail "a document named twice: $(jq .notes out.txt)"
# Of another import of the same log, and of the same log with another figure.
exit_of 0 "$REPRO" import mllog b -o b.json --set model=bert-large
jq '.rows[0].throughput.value = 400' b.json >b400.json
[ "$(notes_of abc.json b.json b400.json)" = "4-2" ] || fail "one log imported twice: $(jq .notes out.txt)"
# Without the digests of their logs, rows of a document are told apart by their place in it.
jq 'del(.rows[].source.sha256)' abc.json >bare.json
[ "$(notes_of bare.json)" = "" ] || fail "rows of one document: $(jq .notes out.txt)"
[ "$(notes_of bare.json bare.json)" = "4-1 5-2 6-3" ] || fail "the document twice: $(jq .notes out.txt)"
