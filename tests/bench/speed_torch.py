#!/usr/bin/env python3
"""cuBLAS beside our matrix products, scaled_dot_product_attention beside our causal attention, cuDNN beside our convolutions: the same shapes,
strict fp32 (TF32 off), timed with CUDA events.

Reads the JSON of `repro selftest --speed --json` and prints [{"what", "name", "shape", "seconds"}]. Each product is timed in the layout
that PyTorch would use: forward x @ w.T, data gradient dy @ w, weight gradient dy.T @ x. Attention reads q, k and v from one tensor and
writes its gradient into one, as ours. Convolutions are channels last, and cuDNN tries its algorithms first.
"""
import argparse
import functools
import json
import re
import statistics
import sys

import torch
import torch.nn.functional as F


def operands(what, m, n, k, device):
    """Left and right operand of an m x n product over k, as they lie in memory."""
    a = torch.randn((k, m) if "TN" in what else (m, k), device=device)
    b = torch.randn((n, k) if "NT" in what else (k, n), device=device)
    return a.t() if "TN" in what else a, b.t() if "NT" in what else b


def product(what, m, n, k, device):
    a, b = operands(what, m, n, k, device)
    return functools.partial(torch.mm, a, b, out=torch.empty(m, n, device=device))


def attention(what, batch, seq, heads, dim, device):
    qkv = torch.randn(batch, seq, 3, heads, dim, device=device, requires_grad="backward" in what)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    forward = functools.partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
    if "backward" not in what:
        return forward
    out = forward()
    return functools.partial(torch.autograd.grad, out, qkv, torch.randn_like(out), retain_graph=True)


def convolution(what, kernel, stride, outer, batch, height, width, inner, device):
    """Forward, or one gradient; padded by half the kernel on both sides."""
    def image(*size):
        return torch.randn(*size, device=device).contiguous(memory_format=torch.channels_last)
    x, w, pad = image(batch, inner, height, width), image(outer, inner, kernel, kernel), kernel // 2
    if "gradient" not in what:
        return functools.partial(F.conv2d, x, w, None, stride, pad)
    dy = image(batch, outer, (height - 1) // stride + 1, (width - 1) // stride + 1)
    return functools.partial(torch.ops.aten.convolution_backward, dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1,
                             ["data" in what, "weight" in what, False])


def seconds(call):
    """Median of five windows, each of about 50 ms."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    calls, windows = 3, []
    for _ in range(7):
        start.record()
        for _ in range(calls):
            call()
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
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    rows = []
    for row in json.load(sys.stdin)["speed"]:
        size = [int(x) for x in row["shape"].split("x")]
        heads = re.fullmatch(r"(\d+) heads of (\d+)", row["name"])
        conv = re.fullmatch(r"(\d+)x\d+/(\d+) to (\d+)", row["name"])
        if len(size) == 3:
            call = product(row["what"], *size, a.device)
        elif row["what"].startswith("causal attention") and heads:
            call = attention(row["what"], *size, *map(int, heads.groups()), a.device)
        elif row["what"].startswith("convolution") and conv:
            call = convolution(row["what"], *map(int, conv.groups()), *size, a.device)
        else:
            continue
        rows.append({"what": row["what"], "name": row["name"], "shape": row["shape"], "seconds": seconds(call)})
    print(json.dumps(rows))


main()
