#!/bin/sh
# A contradiction that a check found is in every place where the verdict stands, and so is how many ranks, nodes and machines there were.
. "$TEST_DIR/common.inc"
bundle=$TOP/results/epyc-2core-2026-11-27/gpt_32_ranks.repro.tar.zst # 32 ranks on 4 "nodes" of one machine
key=$(dirname "$bundle")/key.pem
exit_of 0 "$REPRO" verify "$bundle" --trust "$key" --json
jq -e '.verdict == "verified" and .warnings == ["same_host"] and .counts.warning == 1 and .levels.consistent.reached == "part"' out.txt >answer.txt ||
    fail "the document: $(jq -c '.verdict, .warnings, .levels.consistent' out.txt)"
jq -e '.device | .kind == "cpu" and .ranks == 32 and .nodes == 4 and .machines == 1 and .devices == 8' out.txt >answer.txt ||
    fail "the device: $(jq -c .device out.txt)"
jq -e '(.bundle | endswith("/gpt_32_ranks.repro.tar.zst")) and (.recipe | length) > 0 and (.statement | length) == 64' out.txt >answer.txt || fail "which bundle it is"
jq -r '.summary, .levels.claimed.text' out.txt
exit_of 0 "$REPRO" verify "$bundle" --trust "$key"
says_in 'consistent with 1 warning (same_host)' out.txt
says_in '32 ranks on 4 nodes: 8 threads of AMD EPYC; by their captures the nodes are 1 machine' out.txt
says_in 'nodes 0 and 1 are one machine' out.txt
# compare: evidence with a reservation, although both are the same bundle
exit_of 0 "$REPRO" compare "$bundle" "$bundle" --trust "$key" --json
jq -e '[.. | objects | select(.key? == "evidence")] | length > 0 and (tostring | contains("same_host"))' out.txt >answer.txt || fail "compare says nothing of it"
# the page: the verdict, and the warning, which is not folded
exit_of 0 "$REPRO" report "$bundle" --trust "$key" -o page.html
sed -n '/<aside/,/<\/aside/p' page.html >box.html
says_in '<h2>verified: authentic, consistent with 1 warning (same_host)' box.html
sed '/<details/,/<\/details/d' box.html >head.html
says_in 'warning of the check same_host: nodes 0 and 1 are one machine' head.html
! grep -q 'verdict good' box.html || fail "the head of the page is green"
sed 's/<[^>]*>//g' page.html | grep -q 'ranks: 32, nodes: 4' || fail "the page hides ranks and nodes"
exit_of 0 "$REPRO" report "$bundle" --trust "$key" -o page.md
sed '/^# /q' page.md >head.md
says_in 'consistent with 1 warning (same_host)' head.md
says_in '32 ranks on 4 nodes' head.md
! grep -ri suspicious page.html page.md >/dev/null || fail "another word for a warning"
