#!/bin/bash
# Every global symbol of ours starts with rp_.
set -eu
bad=$(nm -g --defined-only "$BUILD/asan/librepro.a" | awk 'NF == 3 && $3 !~ /^(rp_|_?_?asan_|__odr_asan)/ {print $3}' | sort -u)
[ "$(nm -g --defined-only "$BUILD/asan/librepro.a" | grep -c ' T rp_')" -gt 100 ] || { echo "no symbols seen: this check is broken" && exit 1; }
[ -z "$bad" ] || { echo "global symbols without the prefix rp_: $bad" && exit 1; }
