#!/usr/bin/env python3
"""Gradients in mixed precision: no tensor's is farther from double than three times what PyTorch's autocast is on a CPU.

    start   weights after one step in strict fp32, without moments, as in a file that others publish
    ours    one step --init from it with train.precision fp16 and bf16, without clipping and decay: the moments are the gradient
    truth   the public model with the same fp32 weights, in double
    peer    the same model in float32 under torch.autocast("cpu", fp16 or bf16), the loss scaled by as much as ours

Both round activations to 16 bits, by other rules at other places: sums of a tensor core are truncated, and its gradients of weights are not
rounded. So one is not expected to have the other's bits, but errors of the same size: of each tensor, the Euclidean norm of the
difference to double, as a share of the gradient's.

usage: mixed.py REPRO SCRATCH [RESULTS]      RESULTS: a table of what was measured is written there
"""
import pathlib
import random
import shutil
import struct
import subprocess
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import BertForPreTraining

import bert_checkpoint
import gpt_checkpoint
import resnet_checkpoint

TIMES = 3
FEW = 16  # elements, whose rounding errors may cancel by chance: there the peer's error is at least that of its whole gradient
SCALE = 1024
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# softmax does not feel what is added to all keys: rounding noise in every arithmetic
NOISE = ("key.bias",)


def settings(precision):
    more = ["--set", f"train.precision={precision}"]
    if precision == "fp16":
        more += ["--set", "train.loss_scale=fixed", "--set", f"train.loss_scale_initial={SCALE}"]
    return more


def without_moments(source, target):
    save_file({n: x for n, x in load_file(source).items() if not n.startswith("optimizer.")}, target, metadata={"format": "pt"})


def share(is_, truth):
    return ((is_.double() - truth).norm() / truth.norm().clamp(min=1e-30)).item()


def errors(gradients, truth):
    """Of each tensor, and of all together."""
    out = {n: share(gradients[n], truth[n]) for n in truth}
    out["all"] = share(torch.cat([gradients[n].flatten() for n in truth]), torch.cat([truth[n].flatten() for n in truth]))
    return out


def backward(net, loss_of, precision):
    """Gradients by name; precision None: as the net is."""
    net.zero_grad()
    if precision is None:
        loss_of().backward()
        return {n: p.grad.clone() for n, p in net.named_parameters()}
    with torch.autocast("cpu", dtype=TYPES[precision]):
        loss = loss_of()
    (loss * (SCALE if precision == "fp16" else 1)).backward()
    return {n: p.grad / (SCALE if precision == "fp16" else 1) for n, p in net.named_parameters()}


def bert(repro, scratch):
    corpus = scratch / "corpus"
    subprocess.run([repro, "data", "make", "bert", corpus, "--sequences", "64", "--shards", "1", "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    bert_checkpoint.run(repro, scratch, corpus, 3, "--save", scratch / "one.safetensors")
    without_moments(scratch / "one.safetensors", scratch / "weights.safetensors")
    shard, = sorted(corpus.glob("*.tfrecord"))
    samples = list(bert_checkpoint.records(shard, bert_checkpoint.BATCH))

    def ours(precision):
        bert_checkpoint.run(repro, scratch, corpus, 1, "--init", scratch / "weights.safetensors", "--save", scratch / f"{precision}.safetensors",
                            *settings(precision))
        return {n: x / 0.1 for n, x in moments(scratch / f"{precision}.safetensors", "optimizer.m.")}

    net = BertForPreTraining(bert_checkpoint.tiny())
    net.load_state_dict(load_file(scratch / "weights.safetensors"), strict=False)
    return net.eval(), lambda: sum(bert_checkpoint.losses(net, samples)), ours


def moments(path, prefix):
    for name, x in load_file(path).items():
        if name.startswith(prefix):
            yield name[len(prefix):], x


def gpt(repro, scratch):
    c = {"seq": 128, "batch": 4, "micros": 1, "dim": 64, "heads": 2, "hidden": 128, "layers": 2, "inner": 512, "vocab": 997, "padded": 1024,
         "act": "gelu_tanh", "recompute": "none", "eod": False, "positions": False, "apart": False, "seed": 1}
    r = random.Random(7)
    tokens = [min(r.randrange(997), r.randrange(997)) for _ in range(c["seq"] * c["batch"] * 3 + 1)]
    path = scratch / "tokens.bin"
    path.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *([0] * 253)) + struct.pack(f"<{len(tokens)}H", *tokens))
    gpt_checkpoint.recipe(c, path, scratch / "gpt.yaml")
    gpt_checkpoint.run(repro, scratch, 1, "--save", scratch / "one.safetensors")
    without_moments(scratch / "one.safetensors", scratch / "weights.safetensors")

    def ours(precision):
        gpt_checkpoint.run(repro, scratch, 1, "--init", scratch / "weights.safetensors", "--save", scratch / f"{precision}.safetensors", "--set",
                           "optimizer.clip_norm=0", *settings(precision))
        factor = float(torch.tensor(1 - gpt_checkpoint.BETA1, dtype=torch.float32))
        return {n: x / factor for n, x in moments(scratch / f"{precision}.safetensors", "optimizer.m.")}

    net = gpt_checkpoint.model(c, scratch / "weights.safetensors").float()
    return net, lambda: sum(gpt_checkpoint.losses(c, net, tokens, 0)), ours


def resnet(repro, scratch):
    c = {"size": 64, "batch": 8, "micros": 1, "width": 16, "blocks": [1, 1, 1, 1], "same": False, "smoothing": 0.1, "zero": False,
         "recompute": "none", "nesterov": False, "form": "decay", "momentum": 0.9, "decay": 0.0, "lr": 0.001, "seed": 1}
    samples = resnet_checkpoint.draw_images(c, 0)
    resnet_checkpoint.write_images(samples, scratch / "images")
    resnet_checkpoint.recipe(c, scratch / "images", scratch / "resnet.yaml")
    resnet_checkpoint.run(repro, scratch, 1, "--save", scratch / "one.safetensors")
    without_moments(scratch / "one.safetensors", scratch / "weights.safetensors")

    def ours(precision):
        resnet_checkpoint.run(repro, scratch, 1, "--init", scratch / "weights.safetensors", "--save", scratch / f"{precision}.safetensors",
                              *settings(precision))
        return dict(moments(scratch / f"{precision}.safetensors", "optimizer.momentum."))

    net = resnet_checkpoint.model(c, scratch / "weights.safetensors").float()

    def loss():
        x, labels = resnet_checkpoint.batch_of(c, net, samples, 0)
        return F.cross_entropy(net(x), labels, label_smoothing=c["smoothing"])

    return net, loss, ours


def compare(model, repro, scratch):
    """Lines of the table; ends the program if a tensor is off."""
    scratch = scratch / f"mixed_{model}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    subprocess.run([repro, "key", "new", "-o", scratch / "key.pem"], check=True, stdout=subprocess.DEVNULL)
    net, loss_of, ours = {"BERT": bert, "GPT": gpt, "ResNet": resnet}[model](repro, scratch)
    state = {n: x.clone() for n, x in net.state_dict().items()}
    truth = {n: g for n, g in backward(net.double(), loss_of, None).items() if not n.endswith(NOISE)}
    net.float().load_state_dict(state)
    for precision in TYPES:
        peer = errors(backward(net, loss_of, precision), truth)
        net.load_state_dict(state)
        own = errors(ours(precision), truth)
        allowed = {n: max(peer[n], peer["all"] if truth[n].numel() < FEW else 0.0) for n in truth}
        worst = max(truth, key=lambda n: own[n] / allowed[n])
        times = own[worst] / allowed[worst]
        yield (f"| {model} | {precision} | {len(truth)} | {own['all']:.2e} | {peer['all']:.2e} | {max(own.values()):.2e} | "
               f"{max(peer.values()):.2e} | {times:.2f} ({worst}) |")
        if not times <= TIMES:
            sys.exit(f"{model}, {precision}: the gradient of {worst} is off by {own[worst]:.3g}, PyTorch's by {allowed[worst]:.3g}")


def main():
    repro, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
    table = ["| model | type | tensors | all, ours | all, PyTorch | worst, ours | worst, PyTorch | most times PyTorch's |",
             "|---|---|---|---|---|---|---|---|"]
    for model in "BERT", "GPT", "ResNet":
        for line in compare(model, repro, scratch):
            print(line, flush=True)
            table.append(line)
    if len(sys.argv) > 3:
        pathlib.Path(sys.argv[3]).write_text("\n".join(table) + "\n")


main()
