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

# A --repo that is none is said, on the page or beside the document; one that is not there is a mistake.
mkdir none
(cd r && exit_of 0 "$REPRO" capture --probe git --repo ../none && words out.txt '  none ')
exit_of 0 "$REPRO" capture --probe git --repo none -o none.json -q
words
exit_of 3 "$REPRO" capture --repo missing
words
exit_of 3 "$REPRO" capture --repo r/a
