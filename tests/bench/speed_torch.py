#!/usr/bin/env python3
"""Peers of the rows of `repro selftest --speed --json`, which is read from stdin: the same shapes, TF32 off, timed with
CUDA events.

Prints a JSON line per row as soon as it is done: {"what", "name", "shape", "peer", "label", "strict", "seconds", "begin",
"end"}, or "error" in place of the seconds. `strict`: no operand is rounded below fp32. `begin` and `end` are seconds since
1970, to look up the clock of the GPU.

  cublas           torch.mm: cublasSgemm in CUBLAS_DEFAULT_MATH, PyTorch's mode with TF32 off. Each GEMM has the layout
                   of a linear layer: forward x @ w.T, data gradient dy @ w, weight gradient dy.T @ x
  cublas_pedantic  cublasSgemm in CUBLAS_PEDANTIC_MATH, called directly: PyTorch has no option for it
  sdpa_math        scaled_dot_product_attention by SDPBackend.MATH: GEMMs of cuBLAS and a softmax, strict fp32
  sdpa_efficient   by SDPBackend.EFFICIENT_ATTENTION, which from compute capability 8.0 on multiplies fp32 as 3xTF32 on
                   tensor cores
  cudnn            convolutions, channels last; cuDNN tries its algorithms first, Winograd's among them

--tensor-core: of `repro selftest --speed --tensor-core`, all in bf16, one peer a row: cublas_bf16 (torch.mm), sdpa_flash
(SDPBackend.FLASH_ATTENTION) and cudnn_bf16, channels last.

Attention reads q, k and v from one tensor and writes its gradient into one, as ours. The first peer of every row comes
first, then the second ones.
"""
import argparse
import contextlib
import ctypes
import faulthandler
import functools
import json
import re
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as e:
    print(f"no PyTorch here: {e}", file=sys.stderr)
    sys.exit(77)


def operands(what, m, n, k, device):
    """Left and right operand of an m x n product over k, as they lie in memory."""
    a = torch.randn((k, m) if "TN" in what else (m, k), device=device)
    b = torch.randn((n, k) if "NT" in what else (k, n), device=device)
    return a, b


def product(what, m, n, k, device):
    a, b = operands(what, m, n, k, device)
    return functools.partial(torch.mm, a.t() if "TN" in what else a, b.t() if "NT" in what else b,
                             out=torch.empty(m, n, device=device))


class Cublas:
    """cublasSgemm of the library that PyTorch loaded, with PyTorch's handle."""

    PEDANTIC = 2

    def __init__(self, path, handle):
        self.library, self.handle = ctypes.CDLL(path), ctypes.c_void_p(handle)
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    @classmethod
    def loaded(cls, device):
        torch.mm(torch.ones(1, 1, device=device), torch.ones(1, 1, device=device))  # loads it
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "libcublas.so" in line}
        if not paths:
            raise RuntimeError("no libcublas.so is loaded")
        return cls(paths.pop(), torch.cuda.current_blas_handle())

    def call(self, function, *args):
        status = getattr(self.library, function)(self.handle, *args)
        if status:
            raise RuntimeError(f"{function} returns {status}")

    def product(self, what, m, n, k, device):
        """C = A B, row-major. cuBLAS is column-major and computes C' = B' A'."""
        a, b = operands(what, m, n, k, device)
        c = torch.empty(m, n, device=device)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]
        ta, tb = "TN" in what, "NT" in what

        def run(_keep=(a, b, c)):  # cuBLAS has only their addresses
            self.call("cublasSgemm_v2", int(tb), int(ta), n, m, k, ctypes.byref(self.one),
                      pointers[1], k if tb else n, pointers[0], m if ta else k,
                      ctypes.byref(self.zero), pointers[2], n)
        self.call("cublasSetMathMode", self.PEDANTIC)
        run()
        want = torch.mm(a.t() if ta else a, b.t() if tb else b)
        if not torch.allclose(c, want, rtol=1e-2, atol=1e-2 * k ** 0.5):
            raise RuntimeError("cublasSgemm computes another product than torch.mm")
        self.call("cublasSetMathMode", self.PEDANTIC)  # torch.mm has set its own
        return run


def attention(what, batch, seq, heads, dim, device):
    """With the backend that is set around the call."""
    qkv = torch.randn(batch, seq, 3, heads, dim, device=device, requires_grad="backward" in what)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    forward = functools.partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
    if "backward" not in what:
        return forward
    out = forward()
    return functools.partial(torch.autograd.grad, out, qkv, torch.randn_like(out), retain_graph=True)


def convolution(what, kernel, stride, outer, batch, height, width, inner, device, layout):
    """Forward, or one gradient; padded by half the kernel on both sides."""
    def image(*size):
        return torch.randn(*size, device=device).contiguous(memory_format=layout)
    x, w, pad = image(batch, inner, height, width), image(outer, inner, kernel, kernel), kernel // 2
    if "gradient" not in what:
        return functools.partial(F.conv2d, x, w, None, stride, pad)
    dy = image(batch, outer, (height - 1) // stride + 1, (width - 1) // stride + 1)
    return functools.partial(torch.ops.aten.convolution_backward, dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False,
                             [0, 0], 1, ["data" in what, "weight" in what, False])


def window(call, calls, device):
    """Seconds per call, over that many calls."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / calls


def seconds(call, device):
    """Median of five windows, each of about 50 ms."""
    calls, windows = 3, []
    for _ in range(7):
        windows.append(window(call, calls, device))
        calls = max(3, min(1000, int(0.05 / windows[-1])))
    return statistics.median(windows[2:])


def peers_in_bf16(row, device):
    what, size = row["what"], [int(x) for x in row["shape"].split("x")]
    heads = re.fullmatch(r"(\d+) heads of (\d+)", row["name"])
    conv = re.fullmatch(r"(\d+)x\d+/(\d+) to (\d+)", row["name"])
    if len(size) == 3:
        return [("cublas_bf16", "cuBLAS, bf16", False, contextlib.nullcontext, lambda: product(what, *size, device))]
    if what.startswith("causal attention") and heads:
        return [("sdpa_flash", "SDPBackend.FLASH_ATTENTION, bf16", False, lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION),
                 lambda: attention(what, *size, *map(int, heads.groups()), device))]
    if what.startswith("convolution") and conv:
        return [("cudnn_bf16", "cuDNN in channels last, bf16", False, contextlib.nullcontext,
                 lambda: convolution(what, *map(int, conv.groups()), *size, device, torch.channels_last))]
    return []


def peers_of(row, device):
    """[(peer, label, strict, context, make)] of a row: the first peer, and another one where there is one."""
    what, size = row["what"], [int(x) for x in row["shape"].split("x")]
    heads = re.fullmatch(r"(\d+) heads of (\d+)", row["name"])
    conv = re.fullmatch(r"(\d+)x\d+/(\d+) to (\d+)", row["name"])
    none = contextlib.nullcontext
    if len(size) == 3:
        return [("cublas", "cuBLAS, default math, TF32 off", True, none, lambda: product(what, *size, device)),
                ("cublas_pedantic", "cuBLAS, pedantic math", True, none,
                 lambda: Cublas.loaded(device).product(what, *size, device))]
    if what.startswith("causal attention") and heads:
        thrice = device != "cpu" and torch.cuda.get_device_capability(device) >= (8, 0)

        def make():
            return attention(what, *size, *map(int, heads.groups()), device)
        return [("sdpa_math", "SDPBackend.MATH, strict fp32", True, lambda: sdpa_kernel(SDPBackend.MATH), make),
                ("sdpa_efficient",
                 "SDPBackend.EFFICIENT_ATTENTION, " + ("3xTF32 on tensor cores" if thrice else "fp32"), not thrice,
                 lambda: sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), make)]
    if what.startswith("convolution") and conv:
        def of(layout):
            return lambda: convolution(what, *map(int, conv.groups()), *size, device, layout)
        return [("cudnn", "cuDNN in channels last, TF32 off", True, none, of(torch.channels_last)),
                ("cudnn_nchw", "cuDNN in NCHW, TF32 off", True, none, of(torch.contiguous_format))]
    return []


def measured(row, peer, label, strict, context, make, device):
    """One row of the output; what fails is a row too."""
    out = {key: row[key] for key in ("what", "name", "shape")} | {"peer": peer, "label": label, "strict": strict}
    begin = time.time()
    try:
        with context():
            out["seconds"] = seconds(make(), device)
    except Exception as e:  # of any library: the next row may work
        out["error"] = f"{type(e).__name__}: {e}"[:200]
    return out | {"begin": begin, "end": time.time()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=600, help="no row begins later; one under way is given up")
    parser.add_argument("--tensor-core", action="store_true", help="in bf16")
    a = parser.parse_args()
    if a.device != "cpu" and not torch.cuda.is_available():
        print("this PyTorch finds no GPU", file=sys.stderr)
        sys.exit(77)
    deadline = time.monotonic() + a.seconds
    faulthandler.dump_traceback_later(a.seconds + 5, exit=True)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    if a.tensor_core:
        torch.set_default_dtype(torch.bfloat16)
    of = peers_in_bf16 if a.tensor_core else peers_of
    peers = [(row, of(row, a.device)) for row in json.load(sys.stdin)["speed"]]
    for row, peer in [(row, p[i]) for i in range(2) for row, p in peers if len(p) > i]:
        if time.monotonic() > deadline:
            print("not all rows were measured: no time was left", file=sys.stderr)
            break
        print(json.dumps(measured(row, *peer, a.device)), flush=True)


if __name__ == "__main__":
    main()
