#!/bin/sh
# Images decoded and cropped per second against PyTorch's data path (torchvision: by Pillow, and by its own decoder on tensors), of the same files, in
# turns: on one core, then on all. The aim: 1.0x the faster of the two, per core.
# usage: images.sh [BUILD]      environment: RUNS=5  SECONDS_EACH=4  IMAGES=256  PEERS=BUILD/peers  CLOCK=cpu (processor time, one core)
# Raw rates: BUILD/bench/images.json.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
out=$build/bench
peers=${PEERS:-$build/peers}
mkdir -p "$out"

if [ ! -e "$peers/.torchvision-ready" ]; then
    [ -e "$peers/bin/python" ] || python3 -m venv "$peers"
    "$peers/bin/pip" install --quiet torch==2.15.0 torchvision==0.29.2 numpy==2.4.6 pillow==13.0.0
    touch "$peers/.torchvision-ready"
fi
exec "$peers/bin/python" "$top/tests/bench/images_torch.py" "$build/repro" "$out/images" "${RUNS:-5}" "${SECONDS_EACH:-4}" "${IMAGES:-256}" "$out/images.json"
