#!/usr/bin/env python3
"""Vectors made now against the committed ones: the same names, and values that differ by no more than another PyTorch's rounding.

usage: compare.py NEW.safetensors COMMITTED.safetensors
"""
import sys

import numpy
from safetensors.numpy import load_file

new, old = load_file(sys.argv[1]), load_file(sys.argv[2])
if set(new) != set(old):
    sys.exit(f"tensors differ: {sorted(set(new) ^ set(old))}")
worst = 0.0
for name in sorted(new):
    a, b = new[name].astype(numpy.float64), old[name].astype(numpy.float64)
    if a.shape != b.shape:
        sys.exit(f"{name}: shape {a.shape}, committed {b.shape}")
    if "key.bias" in name and not name.startswith("start."):
        continue  # its gradient is rounding noise
    share = numpy.abs(a - b).max() / max(numpy.abs(b).max(), 0.01)
    worst = max(worst, share)
    if share > 1e-6:  # computed in double, stored in fp32
        sys.exit(f"{name}: differs from the committed vector by {share:.3g} of its largest element")
print(f"{len(new)} vectors as committed, worst difference {worst:.3g} of the largest element")
