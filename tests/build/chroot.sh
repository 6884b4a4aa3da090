#!/bin/bash
# Runs in an empty root: no /proc, no /dev, no libraries.
set -eu
mkdir empty
cp "$REPRO" empty/repro
chroot=$(command -v chroot || echo /usr/sbin/chroot)
enter="$chroot empty"
[ "$(id -u)" = 0 ] || enter="unshare -r $chroot empty"
$enter /repro version >version.txt || { [ "$(id -u)" = 0 ] || { echo "neither root nor user namespaces here" && exit 77; }; exit 1; }
"$REPRO" version | cmp - version.txt
$enter /repro recipes >recipes.txt
grep -q bert_fp32 recipes.txt
# Without /proc nothing tells how much memory is left: the bundle does not say it, and verifies.
mkdir empty/tmp
$enter /repro key new -o /tmp/key.pem >key.txt
$enter /repro run bert_tiny_fp32 --steps 1 --key /tmp/key.pem --set measure.ceilings=false --no-ledger -o /tmp/run.zst >run.txt
"$REPRO" verify empty/tmp/run.zst --no-ledger --any-key >verify.txt || { cat verify.txt && exit 1; }
"$REPRO" inspect empty/tmp/run.zst facts.json >facts.json
for key in available_bytes max_batch; do
    grep -q "\"$key\": null" facts.json || { echo "memory that nobody knows is in the bundle: $key" && exit 1; }
done
$enter /repro run bert_tiny_fp32 --batch-size max --key /tmp/key.pem --no-ledger -o /tmp/max.zst 2>max.txt && exit 1
grep -q /proc max.txt
