#!/bin/sh
# The document follows the git state of the working directory.
. "$TOP/tests/common.inc"
git --version >/dev/null 2>&1 || skip "no git here"
HOME=$PWD
export HOME
git init -q r
echo 1 >r/a
git -C r add a
git -C r -c user.name=a -c user.email=a@b commit -q -m one
echo 2 >r/a
(cd r && "$REPRO" capture --json >../env.json)
[ "$(jq -r .probes.git.workdir.commit.value env.json)" = "$(git -C r rev-parse HEAD)" ] || fail "another commit"
[ "$(jq -r .probes.git.workdir.modified.value env.json)" = 1 ] || fail "the change is not seen"

# A sparse checkout is clean, in itself and as a submodule; what is changed in it is seen.
git init -q wide
mkdir wide/kept wide/left
echo 1 >wide/kept/a
echo 1 >wide/left/b
git -C wide add .
git -C wide -c user.name=a -c user.email=a@b commit -q -m one
git clone -q wide sparse
git -C sparse sparse-checkout set kept
[ ! -e sparse/left/b ] || fail "git kept what is left out"
[ -z "$(git -C sparse status --porcelain)" ] || fail "git calls it changed"
differences() { jq -c '.probes.git.sparse | [.modified.value, .changed_files.value, (.describe.value | endswith("-dirty"))]' env.json; }
"$REPRO" capture --probe git --repo sparse -o env.json --force -q
[ "$(differences)" = '[0,[],false]' ] || { differences >&2; fail "a sparse checkout is not clean"; }
git init -q holder
git -C holder -c protocol.file.allow=always submodule --quiet add "$PWD/wide" part
git -C holder -c user.name=a -c user.email=a@b commit -q -m one
git -C holder/part sparse-checkout set kept
"$REPRO" capture --probe git --repo holder -o env.json --force -q
[ "$(jq -r .probes.git.holder.submodules_changed.value env.json)" = 0 ] || fail "a sparse submodule is not clean"
echo 2 >sparse/kept/a
git -C sparse rm -q --cached --sparse left/b
"$REPRO" capture --probe git --repo sparse -o env.json --force -q
[ "$(jq .probes.git.sparse.modified.value env.json)" = 2 ] || { differences >&2; fail "changes of a sparse checkout"; }

# A --repo that is none is said, on the page or beside the document; one that is not there is a mistake.
mkdir none
(cd r && exit_of 0 "$REPRO" capture --probe git --repo ../none && words out.txt '  none ')
exit_of 0 "$REPRO" capture --probe git --repo none -o none.json -q
words
exit_of 3 "$REPRO" capture --repo missing
words
exit_of 3 "$REPRO" capture --repo r/a
