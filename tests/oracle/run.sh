#!/bin/sh
# Truth from outside: PyTorch makes the committed vectors again, and takes over a checkpoint that this program saved; MLPerf's checker reads our log.
# TensorFlow, TensorFlow Datasets and h5py write files of data that have our losses. The tokenizers package
# (which transformers brings) gives odd texts the same ids.
# usage: run.sh [BUILD]      PyTorch and the public BertForPreTraining come from pip, into BUILD/peers, as for the benchmarks.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd)
venv=$build/peers
scratch=$build/oracle-run
committed=$top/tests/vectors/oracle/bert_small.safetensors

if [ ! -e "$venv/.oracle-ready" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet torch==2.15.0 numpy==2.4.6 safetensors==0.8.0 transformers==5.23.0
    touch "$venv/.oracle-ready"
fi
if [ ! -e "$venv/.torchvision-ready" ]; then
    "$venv/bin/pip" install --quiet torch==2.15.0 torchvision==0.29.2 numpy==2.4.6 pillow==13.0.0
    touch "$venv/.torchvision-ready"
fi
if [ ! -e "$venv/.dsse-ready" ]; then
    "$venv/bin/pip" install --quiet securesystemslib==1.6.0 in-toto-attestation==0.9.3 cryptography==50.0.2
    touch "$venv/.dsse-ready"
fi
if [ ! -e "$venv/.formats-ready" ]; then
    "$venv/bin/pip" install --quiet tensorflow-cpu==2.21.0 tensorflow-datasets==4.9.10 h5py==3.14.0
    touch "$venv/.formats-ready"
fi
rm -rf "$scratch"
mkdir -p "$scratch"

"$venv/bin/python" "$top/tests/oracle/bert_vectors.py" "$scratch/bert_small.safetensors"
"$venv/bin/python" "$top/tests/oracle/compare.py" "$scratch/bert_small.safetensors" "$committed"
"$venv/bin/python" "$top/tests/oracle/bert_checkpoint.py" "$build/repro" "$scratch"
"$venv/bin/python" "$top/tests/oracle/gpt_checkpoint.py" "$build/repro" "$scratch"
"$venv/bin/python" "$top/tests/oracle/resnet_checkpoint.py" "$build/repro" "$scratch"
"$venv/bin/python" "$top/tests/oracle/data_formats.py" "$build/repro" "$scratch"
"$venv/bin/python" "$top/tests/oracle/mixed.py" "$build/repro" "$scratch"
"$venv/bin/python" "$top/tests/oracle/bpe.py" "$build/repro" "$scratch"
"$top/tests/oracle/mllog.sh" "$build"
"$venv/bin/python" "$top/tests/oracle/dsse.py" "$build/repro" "$scratch"
"$top/tests/oracle/torchrun.sh" "$build/repro" "$scratch" "$venv"
"$top/tests/oracle/launchers.sh" "$build" "$scratch"
echo "oracle: all agree"
