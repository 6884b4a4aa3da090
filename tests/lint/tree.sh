#!/bin/bash
# Building and testing leave the tree clean: nothing that git neither tracks nor ignores lies outside the build directory.
set -eu
cd "$TOP"
[ -n "${CI:-}" ] || { echo "only where CI=true: a working tree may hold work" && exit 77; }
[ -e .git ] || { echo "no git checkout here" && exit 77; }
found=$(git -c safe.directory='*' status --porcelain)
[ -z "$found" ] || { echo "the tree is not clean:" && echo "$found" && exit 1; }
