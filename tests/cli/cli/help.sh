#!/bin/sh
# Help exists at every level, in every spelling, fits 80 columns, and names every option, command and exit status of the table.
. "$TEST_DIR/common.inc"
"$REPRO" --help >top.txt
"$REPRO" -h | cmp - top.txt
"$REPRO" help | cmp - top.txt
"$REPRO" help --json >table.json
fits() { awk -v f="$1" 'length($0) > 80 { print f ": " $0; bad = 1 } END { exit bad }' "$1" >&2 || fail "$1 is wider than 80 columns"; }
fits top.txt
for status in $(jq -r '.exit_status | keys[]' table.json); do
    grep -q "^  $status  *[a-z]" top.txt || fail "exit status $status is not in the help"
done
commands >names.txt
[ "$(wc -l <names.txt)" -ge 15 ] || fail "only $(wc -l <names.txt) commands"
while read -r name; do
    # shellcheck disable=SC2086 # a subcommand is two words
    "$REPRO" help $name >one.txt
    # shellcheck disable=SC2086
    "$REPRO" $name --help | cmp - one.txt
    # shellcheck disable=SC2086
    "$REPRO" $name -h | cmp - one.txt
    fits one.txt
    grep -q "^Usage: repro $name" one.txt || fail "the help of '$name' does not open with its usage"
    case $name in *' '*) parent=${name% *} ;; *) parent= ;; esac
    if [ -n "$parent" ]; then "$REPRO" help "$parent" >parent.txt; else cp top.txt parent.txt; fi
    grep -q "^  $name  *[a-z]" parent.txt || fail "'$name' is not listed by '${parent:-repro} --help'"
    for option in $(jq -r --arg n "$name" '.commands[] | select(.name == $n).options[].name' table.json) json quiet help; do
        grep -qE "^  (-.,|   ) --$option( |\$)" one.txt || fail "--$option is not in the help of '$name'"
    done
done <names.txt
