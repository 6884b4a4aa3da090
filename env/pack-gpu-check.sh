#!/bin/sh
# BUILD/gpu-check.tar.gz: a built program, the checks that need a GPU, and jq with its libraries, for a machine that has a driver and nothing
# else. usage: pack-gpu-check.sh BUILD      there: tar -xzf gpu-check.tar.gz && gpu-check/tests/gpu/check.sh gpu-check/repro
# tests/gpu/README.md has the command lines for a machine that is borrowed for minutes.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
pack=$build/pack/gpu-check
jq=$(command -v jq)
rm -rf "$build/pack"
mkdir -p "$pack/tests/gpu/tools/lib" "$pack/tests/bench" "$pack/src/ops"
cp "$build/repro" "$pack/"
cp "$top"/tests/gpu/*.sh "$top"/tests/gpu/*.cu "$top"/tests/gpu/*.h "$top/tests/gpu/README.md" "$pack/tests/gpu/"
cp "$top/src/ops/tensor_core.h" "$pack/src/ops/"
cp "$top"/tests/bench/*torch*.py "$top/tests/bench/gpu_peers.py" "$pack/tests/bench/"
cp "$jq" "$pack/tests/gpu/tools/lib/jq"
ldd "$jq" | sed -n 's/.* => \(.*\/lib\(jq\|onig\)[^ ]*\) .*/\1/p' | while read -r library; do cp "$library" "$pack/tests/gpu/tools/lib/"; done
cat >"$pack/tests/gpu/tools/jq" <<'JQ'
#!/bin/sh
lib=$(dirname "$0")/lib
LD_LIBRARY_PATH=$lib exec "$lib/jq" "$@"
JQ
chmod +x "$pack/tests/gpu/tools/jq"
tar -C "$build/pack" --sort=name --owner=0 --group=0 --numeric-owner -c gpu-check | gzip -9n >"$build/gpu-check.tar.gz"
rm -rf "$build/pack"
size=$(stat -c %s "$build/gpu-check.tar.gz")
[ "$size" -le 62914560 ] || { echo "pack-gpu-check: $size bytes, more than 60 MiB" >&2 && exit 1; }
echo "$build/gpu-check.tar.gz: $size bytes"
