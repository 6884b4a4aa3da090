#!/bin/sh
# A bundle of version 1 is refused by that name by whatever reads bundles, and with the status of a malformed file.
. "$TOP/tests/common.inc"
old=$TOP/tests/vectors/version1.repro.tar.zst
says="is version 1 (repro-run/1); this program reads version 2; a program built from commit 6c88d78 reads it"
for command in verify compare "compare --unverified" report "export mllog"; do
    # shellcheck disable=SC2086 # words of a command
    exit_of 4 "$REPRO" $command "$old"
    says_in "$says" out.txt err.txt
done
