#!/bin/sh
# A page names a bundle by what was signed: neither by its file, nor by a title that was set for one run.
. "$TOP/tests/common.inc"
need jq
make_bundle plain.repro.tar.zst
make_bundle titled.repro.tar.zst --set 'title=8 H200, a record'
mv titled.repro.tar.zst another-h200.repro.tar.zst
headings() { # PAGE: its title and headings, where a bundle is named
    grep -o '<title>[^<]*</title>\|<h[12][^>]*>.*</h[12]>' "$1"
}
exit_of 0 "$REPRO" report another-h200.repro.tar.zst -o one.html
exit_of 0 "$REPRO" report plain.repro.tar.zst another-h200.repro.tar.zst -o two.html
exit_of 0 "$REPRO" report plain.repro.tar.zst -o plain.html
for page in one.html two.html; do
    ! headings $page | grep -q 'H200' || fail "$page: $(headings $page)"
    ! grep -q 'another-h200' $page || fail "$page has the name of the file"
done
own=$("$REPRO" inspect plain.repro.tar.zst facts.json | jq -r .recipe.title.value)
headings plain.html | grep -qF "<title>$own</title>" || fail "the recipe's own title is not shown: $(headings plain.html)"
digest=$("$REPRO" inspect another-h200.repro.tar.zst statement.dsse.json | sha256sum | cut -c 1-12)
grep -q "<h2>[^<]*$digest" two.html || fail "the box does not name the statement"
cp another-h200.repro.tar.zst renamed.repro.tar.zst
exit_of 0 "$REPRO" report renamed.repro.tar.zst -o renamed.html
cmp -s one.html renamed.html || fail "a bundle with another name has another page"
exit_of 0 "$REPRO" report plain.repro.tar.zst another-h200.repro.tar.zst -o two.md
! grep -q 'another-h200' two.md || fail "two.md has the name of the file"
