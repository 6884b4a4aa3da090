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
