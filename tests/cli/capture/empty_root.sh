#!/bin/sh
# In a root that holds nothing but the program there is still a document: absent, not a failure.
. "$TOP/tests/common.inc"
make_root
env -i OMP_NUM_THREADS=3 "$change_root" root /repro capture --json >env.json
[ "$(jq -r .schema env.json)" = repro-env/1 ] || fail "no document"
[ "$(jq '[.. | objects | select(.state? == "absent" or .state? == "denied")] | length' env.json)" -gt 200 ] || fail "too little is unknown"
[ "$(jq '[.. | objects | select(.state? == "absent") | select(.source | startswith("/proc/") or startswith("/sys/"))] | length' env.json)" = 0 ] ||
    fail "something that nobody could look at is absent"
[ "$(jq '[.. | objects | select(.state? == "error")] | length' env.json)" = 0 ] || fail "something is in error"
[ "$(jq -r .probes.kernel.release.value env.json)" = "$(uname -r)" ] || fail "uname is always there"
[ "$(jq -r .probes.environment.OMP_NUM_THREADS.value env.json)" = 3 ] || fail "the environment is always there"
env -i "$change_root" root /repro capture >summary.txt
grep -qE '^document +values +[0-9]+ known, [0-9]+ absent' summary.txt || fail "the page does not say how much is unknown"
words summary.txt 'proc is not' | sed 's/[0-9]* values/N values/'
! grep -q '(absent)' summary.txt || fail "the page has lines for what is not there"
