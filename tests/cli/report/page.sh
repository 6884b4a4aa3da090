#!/bin/sh
# What `report` writes and `verify --report` says of it: one bundle and several, HTML and Markdown, trusted or not, failed, not there.
. "$TOP/tests/common.inc"
bundle=$TOP/results/xeon-2core-2026-11-21/bert_fp32.repro.tar.zst
key=$TOP/results/xeon-2core-2026-11-21/key.pem
{ cat "$bundle"; echo; } >longer.repro.tar.zst
same_verdict() { # PAGE OPTION...: the page's heading is the last line of verify
    page=$1
    shift
    "$REPRO" verify "$bundle" "$@" >verify.txt 2>verify.err || cat verify.err >&2
    tail -n 1 verify.txt >line
    sed -n 's|.*<h1 [^>]*data-verdict="[0-9]">\([^<]*\)</h1>.*|\1|p' "$page" | cmp -s - line || fail "the verdict of $page is not $(cat line)"
}
row() { # STATE TEXT OPTION...
    state=$1 text=$2 status=0
    shift 2
    "$REPRO" verify "$bundle" "$@" >out.txt 2>err.txt || status=$?
    grep -q "^$state *report_file .*$text" out.txt || { cat out.txt err.txt >&2; fail "no row '$state report_file ... $text'"; }
}
exit_of 0 "$REPRO" report "$bundle" -o a.html
says_in "verified, but the key is unknown" out.txt
same_verdict a.html
exit_of 0 "$REPRO" report "$bundle" -o trusted.html --trust "$key"
same_verdict trusted.html --trust "$key"
cmp -s a.html trusted.html && fail "whom one trusts makes no difference"
"$REPRO" report "$bundle" >again.html
[ "$(grep -c '^repro [a-z]* bert_fp32.repro.tar.zst' a.html)" = 4 ] || fail "commands that do not name the bundle as it is called"
says_in "repro replicate bert_fp32.repro.tar.zst" a.html
cp "$bundle" renamed.repro.tar.zst
exit_of 0 "$REPRO" verify renamed.repro.tar.zst --report a.html
says_in "byte for byte" out.txt
cmp -s a.html again.html || fail "made again it is another page"
grep -q 'step_s/p[0-9]' a.html && fail "percentiles of 6 steps"
says_in "The 90th percentile is shown from 10 timed steps on, the 99th from 100" a.html
[ "$(wc -c <a.html)" -lt 400000 ] || fail "larger than 400 kB"
grep -ciE '<script|https?://|@import|url\(' a.html && fail "a page that asks others for something"
row passed "byte for byte" --report a.html
row passed "byte for byte" --report trusted.html --trust "$key"
row FAILED "says 'verified', here it is 'verified, but" --report trusted.html
[ "$status" = 5 ] || fail "a page that says more than is found here: status $status"
row note "; its verdict is 'verified, but" --report a.html --trust "$key"
[ "$status" = 0 ] || fail "a page that says less: status $status"
row skipped "not asked for"
rate=$("$REPRO" verify "$bundle" 2>verify.err | sed -n 's|^\([0-9.]*\) sequences/s, last loss.*|\1|p')
sed "s/>$rate</>42.12</" a.html >bent.html
row FAILED "says '42.12' for run.json#/results/throughput/value, the bundle '$rate'" --report bent.html
[ "$status" = 5 ] && [ "$(tail -n 1 out.txt)" = FAILED ] || fail "a bent page passes: status $status"
grep -q "^$rate sequences/s" out.txt && grep -q "^signed by SHA256:" out.txt || fail "a bad page takes away what the bundle says"
grep -q "^the bundle itself: verified, but the key is unknown; what failed is the page" out.txt || fail "nothing says that the bundle holds"
exit_of 5 "$REPRO" verify "$bundle" --report bent.html --json
says_in '"bundle_verdict": "verified-unknown-key"' out.txt
says_in '"verdict": "failed"' out.txt
exit_of 4 "$REPRO" verify longer.repro.tar.zst --report bent.html
grep -q "the bundle itself" out.txt && fail "a bundle that failed holds"
# Markdown is the sealed report below the verdict.
exit_of 0 "$REPRO" report "$bundle" -o a.md
[ "$(head -n 1 a.md)" = "> **verified, but the key is unknown**" ] || fail "no verdict in a.md"
"$REPRO" inspect "$bundle" report.md >sealed.md
tail -c "$(wc -c <sealed.md)" a.md | cmp -s - sealed.md || fail "a.md does not end in the sealed report"
row passed "byte for byte" --report a.md
row note "sealed report" --report sealed.md
sed "s/$rate/42.12/" a.md >bent.md
row FAILED "was changed" --report bent.md
# A bundle that fails: its checks, the status of verify, and no figure.
exit_of 4 "$REPRO" report longer.repro.tar.zst -o failed.html
says_in 'data-verdict="0">FAILED</h1>' failed.html
grep -q '<data ' failed.html && fail "figures of a bundle that failed"
exit_of 4 "$REPRO" report "$bundle" longer.repro.tar.zst -o both.html
says_in "nothing of it is shown" both.html
row skipped "not decided: .* the page shows a bundle that failed too" --report both.html
[ "$status" = 7 ] || fail "a page of several bundles: status $status"
# Several bundles are compared when all of them are named.
"$REPRO" run bert_tiny_fp32 --threads 1 --steps 1 --set measure.warmup_steps=1 --set measure.repeats=1 --set measure.ceilings=false \
    -o tiny.repro.tar.zst >run.txt 2>&1 || { cat run.txt >&2; fail "no second bundle"; }
exit_of 0 "$REPRO" report "$bundle" tiny.repro.tar.zst -o two.html
row skipped "name each with --beside" --report two.html
[ "$status" = 7 ] || fail "half of a page of two: status $status"
row passed "of its 2 bundles" --report two.html --beside tiny.repro.tar.zst
[ "$status" = 0 ] || fail "a page of two: status $status"
row skipped "'longer.repro.tar.zst' does not verify" --report two.html --beside longer.repro.tar.zst
sed 's/<footer><p>/<footer><p>9999 sequences\/s /' two.html >bent.html
row FAILED "was changed: '9999" --report bent.html --beside tiny.repro.tar.zst
exit_of 0 "$REPRO" report "$bundle" tiny.repro.tar.zst -o two.md
row skipped "name each with --beside" --report two.md
[ "$status" = 7 ] || fail "half of a file of two: status $status"
row passed "of its 2 bundles" --report two.md --beside tiny.repro.tar.zst
[ "$status" = 0 ] || fail "a file of two: status $status"
sed "s/$rate/42.12/" two.md >bent.md
row FAILED "was changed: '[^ ]*42.12" --report bent.md --beside tiny.repro.tar.zst
row skipped "'tiny.repro.tar.zst', which is not on the page" --report a.html --beside tiny.repro.tar.zst
grep -q "^the bundle itself: verified, but the key is unknown; what is not decided is the page" out.txt || fail "nothing says that the bundle holds"
exit_of 3 "$REPRO" verify "$bundle" --report two.html --beside none.repro.tar.zst
exit_of 2 "$REPRO" verify "$bundle" --beside tiny.repro.tar.zst
# What a run says of its attempts, with the ledger and without.
ledger=$("$REPRO" ledger list --json | sed -n 's/.*"ledger": "\(.*\)",/\1/p')
bundle=tiny.repro.tar.zst
exit_of 0 "$REPRO" report tiny.repro.tar.zst --ledger "$ledger" -o attempt.html
says_in 'data-src="verify/ledger#/attempt" data-form="d0">1</data>' attempt.html
row passed "byte for byte" --report attempt.html --ledger "$ledger"
row FAILED "such as --ledger" --report attempt.html
exit_of 3 "$REPRO" report tiny.repro.tar.zst --ledger none.jsonl -o none.html
exit_of 2 "$REPRO" report tiny.repro.tar.zst tiny.repro.tar.zst --ledger "$ledger" -o none.html
bundle=$TOP/results/xeon-2core-2026-11-21/bert_fp32.repro.tar.zst
sed 's/repro-page/repro-pages/' a.html >older.html
row skipped "another version of repro made it" --report older.html
[ "$status" = 7 ] && grep -q "^not decided" out.txt || fail "a page of another version: status $status"
row FAILED "does not show this bundle" --report failed.html
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
says "neither in .html nor in .md"
exit_of 3 "$REPRO" report none.repro.tar.zst -o none.html
[ ! -e none.html ] || fail "a page of nothing"
exit_of 3 "$REPRO" verify "$bundle" --report none.html
exit_of 2 "$REPRO" report
exit_of 0 "$REPRO" report --json "$bundle" -o b.html
need jq
jq -e '.format == "html" and .file == "b.html" and .bundles[0].verdict == "verified-unknown-key"' out.txt >/dev/null || fail "--json"
