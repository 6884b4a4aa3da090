#!/bin/sh
# Bundles of versions 1 to 3 are refused by that name by whatever reads bundles, with a status of their own.
. "$TOP/tests/common.inc"
for version in 1 2 3; do
    cp "$TOP/tests/vectors/version$version.repro.tar.zst" old.repro.tar.zst
    for command in verify compare "compare --unverified" report "export mllog"; do
        # shellcheck disable=SC2086 # words of a command
        exit_of 11 "$REPRO" $command old.repro.tar.zst
        cat out.txt err.txt >said.txt
        words said.txt "version $version "
    done
done
