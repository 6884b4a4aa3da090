#!/bin/sh
# What `report` writes: one bundle and several, HTML and Markdown, trusted or not, failed, not there.
. "$TOP/tests/common.inc"
train() { # FILE STEPS
    "$REPRO" run resnet50_tiny_fp32 --threads 1 --steps "$2" --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false \
        -o "$1" >run.txt 2>&1 || { cat run.txt >&2; fail "no bundle $1"; }
}
same_body() { # PAGE PAGE: they differ in the box alone
    sed '/<aside/,/<\/aside>/d' "$1" >body1
    sed '/<aside/,/<\/aside>/d' "$2" >body2
    cmp -s body1 body2 || fail "the bodies of $1 and $2 differ"
}
same_verdict() { # PAGE OPTION...: the banner of the page is the first line of verify
    page=$1
    shift
    "$REPRO" verify "$bundle" "$@" >verify.txt 2>verify.err || cat verify.err >&2
    head -n 1 verify.txt >line
    sed -n 's|.*class="verdict [^<]*.*<h2>\([^<]*\)</h2>.*|\1|p' "$page" | cmp -s - line || fail "the verdict of $page is not $(cat line)"
}
bundle=a.repro.tar.zst
train a.repro.tar.zst 3
train tiny.repro.tar.zst 1
{ cat "$bundle"; echo; } >longer.repro.tar.zst
tar --zstd -xOf "$bundle" key.pem >key.pem
exit_of 0 "$REPRO" report "$bundle" -o a.html
same_verdict a.html
exit_of 0 "$REPRO" report "$bundle" -o trusted.html --trust key.pem
same_verdict trusted.html --trust key.pem
cmp -s a.html trusted.html && fail "whom one trusts makes no difference"
same_body a.html trusted.html
[ "$(tail -n 1 out.txt)" = trusted.html ] || fail "the file is not named"
if command -v script >found.txt; then # on a terminal
    exit_of 2 script -qec "'$REPRO' report '$bundle'" typescript </dev/null
    exit_of 0 script -qec "'$REPRO' report '$bundle' --format md" typescript </dev/null
    says_in '# ' out.txt
fi
"$REPRO" report "$bundle" >again.html
cmp -s a.html again.html || fail "made again it is another page"
[ "$(grep -c '^repro [a-z]* resnet50_tiny_fp32-[0-9TZ]*.repro.tar.zst' a.html)" = 4 ] || fail "commands that do not name the bundle"
grep -q 'step_s/p[0-9]' a.html && fail "percentiles of 3 steps"
[ "$(wc -c <a.html)" -lt 400000 ] || fail "larger than 400 kB"
grep -qiE '<script|https?://|@import|url\(' a.html && fail "a page that asks others for something"
# Markdown is the report below the box, made from the bundle alone.
exit_of 0 "$REPRO" report "$bundle" -o a.md
says_in "> **\`$("$REPRO" verify "$bundle" --no-ledger 2>verify.err | head -n 1)\`**" a.md
exit_of 0 "$REPRO" report "$bundle" -o trusted.md --trust key.pem
sed '1,/^$/d' a.md >body1
sed '1,/^$/d' trusted.md | cmp -s body1 - || fail "the report below the box depends on whom one trusts"
for row in 'timed steps | [0-9]' 'peak memory | [0-9.]* MiB |' 'last loss | [0-9.]* = 0x' 'program | ' 'parameters | [0-9]'; do
    grep -q "^| $row" a.md || fail "a.md has no row '$row'"
done
# A bundle that fails: its checks in the box, the status of verify, and no figure; beside it the others are whole.
exit_of 4 "$REPRO" report longer.repro.tar.zst -o failed.html
says_in '<h2>FAILED: container</h2>' failed.html
grep -q '<data ' failed.html && fail "figures of a bundle that failed"
exit_of 4 "$REPRO" report "$bundle" longer.repro.tar.zst -o both.html
says_in "FAILED: container</h2>" both.html
[ "$(grep -n '<aside' both.html | cut -d: -f1)" -lt "$(grep -n 'class="cards"' both.html | head -n 1 | cut -d: -f1)" ] || fail "what failed stands after figures"
! grep -q 'not run: ' both.html || fail "a row for each check after the one that ended it"
! grep -q '<h2>[^<]*longer' both.html || fail "a bundle that failed is named by its file"
grep -q '<section class="bundle"' both.html || fail "no figures of the bundle that did not fail"
# The page is written whatever the verdict, which stands on stderr; the status is that of verify.
stranger() { # COMMAND...: without these keys
    mkdir -p stranger
    HOME=$PWD/stranger XDG_CONFIG_HOME=$PWD/stranger/.config "$@"
}
stranger exit_of 8 "$REPRO" report "$bundle" -o unknown.html
says_in "$bundle: verified, but the key is unknown: " err.txt
says_in '<section class="bundle"' unknown.html
[ "$(cat out.txt)" = unknown.html ] || fail "standard output has more than the file: $(cat out.txt)"
stranger exit_of 8 "$REPRO" report "$bundle" --format md
says_in "$bundle: verified, but the key is unknown: " err.txt
says_in '# ' out.txt
stranger exit_of 8 "$REPRO" report --json "$bundle"
jq -e '.bundles[0].verdict == "verified-unknown-key" and .error.exit == 8' out.txt >answer.txt || fail "the document of report"
stranger exit_of 0 "$REPRO" report "$bundle" --any-key -o any.html
stranger exit_of 0 "$REPRO" report "$bundle" --trust key.pem -f -o any.html
stranger exit_of 2 "$REPRO" report "$bundle" --trust key.pem --any-key -f -o any.html
stranger exit_of 8 "$REPRO" report "$bundle" tiny.repro.tar.zst -o strange.html
[ "$(grep -c ': verified, but the key is unknown: ' err.txt)" = 2 ] || fail "two verdicts: $(cat err.txt)"
stranger exit_of 4 "$REPRO" report "$bundle" longer.repro.tar.zst -f -o strange.html
stranger exit_of 8 "$REPRO" report -q "$bundle" -f -o strange.html
# Several bundles.
exit_of 0 "$REPRO" report "$bundle" tiny.repro.tar.zst -o two.html
[ "$(grep -c '<section class="bundle"' two.html)" = 2 ] || fail "not the sections of two bundles"
# What a run says of its attempts is the same with the ledger and without.
ledger=$("$REPRO" ledger list --json | sed -n 's/.*"ledger": "\(.*\)",/\1/p')
exit_of 0 "$REPRO" report "$bundle" --ledger "$ledger" -o attempt.html
says_in 'attempt 1 of 2' attempt.html
same_body a.html attempt.html
exit_of 3 "$REPRO" report tiny.repro.tar.zst --ledger none.jsonl -o none.html
exit_of 2 "$REPRO" report tiny.repro.tar.zst tiny.repro.tar.zst --ledger "$ledger" -o none.html
# Names of files are foreign too.
evil=$(printf 'x"><script>alert(1)\033[2J')
cp longer.repro.tar.zst "$evil"
exit_of 4 "$REPRO" report "$bundle" "./$evil" -o evil.html
grep -q '<script' evil.html && fail "the name of a file became markup"
LC_ALL=C grep -q "$(printf '\033')" evil.html out.txt err.txt && fail "the name of a file reached the terminal"
# What is refused.
exit_of 2 "$REPRO" report "$bundle" -o a.html
says "--force"
exit_of 0 "$REPRO" report "$bundle" -o a.html --force
exit_of 2 "$REPRO" report "$bundle" -o a.pdf
says .html
exit_of 3 "$REPRO" report none.repro.tar.zst -o none.html
[ ! -e none.html ] || fail "a page of nothing"
exit_of 2 "$REPRO" report
exit_of 0 "$REPRO" report --json "$bundle" -o b.html
need jq
jq -e '.format == "html" and .file == "b.html" and .bundles[0].verdict == "verified"' out.txt >/dev/null || fail "--json"
