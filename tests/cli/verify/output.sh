#!/bin/sh
# The verdict stands in the first line; what passed is left out unless it was requested or --all is given; lines fit the width. Several bundles,
# standard input and an unpacked directory.
. "$TEST_DIR/common.inc"
make_bundle a.zst
exit_of 0 "$REPRO" verify a.zst --json
cp out.txt a.json
exit_of 0 "$REPRO" verify a.zst
cp out.txt short.txt
[ "$(head -n 1 short.txt)" = "$(jq -r .summary a.json)" ] || fail "the first line is not the verdict: $(head -n 1 short.txt)"
exit_of 0 "$REPRO" verify a.zst --all
cp out.txt all.txt
[ "$(head -n 1 all.txt)" = "$(jq -r .summary a.json)" ] || fail "with --all the first line is not the verdict"
# Every check, by its state: notes, warnings and failures in both, the others with --all only.
jq -r '.checks[] | "\(.check) \(.state) \(.severity)"' a.json >checks.txt
while read -r id state severity; do
    grep -q "^[a-zA-Z/]* *$id  " all.txt || fail "--all leaves out $id"
    case $state:$severity in *:info | passed:* | skipped:* | not_applicable:*) shown=1 ;; *) shown=0 ;; esac
    found=0
    grep -q "^[a-zA-Z/]* *$id  " short.txt || found=$?
    [ "$found" = "$shown" ] || fail "$id is '$state': $(grep "$id" short.txt)"
done <checks.txt
# What was requested is answered, also where it passed.
exit_of 0 "$REPRO" verify a.zst --replay 1
grep -q '^passed *replay  *bit-equal' out.txt || fail "the replay is not shown"
# Lines fit; a word that is longer than a line has one of its own.
for width in 60 100; do
    COLUMNS=$width "$REPRO" verify a.zst --all >wide.txt
    awk -v width=$width 'length($0) > width && NF > 1 { bad = 1; print > "/dev/stderr" } END { exit bad }' wide.txt || fail "a line of more than $width characters"
    tr -s ' \n' '  ' <wide.txt >words.txt
    tr -s ' \n' '  ' <all.txt | cmp -s words.txt - || fail "wrapping loses words"
done
# Several bundles: each has its verdict, and the status is that of the first that is not 0.
head -c 5000 a.zst >cut.zst
exit_of 0 "$REPRO" verify a.zst a.zst
[ "$(grep -c '^a.zst: verified' out.txt)" = 2 ] || fail "not two verdicts"
[ "$(tail -n 1 out.txt)" = "2 bundles: 2 verified" ] || fail "the last line: $(tail -n 1 out.txt)"
exit_of 4 "$REPRO" verify a.zst cut.zst none.zst
[ "$(tail -n 1 out.txt)" = "3 bundles: 1 verified, cut.zst: FAILED, none.zst: not read" ] || fail "the last line: $(tail -n 1 out.txt)"
env -u HOME -u XDG_CONFIG_HOME "$REPRO" verify a.zst a.zst >out.txt 2>err.txt && fail "whose key is known without a home"
[ "$(grep -c 'is not recorded' err.txt)" = 1 ] || fail "told once for each bundle: $(cat err.txt)"
# An unknown key (8) does not hide a bundle that is no bundle.
exit_of 4 "$REPRO" verify -q "$TOP/results/epyc-2core-2026-11-27/gpt_32_ranks.repro.tar.zst" cut.zst
exit_of 4 "$REPRO" verify a.zst cut.zst none.zst
says_in 'cut.zst: FAILED: container' out.txt
says_in "none.zst" err.txt
exit_of 4 "$REPRO" verify none.zst a.zst cut.zst --json
jq -e '[.bundles[] | [.bundle, .exit]] == [["none.zst", 3], ["a.zst", 0], ["cut.zst", 4]] and .exit == 4 and .error.exit == 4' out.txt >answer.txt || fail "$(jq -c . out.txt)"
jq -e '[.bundles[].error | .code, .exit] == ["io", 3, null, null, "malformed", 4]' out.txt >answer.txt || fail "$(jq -c . out.txt)"
cp out.txt several.json
exit_of 0 "$REPRO" schema verify-output several.json
exit_of 2 "$REPRO" verify a.zst a.zst --original a.zst
# The document of one bundle names it, its digest, both programs, its status and where it ran, whatever the verdict.
"$REPRO" inspect a.zst statement.dsse.json | sha256sum | cut -d' ' -f1 >digest.txt
jq -e --arg d "$(cat digest.txt)" --arg c "$("$REPRO" version --json | jq -r .commit)" '.bundle == "a.zst" and .statement == $d
    and .program.commit == $c and .sealed_by.commit == $c and .exit == 0 and .device.ranks == 1 and .device.devices == 1
    and .device.nodes == 1 and has("error") == false' a.json >answer.txt || fail "what the document names: $(jq -c 'del(.checks)' a.json)"
for case in "3 none.zst" "4 cut.zst"; do
    exit_of "${case% *}" "$REPRO" verify "${case#* }" --json
    jq -e --arg b "${case#* }" --argjson s "${case% *}" '.bundle == $b and .exit == $s and .error.exit == $s and (.error.message | length) > 0
        and (.program.version | length) > 0 and .schema == "repro-verify-output/2"' out.txt >answer.txt || fail "$case: $(jq -c . out.txt)"
    cp out.txt one.json
    exit_of 0 "$REPRO" schema verify-output one.json
done
jq -e '.verdict == "failed" and (.why | length) > 0 and .why == .error.message' one.json >answer.txt || fail "why it failed: $(jq -c .why one.json)"
# A key that is trusted by a name.
"$REPRO" key show | sed -n '/BEGIN/,$p' >key.pem
mkdir -p other
(
    export HOME="$PWD/other" XDG_CONFIG_HOME="$PWD/other/.config"
    "$REPRO" key trust key.pem --name lab7 >out.txt
    exit_of 0 "$REPRO" verify a.zst --json
) || fail "a trusted key"
jq -e '.signer == "lab7" and .standing == "trusted" and .levels.authentic.reached == "yes"' out.txt >answer.txt || fail "the signer: $(jq -c 'del(.checks)' out.txt)"
# Standard input.
exit_of 0 sh -c '"$REPRO" verify - <a.zst'
says_in 'verified, signed by your own key' out.txt
exit_of 0 sh -c 'cat a.zst | "$REPRO" verify - -q'
exit_of 4 sh -c 'head -c 5000 a.zst | "$REPRO" verify -'
exit_of 2 sh -c '"$REPRO" verify - --challenge none --received file <a.zst'
# A directory: the container proves nothing, and every other check is made.
need zstd
mkdir d
zstd -dqc a.zst | tar -xf - -C d
exit_of 0 "$REPRO" verify d --json
jq -e '(.checks[] | select(.check == "container").state) == "not_applicable" and .verdict == "verified"' out.txt >answer.txt || fail "a directory"
jq -cS '[.checks[1:][] | [.check, .state]]' out.txt >of_directory.txt
jq -cS '[.checks[1:][] | [.check, .state]]' a.json | cmp -s - of_directory.txt || fail "other results than of the file"
echo >>d/facts.json
exit_of 5 "$REPRO" verify d
says_in "member 'facts.json' was changed" out.txt
echo x >d/extra
exit_of 4 "$REPRO" verify d
says_in "'extra' is not a member" out.txt
rm d/extra
ln -s ../a.zst d/link
exit_of 4 "$REPRO" verify d
says_in "neither a regular file nor a folder" out.txt
rm d/link d/key.pem
exit_of 4 "$REPRO" verify d
says_in "member 'key.pem' is missing" out.txt
mkdir empty
exit_of 3 "$REPRO" verify empty
