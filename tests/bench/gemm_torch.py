#!/usr/bin/env python3
"""cuBLAS beside our matrix products: the same shapes, strict fp32 (TF32 off), timed with CUDA events.

Reads the JSON of `repro selftest --speed --json` and prints [{"what", "shape", "seconds"}] for its products. Each is timed in the layout that
PyTorch would use: forward x @ w.T, data gradient dy @ w, weight gradient dy.T @ x.
"""
import argparse
import json
import statistics
import sys

import torch


def operands(what, m, n, k, device):
    """Left and right operand of an m x n product over k, as they lie in memory."""
    a = torch.randn((k, m) if "TN" in what else (m, k), device=device)
    b = torch.randn((n, k) if "NT" in what else (k, n), device=device)
    return a.t() if "TN" in what else a, b.t() if "NT" in what else b


def seconds(a, b):
    """Median of five windows, each of about 50 ms."""
    out = torch.empty(a.shape[0], b.shape[1], device=a.device)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    calls, windows = 3, []
    for _ in range(7):
        start.record()
        for _ in range(calls):
            torch.mm(a, b, out=out)
        end.record()
        end.synchronize()
        each = start.elapsed_time(end) * 1e-3 / calls
        calls = max(3, min(1000, int(0.05 / each)))
        windows.append(each)
    return statistics.median(windows[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = []
    for row in json.load(sys.stdin)["speed"]:
        size = [int(x) for x in row["shape"].split("x")]
        if len(size) == 3:
            rows.append({"what": row["what"], "shape": row["shape"], "seconds": seconds(*operands(row["what"], *size, a.device))})
    print(json.dumps(rows))


main()
