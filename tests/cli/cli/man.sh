#!/bin/sh
# The man page formats without a warning and holds every command, option and exit status. Its words are in man.out.
. "$TEST_DIR/common.inc"
"$REPRO" help --man >repro.1
"$REPRO" help --man | cmp - repro.1
cat repro.1
if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww -z repro.1 2>warnings.txt || fail "groff fails"
    [ ! -s warnings.txt ] || { cat warnings.txt >&2; fail "groff warns"; }
fi
sed 's/\\-/-/g; s/\\f[BRI]//g' repro.1 >plain.txt
"$REPRO" help --json >table.json
for section in NAME SYNOPSIS COMMANDS EXAMPLES "EXIT STATUS" FILES ENVIRONMENT; do
    grep -q "^\.SH $section" plain.txt || fail "no section $section"
done
commands | while read -r name; do
    grep -qE "^\.SS repro $name( [^ ]|\$)" plain.txt || fail "'$name' is missing"
done
for option in $(jq -r '.commands[].options[].name, .common_options[].name' table.json | sort -u); do
    grep -qE "(^|, )--$option( |\$)" plain.txt || fail "--$option is missing"
done
for status in $(jq -r '.exit_status | keys[]' table.json); do
    grep -qx "$status" plain.txt || fail "exit status $status is missing"
done
# A page for each command, with the sections of a man page.
commands | while read -r name; do
    # shellcheck disable=SC2086
    "$REPRO" help $name --man >one.1
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES "EXIT STATUS" FILES ENVIRONMENT "SEE ALSO"; do
        grep -q "^\.SH $section" one.1 || fail "repro help $name --man has no section $section"
    done
    # What the examples use exists.
    sed -n '/^\.SH EXAMPLES/,/^\.SH EXIT/s/\\-/-/gp' one.1 | grep '^repro ' | grep -o ' --[a-z][a-z-]*' | sort -u | while read -r option; do
        jq -e --arg o "${option#--}" '[.commands[].options[], .common_options[]] | any(.name == $o)' table.json >/dev/null ||
            fail "the examples of $name have $option, which does not exist"
    done || exit 1
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -z one.1 2>warnings.txt || fail "groff fails on $name"
        [ ! -s warnings.txt ] || { cat warnings.txt >&2; fail "groff warns of $name"; }
    fi
done
"$REPRO" help run --man >one.1
grep -q '^.TH REPRO-RUN 1' one.1 && ! grep -q '^Examples:' one.1 || fail "the examples of run are no section"
