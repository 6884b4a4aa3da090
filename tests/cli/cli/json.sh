#!/bin/sh
# With --json stdout is exactly one JSON document, for results and for errors, wherever --json stands.
. "$TEST_DIR/common.inc"
one_document() { [ "$(jq -s length out.txt)" = 1 ] || { cat out.txt >&2; fail "not one document: $*"; }; }
for args in "version" "recipes" "recipes keys" "recipes show bert_tiny_fp32" "key new" "key show" "key trust" "data list" "capture" "help"; do
    # shellcheck disable=SC2086 # several words
    exit_of 0 "$REPRO" $args --json
    one_document "$args"
    [ "$(jq 'has("error")' out.txt)" = false ] || fail "'$args' reports an error"
done
commands >names.txt
while read -r name; do
    for order in before after; do
        # shellcheck disable=SC2086 # a subcommand is two words
        if [ $order = before ]; then exit_of 2 "$REPRO" --json $name --no-such-option; else exit_of 2 "$REPRO" $name --no-such-option --json; fi
        one_document "$name"
        jq -e '.error.code == "usage" and .error.exit == 2 and (.error.message | contains("--no-such-option"))
            and .schema == "repro-error/1"' out.txt >answer.txt || { cat out.txt >&2; fail "'$name' reports no error"; }
        says --no-such-option
    done
done <names.txt
printf 'not a bundle' >x
for args in "verify x" "inspect x" "data check x" "run x" "data unpack x"; do
    status=0
    # shellcheck disable=SC2086
    "$REPRO" $args --json >out.txt 2>err.txt || status=$?
    one_document "$args"
    [ "$(jq .error.exit out.txt)" = "$status" ] || { cat out.txt >&2; fail "'$args' exits with $status"; }
    [ "$(wc -l <err.txt)" -ge 1 ] || fail "'$args' says nothing on stderr"
done
# a name that is no UTF-8 and would clear the screen
exit_of 3 "$REPRO" verify --json "$(printf 'a\377\033[2Jb')"
one_document "bad name"
! grep -q "$(printf '\033')" out.txt err.txt || fail "an escape sequence reached the terminal"
# help of one command is the part of the table that belongs to it
for args in "help verify --json" "verify --help --json" "help --json verify"; do
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" $args
    jq -e '[.commands[].name] == ["verify"]' out.txt >answer.txt || { cat out.txt >&2; fail "'$args'"; }
done
exit_of 0 "$REPRO" help key --json
jq -e '[.commands[].name] | index("key") == 0 and index("key new") and (index("run") | not)' out.txt >answer.txt || fail "the subcommands of key"
for what in man "completion bash" "completion zsh"; do
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" help --$what
    mv out.txt text
    # shellcheck disable=SC2086
    exit_of 0 "$REPRO" help --$what --json
    jq -j ".${what% *}" out.txt | cmp - text || fail "help --$what --json"
done
