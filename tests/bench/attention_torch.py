#!/usr/bin/env python3
"""Causal attention, forward and backward, in fp32: ours against PyTorch's scaled_dot_product_attention, in one process and in turns.

usage: attention_torch.py LIBRARY ISA THREADS REPEATS OUT.json [BATCHxSEQxHEADSxDIM...]

Both read q, k, v from one [batch, seq, 3, heads, dim] tensor and write its gradient into one; random order within each repeat. A ratio is the
median over the repeats of (their time / ours). GF/s count the products of the pairs that the mask leaves: 4 and 10 * dim operations a pair.

CLOCK=cpu in the environment counts processor time instead of elapsed time: for one thread on a busy machine.
"""
import ctypes
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend

SIZES = [(4, 1024, 12, 64), (1, 2048, 12, 64), (1, 8192, 12, 64), (4, 1024, 8, 96), (4, 1024, 8, 128), (1, 2048, 8, 96), (1, 2048, 8, 128)]


clock = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter


class Call(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("batch", "seq", "heads", "dim", "causal")] + [
        (n, ctypes.c_void_p) for n in ("qkv", "d_o", "o", "row_max", "row_inv", "dqkv", "dbias", "work")]


class Ours:
    def __init__(self, library, qkv, grad):
        b, s, _, h, d = qkv.shape
        self.library = library
        self.o, self.dqkv = torch.empty(b, s, h, d), torch.empty_like(qkv)
        self.rest = [qkv, grad, torch.empty(b * h * s), torch.empty(b * h * s), torch.empty(3 * h * d), torch.empty((b * s + 63) // 64 * 3 * h * d)]
        p = [t.data_ptr() for t in self.rest]
        self.call = Call(b, s, h, d, 1, p[0], p[1], self.o.data_ptr(), p[2], p[3], self.dqkv.data_ptr(), p[4], p[5])

    def forward(self):
        self.library.bench_forward(ctypes.byref(self.call))

    def backward(self):
        self.library.bench_backward(ctypes.byref(self.call))


class Theirs:
    def __init__(self, qkv, grad):
        self.qkv, self.grad = qkv.clone().requires_grad_(), grad.permute(0, 2, 1, 3)

    def forward(self):
        q, k, v = self.qkv.permute(2, 0, 3, 1, 4)
        self.o = F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def backward(self):
        self.qkv.grad = None
        self.o.backward(self.grad)


def backend(size):
    """What PyTorch chooses for this size: on a CPU its flash attention or SDPBackend.MATH, both in strict fp32."""
    b, s, h, d = size
    q = torch.empty(b, h, s, d, requires_grad=True)
    return SDPBackend(torch._fused_sdp_choice(q, q, q, None, 0.0, True)).name


def seconds(f):
    start = clock()
    f()
    return clock() - start


def measure(library, size, repeats):
    b, s, h, d = size
    qkv, grad = torch.randn(b, s, 3, h, d), torch.randn(b, s, h, d)
    sides = [Ours(library, qkv, grad), Theirs(qkv, grad)]
    times = [[], []]
    for r in range(-1, repeats):  # -1 warms up
        for i in random.sample((0, 1), 2):
            pair = seconds(sides[i].forward), seconds(sides[i].backward)
            if r >= 0:
                times[i].append(pair)
            time.sleep(0.02)  # their threads spin after a call
    error = [float((sides[0].o - sides[1].o.detach().permute(0, 2, 1, 3)).abs().max()), float((sides[0].dqkv - sides[1].qkv.grad).abs().max())]
    return times, error


def main():
    path, isa, threads, repeats, out = sys.argv[1:6]
    sizes = [tuple(int(x) for x in t.split("x")) for t in sys.argv[6:]] or SIZES
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    library = ctypes.CDLL(path)
    if library.bench_open(isa.encode(), int(threads), max(s[1] for s in sizes), max(s[3] for s in sizes)):
        sys.exit(1)
    print(f"causal attention, {isa}, {threads} thread(s), {repeats} repeats, PyTorch {torch.__version__}, {clock.__name__}: our GF/s, their time / our time")
    print(f"theirs: {', '.join(sorted({backend(size) for size in sizes}))}")
    print(f"{'batch x seq x heads x dim':28}{'forward':>17}{'backward':>17}{'both':>17}   largest difference of o, dqkv")
    rows = []
    for size in sizes:
        b, s, h, d = size
        times, error = measure(library, size, int(repeats))
        pairs, text = b * h * s * (s + 1) / 2, f"{b} x {s} x {h} x {d}".ljust(28)
        for flops, pick in ((4, lambda t: t[0]), (10, lambda t: t[1]), (14, sum)):
            ours, theirs = [[pick(t) for t in side] for side in times]
            ratio = statistics.median(y / x for x, y in zip(ours, theirs))
            text += f"{flops * d * pairs / statistics.median(ours) / 1e9:9.1f} {ratio:7.3f}"
        print(f"{text}   {error[0]:.1e} {error[1]:.1e}", flush=True)
        rows.append({"batch": b, "seq": s, "heads": h, "dim": d, "backend": backend(size), "ours": times[0], "pytorch": times[1]})
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"isa": isa, "threads": int(threads), "torch": torch.__version__, "seconds": rows}, f)


main()
