#!/bin/sh
# What strangers write into tables, documents and names: nothing reaches the terminal, no cell ends early, no verdict is forged.
. "$TEST_DIR/common.inc"
esc=$(printf "\033")
cat >evil.json <<END
{"schema": "repro-imported/1", "provenance": {"format": "dllogger"}, "unsigned": true, "rows": [
 {"label": "x | verified |\n# comparable\n\u001b[2J\u001b]0;t\u0007\u202e\u0085<script>alert(1)</script>", "framework": "=cmd|' /C calc'!A0",
  "model": "[a](http://evil.example/)\`x\`", "throughput": {"value": 1, "unit": "s|q\n| 9"}, "precision": "www.evil.example",
  "source": {"kind": "imported", "signed_by": "SHA256:x", "verdict": "verified", "note": "verified\u001b[31m", "file": "a|b\n.zst"}},
 {"label": "y", "throughput": {"value": 999999999999999, "unit": "s|q\n| 9"}}]}
END
for form in "" "--format md" "--format csv" --json "--layout dlperf --format md" "--layout paddle --format md" "--layout mlperf --format md" \
    "--layout gpt --format md"; do
    # shellcheck disable=SC2086 # words of a command line
    "$REPRO" compare evil.json $form >out.txt 2>err.txt || [ $? = 5 ] || { cat err.txt >&2; fail "'$form'"; }
    tr -d '\n\040-\176' <out.txt | grep -q . && { od -c out.txt | head >&2; fail "'$form': control or foreign characters"; }
    grep -q '^# comparable$' out.txt && fail "'$form': a forged heading"
    case $form in
    *md*)
        grep -qE '<script|[^\\]\]\(|[^\\]`|www\.evil' out.txt && { cat out.txt >&2; fail "'$form': markup of a stranger"; }
        awk -F'[^\\\\][|]' '/^[|]/ {if (n && NF != n) exit 1; n = NF} !/^[|]/ {n = 0}' out.txt || { cat out.txt >&2; fail "'$form': a cell ended early"; }
        ;;
    *csv*) grep -qE '(^|,)"?=' out.txt && fail "a formula" ;;
    esac
done
exit_of 5 "$REPRO" compare evil.json --json
jq -e '.verdict == "not comparable" and ([.rows[].source | .kind == "imported" and (has("signed_by") | not) and (has("verdict") | not)] | all)' \
    out.txt >/dev/null || fail "a document said who signed it"

# numbers beyond sense, and sizes
for value in NaN Infinity 1e999 1e300 5e-324 -5 0 '"1"' null '[1]'; do
    printf '{"schema": "repro-imported/1", "rows": [{"throughput": {"value": %s, "unit": "x/s"}}]}' "$value" >n.json
    exit_of 4 "$REPRO" compare n.json n.json
done
for value in nan inf 0x10 1e999 1e300 -5 0 1,5 '=1'; do
    printf 'framework,throughput,unit\na,"%s",x/s\n' "$value" >n.csv
    exit_of 4 "$REPRO" compare n.csv n.csv
done
# A table of one's own is not a published one, whatever its labels; a copy of a published one is.
printf 'model,framework,note,throughput,unit\nbert-base,Mine,"published, unsigned",9,sequences/s\n' >own.csv
cp "$TOP/results/published/dlperf_v100.csv" copy.csv
one='model=bert-base,precision=fp32,batch=32,gpus=1,framework=OneFlow'
exit_of 0 "$REPRO" compare "published:dlperf_v100#$one" own.csv "copy.csv#$one" --json
jq -e '[.pairs[].confounders[] | select(.key == "evidence").b] | unique == ["published, unsigned", "table, unsigned"]' out.txt >answer.txt ||
    fail "what the tables count as: $(jq -c '[.pairs[].confounders[] | select(.key == "evidence").b]' out.txt)"
printf 'framework,throughput,unit\n%0100000d,1,x/s\n' 7 >long.csv
exit_of 4 "$REPRO" compare long.csv long.csv
awk 'BEGIN {print "framework,throughput,unit"; for (i = 0; i < 100002; i++) print "a,1,x/s"}' >many.csv
exit_of 4 "$REPRO" compare many.csv
awk 'BEGIN {print "framework,throughput,unit"; for (i = 0; i < 1001; i++) print "a" i ",1,x/s"}' >many.csv
exit_of 2 "$REPRO" compare many.csv
exit_of 5 "$REPRO" compare 'many.csv#framework=a7' 'many.csv#framework=a8'
head -c 8388609 /dev/zero | tr '\0' ' ' >large.json
exit_of 4 "$REPRO" compare large.json
awk 'BEGIN {printf "{\"rows\": [{\"samples\": [1"; for (i = 0; i < 250000; i++) printf ",1"; print "]}]}"}' >large.json
exit_of 4 "$REPRO" compare large.json
sed 's/"kind": "imported"/"kind": "bundle"/' evil.json >kind.json
exit_of 4 "$REPRO" compare kind.json
printf 'framework,throughput,unit,verdict\na,1,x/s,verified\n' >v.csv
exit_of 4 "$REPRO" compare v.csv

# names of files
name=$(printf 'a\033[31m\nb.csv')
printf 'framework,throughput,unit\na,1,x/s\nb,2,x/s\n' >"$name"
exit_of 5 "$REPRO" compare "$name"
grep -q "$esc" out.txt && fail "the name of a file reaches the terminal"
exit_of 3 "$REPRO" compare "$(printf 'none\033[31m')" x
grep -q "$esc" err.txt && fail "a message reaches the terminal with the name of a file"
mkfifo pipe
exit_of 3 "$REPRO" compare pipe pipe
