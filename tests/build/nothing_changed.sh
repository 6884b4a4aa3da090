#!/bin/bash
# `make` with nothing to do builds nothing and takes under a second (best of three: others may use the machine).
set -eu
cd "$TOP"
export CUDA=0
! grep -qs repro-gpu "$BUILD/static/gen/files" || CUDA=1
make BUILD="$BUILD" >/dev/null
best=99
for _ in 1 2 3; do
    begin=$EPOCHREALTIME
    said=$(make BUILD="$BUILD")
    took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')
    [ -z "$said" ] || { echo "make did something: $said" && exit 1; }
    best=$(awk -v a="$best" -v b="$took" 'BEGIN {print a < b ? a : b}')
done
echo "$best s"
awk -v t="$best" 'BEGIN {exit t >= 1}'
