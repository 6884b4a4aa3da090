#!/bin/sh
# What a stranger wrote into a bundle reaches the terminal and the report without anything that a terminal obeys.
. "$TEST_DIR/common.inc"
name=$(printf 'a\033[31m\302\233m\342\200\256b\342\201\246c\330\234d\342\200\213e\302\255f\363\240\201\201g') # ESC, C1, override, isolate, mark; unseen
"$REPRO" recipes show bert_tiny_fp32 | grep -v '^title' >"$name.yaml"
exit_of 0 "$REPRO" run "./$name.yaml" --threads 1 --steps 1 --set measure.warmup_steps=0 --set measure.repeats=1 \
    --set train.accumulation_steps=1 -o a.repro.tar.zst
clean() { # FILE: printable text and line ends, of UTF-8 only what turns and hides nothing
    tr -d '\n\t\040-\176\200-\377' <"$1" | cmp -s - /dev/null || fail "control characters in $1: $(od -c "$1" | head -n 40)"
    for bytes in '\302\233' '\342\200\256' '\342\201\246' '\330\234' '\342\200\213' '\302\255' '\363\240\201\201'; do
        ! grep -q -a -F -e "$(printf %b "$(printf %s "$bytes" | sed 's/\\/\\0/g')")" "$1" || fail "$bytes in $1"
    done
}
clean err.txt
clean out.txt
for form in '' --json; do
    exit_of 0 "$REPRO" inspect $form a.repro.tar.zst
    clean out.txt
    exit_of 0 "$REPRO" verify $form a.repro.tar.zst
    clean out.txt
done
exit_of 0 "$REPRO" report a.repro.tar.zst --format md
clean out.txt
cp a.repro.tar.zst "$name.repro.tar.zst" # the file's own name may be a stranger's too
exit_of 0 "$REPRO" inspect "$name.repro.tar.zst"
clean out.txt
exit_of 0 "$REPRO" inspect --json a.repro.tar.zst recipe.yaml
clean out.txt
"$REPRO" inspect a.repro.tar.zst facts.json | grep -q -a -F "$(printf '\342\200\256')" || fail "a member does not come byte for byte"
if command -v script >/dev/null; then # on a terminal it does not either
    script -q -e -c "$REPRO inspect a.repro.tar.zst facts.json" /dev/null </dev/null | tr -d '\r' >out.txt
    grep -q recipe_name out.txt || fail "nothing on the terminal"
    clean out.txt
fi
