#!/bin/bash
# What `make run` does once the program is there: look at the machine, train, verify what was sealed.
# usage: env/run.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
repro=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$repro" capture
status=0
"$repro" run recipes/bert_fp32 | tee "$out" || status=$?
bundle=$(tail -n 1 "$out")
if [ $status != 0 ]; then
    echo "the run ended with status $status; what it measured, if anything, is in ${bundle:-no bundle}" >&2
    exit $status
fi
"$repro" verify "$bundle"
echo
echo "The bundle: $(realpath "$bundle")"
echo "Others check it with your public key, which 'repro key show' prints: repro verify $(basename "$bundle") --trust KEY.pem,"
echo "or with stock tools and the verify.sh inside."
