#!/bin/sh
# The document is valid by its published schema, hides names by default, and follows the working directory's git state.
. "$TEST_DIR/common.inc"
"$REPRO" capture --json >env.json
host=$(uname -n)
case $host in
??????*) ! grep -qF "\"$host\"" env.json || fail "the host's name shows" ;;
esac
[ "$(jq -r .identified env.json)" = false ] || fail "identified unasked"
"$REPRO" capture --identify --json >clear.json
[ "$(jq -r .probes.host.hostname.value clear.json)" = "$host" ] || fail "--identify hides the name"
[ "$(jq -r .probes.program.sha256.value env.json)" = "$(sha256sum <"$REPRO" | cut -c1-64)" ] || fail "not the digest of this program"
salt=$(jq -r .salt env.json)
proof=$(printf '%s\0host.hostname\0%s' "$salt" "$host" | sha256sum | cut -c1-64)
[ "$(jq -r .probes.host.hostname.value env.json)" = "sha256:$proof" ] || fail "the hidden name cannot be proved"
if git --version >/dev/null 2>&1; then
    HOME=$PWD
    export HOME
    git init -q r
    echo 1 >r/a
    git -C r add a
    git -C r -c user.name=a -c user.email=a@b commit -q -m one
    echo 2 >r/a
    (cd r && "$REPRO" capture --json >../git.json)
    [ "$(jq -r .probes.git.commit.value git.json)" = "$(git -C r rev-parse HEAD)" ] || fail "another commit"
    [ "$(jq -r .probes.git.modified.value git.json)" = 1 ] || fail "the change is not seen"
fi
python3 -c 'import jsonschema' 2>/dev/null || { echo "# the schema itself is not tried: no python3-jsonschema"; exit 0; }
python3 -c 'import json, sys, jsonschema
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' env.json "$TEST_DIR/../../../src/capture/repro-env-1.schema.json"
