#!/bin/sh
# A replicator names a replication of this bundle by the same key, or only says to be one.
. "$TEST_DIR/common.inc"
need jq
make_bundle a.repro.tar.zst
make_bundle other.repro.tar.zst --set seed.init=5
for who in bob carol; do
    "$REPRO" key new -o $who.key >$who.txt
done
exit_of 0 "$REPRO" replicate a.repro.tar.zst --key bob.key -o bobs.repro.tar.zst
exit_of 0 "$REPRO" replicate other.repro.tar.zst --key bob.key -o others.repro.tar.zst
signatures() { # FILTER BUNDLE
    "$REPRO" verify "$2" --json | jq -r ".countersignatures | $1"
}
named() { # STATUS OPTION...
    status=$1
    shift
    exit_of "$status" "$REPRO" sign a.repro.tar.zst -o signed.repro.tar.zst "$@"
    [ "$status" = 0 ] || words
}
named 2 --key bob.key --role reviewer --replication bobs.repro.tar.zst
named 6 --key carol.key --role replicator --replication bobs.repro.tar.zst
named 5 --key bob.key --role replicator --replication others.repro.tar.zst
named 5 --key bob.key --role replicator --replication a.repro.tar.zst
named 3 --key bob.key --role replicator --replication none.repro.tar.zst
head -c 9000 bobs.repro.tar.zst >cut.repro.tar.zst
named 4 --key bob.key --role replicator --replication cut.repro.tar.zst
named 2 --key bob.key --role replicator --data .
[ ! -e signed.repro.tar.zst ] || fail "something was signed"

named 0 --key bob.key --role replicator --replication bobs.repro.tar.zst
digest=$("$REPRO" inspect bobs.repro.tar.zst statement.dsse.json | sha256sum | cut -c 1-64)
[ "$(signatures '.[0] | "\(.role) \(.replication) \(.valid)"' signed.repro.tar.zst)" = "replicator $digest true" ] || fail "not named"
exit_of 0 "$REPRO" sign signed.repro.tar.zst --key carol.key --role replicator
[ "$(signatures '.[1] | "\(.role) \(.replication) \(.valid)"' signed.repro.tar.zst)" = "replicator null true" ] || fail "carol names one"
exit_of 0 "$REPRO" verify signed.repro.tar.zst
words out.txt '^countersigned'
# the role counts for who has the replication and computes a keyed root of it
exit_of 2 "$REPRO" verify signed.repro.tar.zst --replication bobs.repro.tar.zst
exit_of 3 "$REPRO" verify signed.repro.tar.zst --replication none.repro.tar.zst --replay 1
exit_of 5 "$REPRO" verify signed.repro.tar.zst --replication others.repro.tar.zst --replay 1
exit_of 5 "$REPRO" verify a.repro.tar.zst --replication bobs.repro.tar.zst --replay 1
words
steps=$("$REPRO" inspect bobs.repro.tar.zst steps/rank0.jsonl | grep -c '"step":')
exit_of 0 "$REPRO" verify signed.repro.tar.zst --replication bobs.repro.tar.zst --replay "$steps"
words out.txt '^countersigned'
words out.txt 'agreement '
exit_of 0 "$REPRO" verify signed.repro.tar.zst --replication bobs.repro.tar.zst --replay 1 --json # before its first state root
jq -e '(.checks[] | select(.check == "agreement").state == "note") and (.countersignatures[0] | has("replicated") | not)' out.txt >answer.txt ||
    fail "a replication of which no keyed root was computed counts"
exit_of 7 "$REPRO" verify signed.repro.tar.zst --replication bobs.repro.tar.zst --replay 1 --replay-limit 60s,1M
exit_of 0 "$REPRO" report signed.repro.tar.zst -o page.html
[ "$(grep -c "$digest" page.html)" -ge 1 ] || fail "the page does not name the replication"
exit_of 0 "$REPRO" report signed.repro.tar.zst -o page.md
words page.md '^> countersigned'
