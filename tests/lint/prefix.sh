#!/bin/bash
# Every global symbol of ours starts with rp_, except two functions of musl that base/copy.c replaces. (src/gpu and
# backend/cuda are a program of their own, with no symbol that others see.)
set -eu
cd "$TOP"
objects=$(for file in src/*/*.c src/*/*/*.c; do echo "$BUILD/static/${file%.c}.o"; done | grep -v "/src/gpu/\|/backend/cuda/")
symbols=$(xargs nm -g --defined-only <<<"$objects" | awk 'NF == 3 {print $2, $3}')
[ "$(grep -c '^T rp_' <<<"$symbols")" -gt 100 ] || { echo "no symbols seen: this check is broken" && exit 1; }
bad=$(grep -v " rp_\|^T mem\(cpy\|move\)$" <<<"$symbols" || :)
[ -z "$bad" ] || { echo "global symbols without the prefix rp_:" && echo "$bad" && exit 1; }
