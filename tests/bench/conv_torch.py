#!/usr/bin/env python3
"""The convolutions of ResNet-50 in fp32, three directions: ours against oneDNN as PyTorch calls it (channels_last), in turns.

usage: conv_torch.py LIBRARY ISA THREADS REPEATS BATCH OUT.json [PART-OF-A-NAME...]

Random order within each repeat; a ratio is the median over the repeats of (their time / ours). Ours computes no mean here, nor does theirs.
The summary is the geometric mean over the 53 convolutions, and the seconds of all 53 at the median speeds.

CLOCK=cpu in the environment counts processor time instead of elapsed time: for one thread on a busy machine.
"""
import ctypes
import json
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F

# in_h, in_c, out_c, kernel, stride, how many of the 53
SHAPES = [(224, 3, 64, 7, 2, 1),
          (56, 64, 64, 1, 1, 1), (56, 64, 64, 3, 1, 3), (56, 64, 256, 1, 1, 4), (56, 256, 64, 1, 1, 2),
          (56, 256, 128, 1, 1, 1), (56, 128, 128, 3, 2, 1), (28, 128, 128, 3, 1, 3), (28, 128, 512, 1, 1, 4), (28, 512, 128, 1, 1, 3),
          (56, 256, 512, 1, 2, 1),
          (28, 512, 256, 1, 1, 1), (28, 256, 256, 3, 2, 1), (14, 256, 256, 3, 1, 5), (14, 256, 1024, 1, 1, 6), (14, 1024, 256, 1, 1, 5),
          (28, 512, 1024, 1, 2, 1),
          (14, 1024, 512, 1, 1, 1), (14, 512, 512, 3, 2, 1), (7, 512, 512, 3, 1, 2), (7, 512, 2048, 1, 1, 3), (7, 2048, 512, 1, 1, 2),
          (14, 1024, 2048, 1, 2, 1)]
DIRECTIONS = ("forward", "dgrad", "wgrad")

clock = time.process_time if os.environ.get("CLOCK") == "cpu" else time.perf_counter


class Conv(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("batch", "in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "kernel_h", "kernel_w", "stride",
                                            "pad_top", "pad_left")]


class Ours:
    def __init__(self, library, conv, x, w, y):
        self.library, self.conv = library, conv
        self.t = [a.permute(0, 2, 3, 1).contiguous() for a in (x, w, y)]
        self.work = torch.empty(library.bench_work(ctypes.byref(conv)))
        self.t.append(self.work)
        x, w, y, work = (ctypes.c_void_p(a.data_ptr()) for a in self.t)
        self.args = [(d, ctypes.byref(conv), x, w, y, None, work) for d in range(3)]
        self.out = (2, 0, 1)

    def run(self, direction):
        self.library.bench_conv(*self.args[direction])

    def result(self, direction):
        return self.t[self.out[direction]].permute(0, 3, 1, 2)


class Theirs:
    def __init__(self, x, w, y, kernel, stride):
        self.x, self.w, self.y = (t.contiguous(memory_format=torch.channels_last) for t in (x, w, y))
        self.kernel, self.stride, self.got = kernel, stride, None

    def run(self, direction):
        if direction == 0:
            self.got = F.conv2d(self.x, self.w, None, self.stride, self.kernel // 2)
        else:
            self.got = torch.ops.aten.convolution_backward(
                self.y, self.x, self.w, None, [self.stride] * 2, [self.kernel // 2] * 2, [1, 1], False, [0, 0], 1,
                [direction == 1, direction == 2, False])[direction - 1]


def seconds(run, direction):
    start = clock()
    run(direction)
    return clock() - start


def measure(library, batch, shape, repeats):
    size, inner, outer, kernel, stride, _ = shape
    out = (size - 1) // stride + 1
    conv = Conv(batch, size, size, inner, out, out, outer, kernel, kernel, stride, kernel // 2, kernel // 2)
    x, w, y = torch.randn(batch, inner, size, size), torch.randn(outer, inner, kernel, kernel) * 0.05, torch.randn(batch, outer, out, out)
    times, errors = [], []
    for direction in range(3):
        sides = [Ours(library, conv, x, w, y), Theirs(x, w, y, kernel, stride)]
        pair = [[], []]
        for r in range(-1, repeats):  # -1 warms up
            for i in random.sample((0, 1), 2):
                t = seconds(sides[i].run, direction)
                if r >= 0:
                    pair[i].append(t)
                elif i == 1:
                    got = sides[1].got
                time.sleep(0.005)  # their threads spin after a call
        times.append(pair)
        errors.append(float((sides[0].result(direction) - got).abs().max() / got.abs().max()))
    return 2.0 * batch * out * out * outer * inner * kernel * kernel, times, errors


def main():
    path, isa, threads, repeats, batch, out = sys.argv[1:7]
    names = [f"{s[0]}x{s[0]} {s[1]}->{s[2]} {s[3]}x{s[3]}/{s[4]}" for s in SHAPES]
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    library = ctypes.CDLL(path)
    library.bench_work.restype = ctypes.c_long
    if library.bench_open(isa.encode(), int(threads)):
        sys.exit(1)
    print(f"convolutions of ResNet-50, batch {batch}, {isa}, {threads} thread(s), {repeats} repeats, PyTorch {torch.__version__}, "
          f"{clock.__name__}: our GF/s, their time / our time")
    print(f"{'':27}{'forward':>15}{'dgrad':>15}{'wgrad':>15}   largest relative difference")
    rows, logs, total = [], [0.0] * 3, [[0.0] * 3, [0.0] * 3]
    for shape, name in zip(SHAPES, names):
        if sys.argv[7:] and not any(a in name for a in sys.argv[7:]):
            continue
        flops, times, errors = measure(library, int(batch), shape, int(repeats))
        text = f"{name:21}x {shape[5]:2}  "
        for d, (ours, theirs) in enumerate(times):
            ratio = statistics.median(b / a for a, b in zip(ours, theirs))
            text += f"{flops / statistics.median(ours) / 1e9:8.1f} {ratio:6.3f}"
            logs[d] += shape[5] * math.log(ratio)
            for side, t in enumerate((ours, theirs)):
                total[side][d] += shape[5] * statistics.median(t)
        print(f"{text}   {max(errors):.1e}", flush=True)
        rows.append({"shape": name, "count": shape[5], "flops": flops, "seconds": [{"ours": a, "pytorch": b} for a, b in times]})
    count = sum(r["count"] for r in rows)
    means = "".join(f"{math.exp(x / count):15.3f}" for x in logs)
    print("geometric means".ljust(27) + means + f"   all {math.exp(sum(logs) / count / 3):.3f}")
    for side, name in enumerate(("our seconds", "their seconds")):
        print(name.ljust(27) + "".join(f"{t:15.3f}" for t in total[side]) + f"   all {sum(total[side]):.3f}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"isa": isa, "threads": int(threads), "batch": int(batch), "torch": torch.__version__, "clock": clock.__name__,
                   "rows": rows}, f)


main()
