#!/bin/sh
# What `report` writes and what `verify --report` finds in it: one bundle and several, HTML and Markdown, trusted or not, failed, not there.
. "$TOP/tests/common.inc"
train() { # FILE STEPS
    "$REPRO" run bert_tiny_fp32 --threads 1 --steps "$2" --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false \
        -o "$1" >run.txt 2>&1 || { cat run.txt >&2; fail "no bundle $1"; }
}
row() { # STATE OPTION...: of report_file, in a verification of $bundle
    state=$1 status=0
    shift
    "$REPRO" verify "$bundle" "$@" >out.txt 2>err.txt || status=$?
    grep -q "^$state *report_file " out.txt || { cat out.txt err.txt >&2; fail "no row '$state report_file'"; }
}
same_verdict() { # PAGE OPTION...: the banner of the page is the last line of verify
    page=$1
    shift
    "$REPRO" verify "$bundle" "$@" >verify.txt 2>verify.err || cat verify.err >&2
    tail -n 1 verify.txt >line
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
[ "$(tail -n 1 out.txt)" = trusted.html ] || fail "the file is not named"
if command -v script >found.txt; then # on a terminal
    exit_of 2 script -qec "'$REPRO' report '$bundle'" typescript </dev/null
    exit_of 0 script -qec "'$REPRO' report '$bundle' --format md" typescript </dev/null
    says_in '# ' out.txt
fi
"$REPRO" report "$bundle" >again.html
cmp -s a.html again.html || fail "made again it is another page"
[ "$(grep -c '^repro [a-z]* bert_tiny_fp32-[0-9TZ]*.repro.tar.zst' a.html)" = 4 ] || fail "commands that do not name the bundle"
cp "$bundle" renamed.repro.tar.zst
exit_of 0 "$REPRO" verify renamed.repro.tar.zst --report a.html
grep -q 'step_s/p[0-9]' a.html && fail "percentiles of 3 steps"
[ "$(wc -c <a.html)" -lt 400000 ] || fail "larger than 400 kB"
grep -qiE '<script|https?://|@import|url\(' a.html && fail "a page that asks others for something"
# The body is compared, whoever made the page; the box is not.
row passed --report a.html
row passed --report trusted.html
row passed --report a.html --trust key.pem
row skipped
rate=$("$REPRO" verify "$bundle" 2>verify.err | sed -n 's|^\([0-9.]*\) sequences/s, last loss.*|\1|p')
sed "s/>$rate</>42.12</" a.html >bent.html
row FAILED --report bent.html
grep -q "'42.12' for run.json#/results/throughput/value" out.txt || fail "the changed figure is not named"
[ "$status" = 5 ] && [ "$(tail -n 1 out.txt)" = "FAILED: report_file" ] || fail "a bent page passes: status $status"
grep -q "^$rate sequences/s" out.txt && grep -q "^signed by SHA256:" out.txt || fail "a bad page takes away what the bundle says"
exit_of 5 "$REPRO" verify "$bundle" --report bent.html --json
says_in '"bundle_verdict": "verified-unknown-key"' out.txt
says_in '"verdict": "failed"' out.txt
exit_of 4 "$REPRO" verify longer.repro.tar.zst --report bent.html
tail -n 1 out.txt
sed 's/<h2>verified[^<]*/<h2><b>verified<\/b>/' a.html >bent.html
row FAILED --report bent.html
# Markdown is the sealed report below the box.
exit_of 0 "$REPRO" report "$bundle" -o a.md
says_in "> **\`$("$REPRO" verify "$bundle" --no-ledger 2>verify.err | tail -n 1)\`**" a.md
"$REPRO" inspect "$bundle" report.md >sealed.md
tail -c "$(wc -c <sealed.md)" a.md | cmp -s - sealed.md || fail "a.md does not end in the sealed report"
row passed --report a.md
row note --report sealed.md
sed "s/$rate/42.12/" a.md >bent.md
row FAILED --report bent.md
# A bundle that fails: its checks in the box, the status of verify, and no figure; beside it the others are whole.
exit_of 4 "$REPRO" report longer.repro.tar.zst -o failed.html
says_in '<h2>FAILED: container</h2>' failed.html
grep -q '<data ' failed.html && fail "figures of a bundle that failed"
row FAILED --report failed.html
exit_of 4 "$REPRO" report "$bundle" longer.repro.tar.zst -o both.html
says_in "FAILED: container</h2>" both.html
! grep -q '<h2>[^<]*longer' both.html || fail "a bundle that failed is named by its file"
row passed --report both.html
# Several bundles are compared when all of them are named.
exit_of 0 "$REPRO" report "$bundle" tiny.repro.tar.zst -o two.html
row skipped --report two.html
[ "$status" = 7 ] || fail "half of a page of two: status $status"
row passed --report two.html --with tiny.repro.tar.zst
[ "$status" = 0 ] || fail "a page of two: status $status"
row skipped --report two.html --with longer.repro.tar.zst
sed 's/<footer><p>/<footer><p>9999 sequences\/s /' two.html >bent.html
row FAILED --report bent.html --with tiny.repro.tar.zst
row skipped --report a.html --with tiny.repro.tar.zst
exit_of 3 "$REPRO" verify "$bundle" --report two.html --with none.repro.tar.zst
exit_of 2 "$REPRO" verify "$bundle" --with tiny.repro.tar.zst
# What a run says of its attempts is the same with the ledger and without.
ledger=$("$REPRO" ledger list --json | sed -n 's/.*"ledger": "\(.*\)",/\1/p')
exit_of 0 "$REPRO" report "$bundle" --ledger "$ledger" -o attempt.html
says_in 'attempt 1 of 2' attempt.html
row passed --report attempt.html
exit_of 3 "$REPRO" report tiny.repro.tar.zst --ledger none.jsonl -o none.html
exit_of 2 "$REPRO" report tiny.repro.tar.zst tiny.repro.tar.zst --ledger "$ledger" -o none.html
sed 's/repro-page/repro-pages/' a.html >older.html
row skipped --report older.html
[ "$status" = 7 ] || fail "a page of another version: status $status"
# Names of files are foreign too.
evil=$(printf 'x"><script>alert(1)\033[2J')
cp longer.repro.tar.zst "$evil"
exit_of 4 "$REPRO" report "$bundle" "./$evil" -o evil.html
grep -q '<script' evil.html && fail "the name of a file became markup"
LC_ALL=C grep -q "$(printf '\033')" evil.html out.txt err.txt && fail "the name of a file reached the terminal"
row passed --report evil.html
# What is refused.
exit_of 2 "$REPRO" report "$bundle" -o a.html
says "--force"
exit_of 0 "$REPRO" report "$bundle" -o a.html --force
exit_of 2 "$REPRO" report "$bundle" -o a.pdf
says .html
exit_of 3 "$REPRO" report none.repro.tar.zst -o none.html
[ ! -e none.html ] || fail "a page of nothing"
exit_of 3 "$REPRO" verify "$bundle" --report none.html
exit_of 2 "$REPRO" report
exit_of 0 "$REPRO" report --json "$bundle" -o b.html
need jq
jq -e '.format == "html" and .file == "b.html" and .bundles[0].verdict == "verified-unknown-key"' out.txt >/dev/null || fail "--json"
