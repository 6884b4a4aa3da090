"""Training steps of a PyTorch model, timed one by one: shared by bert_torch.py, gpt_torch.py, resnet50_torch.py and
gpu_peers.py.

arguments() -> options; prepare() before the model is made; measure() -> the seconds of every timed step, the last loss, peak
memory and versions. Gradients are freed between steps and clipped, unless clip is 0. main() is the program of one model,
which prints one JSON object.
"""
import argparse
import json
import platform
import resource
import time

import torch
from torch import nn


def arguments(description, **sizes):
    """--NAME for each size, --steps, --warmup, --threads, --variant, --device and --tf32."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (sizes | {"steps": 3, "warmup": 1, "threads": 0}).items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--variant", choices=["eager", "compile", "bf16", "compile bf16"], default="eager",
                        help="bf16: autocast of the forward pass")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="let a GPU's matrix products round their operands: not strict fp32")
    return parser.parse_args()


def prepare(a):
    """Threads, seed and precision."""
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if a.tf32 else "highest")  # highest: operands are not rounded
    torch.backends.cudnn.allow_tf32 = a.tf32  # convolutions may round by default
    torch.backends.cudnn.benchmark = True


def gemm_rate(a):
    """FLOP/s of the fastest of some matrix products in fp32: shows a library that does not use its best kernels here."""
    x, y = torch.randn(2048, 768, device=a.device), torch.randn(768, 2048, device=a.device)
    best = 0.0
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(x, y)[0, 0].item()  # waits for the device
        best = max(best, 2.0 * 2048 * 2048 * 768 / (time.perf_counter() - start))
    return best


def measure(a, net, optimizer, sample, clip):
    """Steps on one sample, which the net turns into its loss."""
    gemm = gemm_rate(a)
    loss_of = torch.compile(net) if "compile" in a.variant else net
    seconds, loss = [], 0.0
    for _ in range(a.warmup + a.steps):
        start = time.perf_counter()
        with torch.autocast(torch.device(a.device).type, torch.bfloat16, enabled="bf16" in a.variant):
            loss = loss_of(*sample)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    on_cpu = a.device == "cpu"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if on_cpu else torch.cuda.max_memory_reserved()
    return {"who": "pytorch " + a.variant, "threads": torch.get_num_threads(), "batch": a.batch,
            "seq": getattr(a, "seq", None), "tf32": a.tf32,
            "device": "cpu" if on_cpu else torch.cuda.get_device_name(a.device), "step_s": seconds[a.warmup:], "gemm_flops_per_s": gemm,
            "loss": loss, "peak_bytes": peak, "torch": torch.__version__, "python": platform.python_version()}


def main(description, sizes, build):
    """build: options -> net, optimizer, sample, largest gradient norm."""
    a = arguments(description, **sizes)
    prepare(a)
    print(json.dumps(measure(a, *build(a))))
