#!/usr/bin/env python3
"""PyTorch's training of the models that tests/gpu/check.sh measures, TF32 off, in one process: BERT-base b32, GPT-2 124M
4 x 1024, ResNet-50 b128.

--rows bf16: with autocast to bf16, at the batches of the recipes in bf16: 64, 64 x 1024 and 256.

Prints a JSON line per row as soon as it is done; a row that fails has "error" and the next one goes on. --seconds is the
deadline: a row begins only if there is time for it, and what is under way then is given up. `attention` is the backend that
computes it, `strict` whether no operand is rounded below fp32: from compute capability 8.0 on PyTorch's choice for fp32, the
memory-efficient kernels, multiplies as 3xTF32 on tensor cores, so BERT and GPT have a row with SDPBackend.MATH too. ResNet-50
is in channels last, and with `forced` "nchw" in PyTorch's other layout: which one is faster in fp32 depends on cuDNN. `begin`
and `end` of the timed steps are seconds since 1970, to look up the clock of the GPU.

--device cpu --tiny tries the program itself.
"""
import argparse
import contextlib
import faulthandler
import gc
import json
import statistics
import sys
import time

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import bert_torch
    import gpt_torch
    import resnet50_torch
    import torch_steps
except ImportError as e:
    print(f"no PyTorch here: {e}", file=sys.stderr)
    sys.exit(77)

MODELS = {"bert": (bert_torch, {}), "gpt": (gpt_torch, {}), "resnet50": (resnet50_torch, {"batch": 128})}
TINY = {"bert": {"batch": 2, "seq": 16, "predictions": 2, "vocab": 100, "width": 32, "layers": 1, "heads": 2,
                 "inner": 64},
        "gpt": {"batch": 2, "seq": 16, "vocab": 100, "width": 32, "layers": 1, "heads": 2},
        "resnet50": {"batch": 2, "size": 32, "classes": 10}}
# model, variant, attention or layout, seconds that it needs at least
ROWS = [("bert", "eager", "", 8), ("gpt", "eager", "", 8), ("resnet50", "eager", "", 8),
        ("resnet50", "eager", "nchw", 8), ("bert", "eager", "math", 8), ("gpt", "eager", "math", 8), ("bert", "compile", "", 25), ("gpt", "compile", "", 25), ("resnet50", "compile", "", 25),
        ("resnet50", "compile", "nchw", 25)]
ROWS_BF16 = [("bert", "compile bf16", "", 25), ("gpt", "compile bf16", "", 25), ("resnet50", "compile bf16", "", 25),
             ("bert", "bf16", "", 8), ("gpt", "bf16", "", 8), ("resnet50", "bf16", "", 8)]
BATCHES_BF16 = {"bert": 64, "gpt": 64, "resnet50": 256}


def attention_of(model, a, forced):
    """What computes the attention of this row, and whether in strict fp32."""
    is_bf16 = "bf16" in a.variant
    if model == "resnet50":
        return None, not is_bf16
    if forced == "math":
        return "MATH", True
    q = torch.zeros(a.batch, a.heads, a.seq, a.width // a.heads, device=a.device, requires_grad=True,
                    dtype=torch.bfloat16 if is_bf16 else torch.float32)
    mask = torch.ones(a.batch, 1, 1, a.seq, dtype=torch.bool, device=a.device) if model == "bert" else None
    chosen = SDPBackend(torch._fused_sdp_choice(q, q, q, mask, 0.1 if model == "bert" else 0.0, model == "gpt"))
    if is_bf16:
        return chosen.name, False
    on_gpu = a.device != "cpu" and chosen.name == "EFFICIENT_ATTENTION"
    thrice = on_gpu and torch.cuda.get_device_capability(a.device) >= (8, 0)
    return chosen.name + (", 3xTF32" if thrice else ""), not thrice


def measured(model, variant, forced, a):
    module, own = MODELS[model]
    own = own | ({"batch": BATCHES_BF16[model]} if "bf16" in variant else {})
    a = argparse.Namespace(**(module.SIZES | own | (TINY[model] if a.tiny else {})), device=a.device, variant=variant,
                           layout=forced, tf32=False, threads=0, warmup=a.warmup, steps=a.steps)
    torch_steps.prepare(a)
    attention, strict = attention_of(model, a, forced)
    with sdpa_kernel(SDPBackend.MATH) if forced == "math" else contextlib.nullcontext():
        row = torch_steps.measure(a, *module.build(a))
    end, median = time.time(), statistics.median(row["step_s"])
    return row | {"attention": attention, "strict": strict, "samples_per_s": a.batch / median,
                  "tokens_per_s": a.batch * row["seq"] / median if row["seq"] else None,
                  "begin": end - sum(row["step_s"]), "end": end}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rows", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--tiny", action="store_true", help="small models")
    a = parser.parse_args()
    if a.device != "cpu" and not torch.cuda.is_available():
        print("this PyTorch finds no GPU", file=sys.stderr)
        sys.exit(77)
    deadline = time.monotonic() + a.seconds
    faulthandler.dump_traceback_later(a.seconds, exit=True)  # also out of a call that never returns
    for model, variant, forced, least in ROWS_BF16 if a.rows == "bf16" else ROWS:
        row = {"who": "pytorch " + variant, "model": model, "variant": variant, "forced": forced}
        try:
            if time.monotonic() + (0 if a.tiny else least) > deadline:
                raise TimeoutError("no time was left")
            row |= measured(model, variant, forced, a)
        except Exception as e:  # of any library: the next row may work
            row["error"] = f"{type(e).__name__}: {e}".splitlines()[0][:200]
        print(json.dumps(row), flush=True)
        torch._dynamo.reset()
        gc.collect()
        if a.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
