#!/bin/sh
# Runs a PyTorch peer at its best on this machine.
# usage: peer.sh COMMAND...
# jemalloc, which keeps its pages; and where the processor is not Intel's, a library that answers MKL's question whether it is: pip's PyTorch has
# MKL compute its matrix products, and without that answer MKL takes kernels that reach less than half of the speed on AMD's processors with AVX-512.
set -eu

jemalloc=$(find /usr/lib /usr/local/lib -name 'libjemalloc.so.2' 2>/dev/null | head -n 1)
if [ -z "$jemalloc" ]; then
    echo "peer.sh: no libjemalloc.so.2 (Debian package libjemalloc2): PyTorch would run without its best allocator" >&2
    exit 1
fi
preload=$jemalloc
if ! grep -q GenuineIntel /proc/cpuinfo; then
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    printf 'int mkl_serv_intel_cpu_true(void)\n{\n    return 1;\n}\n' | ${CC:-gcc} -shared -fPIC -O2 -x c -o "$made/mkl.so" -
    preload="$made/mkl.so $jemalloc"
fi
LD_PRELOAD=$preload MALLOC_CONF=oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1 "$@"
