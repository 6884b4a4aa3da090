#!/bin/bash
# No test repeats a sentence of the program: a text in tests/unit, tests/cli or tests/cuda/test_cuda_*.c that has four words in a row of a text
# in src belongs into golden words (SAID and REFUSED of tests/unit/tap.h, `words` of tests/common.inc), which --update writes. What a check
# of a test itself explains (CHECK(..., "why"), fail "why") is not looked at.
set -eu
cd "$TOP"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Texts that are input of a test, or names of its cases.
cat >"$tmp/allowed" <<'END'
tests/unit/test_attacks_[a-z]*.c:  names of the attacks
tests/unit/test_doctor.c:.*'detail': '  details of captures that are given to the doctor
tests/cli/capture/gpu_check.sh:.*compute_cap)  nvidia-smi's own words
tests/cli/verify/committed.sh:.*read it before  must not be there
END

cat >"$tmp/texts.awk" <<'END'
function words(text, line,    n, i, part, token, run, list) { # every four words in a row of a text
    gsub(/\\[ntr]/, " ; ", text)
    gsub(/\\./, " ", text)
    gsub(/%[-0-9.*]*(ll|z|l)?[a-zA-Z]/, " ; ", text)
    n = split(text, part, /[ ]+/)
    run = 0
    for (i = 1; i <= n; i++) {
        token = part[i]
        gsub(/^['(]+|[',)]+$/, "", token)
        if (token !~ /^[A-Za-z]+(-[a-z]+)?[;:.!?]*$/) { run = 0; continue }
        ends = sub(/[;:.!?]+$/, "", token)
        list[++run] = token
        if (run >= 4) {
            four = list[run - 3] " " list[run - 2] " " list[run - 1] " " token
            if (!tests) said[four] = 1
            else if (four in said) { print FILENAME ":" FNR ": " line; return 1 }
        }
        if (ends) run = 0
    }
    return 0
}
function inside(depth, code) { # parentheses that are open in a check, whose condition comes first; 1: at its explanation
    if (depth == 0 && match(code, /(^|[^A-Z_])(CHECK|SKIP|printf|fprintf|rp_fail|rp_fail_null)\(/)) {
        code = substr(code, RSTART + RLENGTH)
        depth = 1
    }
    if (depth) depth += gsub(/\(/, "", code) - gsub(/\)/, "", code)
    return depth < 0 ? 0 : depth
}
FNR == 1 { depth = 0; tests = FILENAME ~ /^tests/; shell = FILENAME ~ /sh$|inc$/; kept = "" }
{ line = $0; sub(/^ +/, "", line); rest = $0 }
shell && /^ *#/ { next }
shell && tests { gsub(/(fail|skip|echo|printf) "([^"\\]|\\.)*"/, "", rest); gsub(/'/, "\"", rest) }
!shell && /^ *(\/\*|\*)/ { next }
{
    while (match(rest, /"([^"\\]|\\.)*"/)) {
        before = substr(rest, 1, RSTART - 1)
        text = substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
        if (tests && !shell) {
            depth = inside(depth, before)
            if (depth == 1) continue
        }
        if (tests) { if (words(text, line)) break }
        else { # adjacent texts are one
            if (before !~ /^ *$/) kept = ""
            words(kept text, "")
            kept = rest ~ /^ *$/ ? kept text : ""
        }
    }
    if (tests && !shell) depth = rest ~ /;$/ ? 0 : inside(depth, rest)
}
END
find src -name '*.[ch]' -o -name '*.def' -o -name '*.cuh' -o -path 'src/bundle/*.sh' | sort >"$tmp/sources"
find tests/unit tests/cli -name '*.[ch]' -o -name '*.sh' -o -name '*.inc' | sort >"$tmp/list"
echo tests/cuda/test_cuda_failures.c >>"$tmp/list"
found() { # FILE: the texts of the tests listed in it that src has too
    xargs awk -f "$tmp/texts.awk" <<<"$(cat "$tmp/sources" "$1")"
}
sed 's/  .*//' "$tmp/allowed" >"$tmp/patterns"
bad=0
found "$tmp/list" >"$tmp/found"
grep -v -f "$tmp/patterns" "$tmp/found" >"$tmp/new" || :
if [ -s "$tmp/new" ]; then
    cat "$tmp/new"
    echo "a test repeats a sentence of src: use golden words (SAID, REFUSED, words)"
    bad=1
fi
while read -r pattern; do
    grep -q -e "$pattern" "$tmp/found" || { echo "no longer needed in tests/lint/sentences.sh: $pattern" && bad=1; }
done <"$tmp/patterns"

# Planted: a row of a table, a comparison and a line of a shell test are found; what a check explains is not.
sentence=$(sed -n 's/.*rp_fail(err, [A-Z_]*, "\([a-z]* [a-z]* [a-z]* [a-z]*\) .*/\1/p' src/*/*.c | head -n 1)
[ -n "$sentence" ] || { echo "no sentence to plant" && bad=1; }
mkdir -p "$tmp/tests/x"
printf '    {"a", "%s"},\n    CHECK(strstr(err.msg, "%s"), "why");\n    CHECK(rc == 0,\n          "%s");\n' "$sentence" "$sentence" "$sentence" >"$tmp/tests/x/planted.c"
printf "says '%s'\nfail \"%s\"\n" "$sentence" "$sentence" >"$tmp/tests/x/planted.sh"
(cd "$tmp" && ln -s "$TOP/src" src && printf '%s\n' tests/x/planted.c tests/x/planted.sh >planted)
lines=$(cd "$tmp" && found planted | sed 's/:.*//' | tr '\n' ' ')
[ "$lines" = "tests/x/planted.c tests/x/planted.c tests/x/planted.sh " ] || { echo "planted sentences: found '$lines'" && bad=1; }
exit $bad
