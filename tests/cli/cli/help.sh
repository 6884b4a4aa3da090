#!/bin/sh
# --help of every command fits one screen; `repro help` and it name every option, command and exit status of the table. The words of the
# screens are in help.out, those of the essays in man.out.
. "$TEST_DIR/common.inc"
fits() { # FILE LINES COLUMNS
    awk -v f="$1" -v lines="$2" -v columns="$3" 'length($0) > columns { print f ": " $0; bad = 1 }
        END { if (NR > lines) { print f ": " NR " lines"; bad = 1 } exit bad }' "$1" >&2 || fail "$1 does not fit $2 lines of $3 columns"
}
"$REPRO" --help >top.txt
"$REPRO" -h | cmp - top.txt
fits top.txt 25 100
cat top.txt
"$REPRO" verify --list
"$REPRO" help >all.txt
fits all.txt 100 100
section() { # TITLE: its commands
    awk -v t="$1:" '$0 == t { in_it = 1; next } !NF { in_it = 0 } in_it { print $1 }' all.txt | paste -sd' '
}
[ "$(section 'Run and check')" = "run exec verify report compare doctor" ] || fail "the first section: $(section 'Run and check')"
for name in sign key ledger challenge; do
    section 'Evidence and keys' | grep -qw $name || fail "$name is not among 'Evidence and keys'"
done
for name in data recipes launch estimate; do
    section 'Data, jobs and the machine' | grep -qw $name || fail "$name is not among 'Data, jobs and the machine'"
done
"$REPRO" help --json >table.json
for status in $(jq -r '.exit_status | keys[]' table.json); do
    grep -q "^  $status  *[a-z]" all.txt || fail "exit status $status is not in the help"
done
commands >names.txt
[ "$(wc -l <names.txt)" -ge 15 ] || fail "only $(wc -l <names.txt) commands"
while read -r name; do
    # shellcheck disable=SC2086 # a subcommand is two words
    { "$REPRO" help $name >"$name.all"; "$REPRO" $name --help >"$name.screen"; "$REPRO" $name -h | cmp - "$name.screen"; }
    fits "$name.all" 200 100
    fits "$name.screen" 25 100
    cat "$name.screen"
    case $name in *' '*) "$REPRO" help "${name% *}" >parent.txt ;; *) cp top.txt parent.txt ;; esac
    grep -q "^  $name  *[a-z]" parent.txt || fail "'$name' is not listed by its parent"
    more=$(jq -r --arg n "$name" '.commands[] | select(.name == $n) | .more_from // ""' table.json) # from there on not on the screen
    for file in "$name.all" "$name.screen"; do
        grep -q "^Usage: repro $name" "$file" || fail "$file has no usage"
        for option in $(jq -r --arg n "$name" '.commands[] | select(.name == $n).options[].name' table.json) json quiet help; do
            [ "$option" != "$more" ] || [ "$file" = "$name.all" ] || break
            grep -qE "(^| |/)--$option([ ,.]|\$)" "$file" || fail "--$option is not in $file"
        done
    done
done <names.txt
