#!/usr/bin/env python3
"""Truth from outside: losses, gradients and twenty optimizer steps of a small BERT, computed by PyTorch in double precision.

The model is the public BertForPreTraining of the transformers package, so that the names, the shapes and the mathematics of every
tensor are somebody else's. Optimizers are written here from their papers and from BERT's published source. The file holds inputs
and expected values; tests/unit/test_model_oracle.c compares without Python, with the tolerances stated there.

usage: bert_vectors.py OUTPUT.safetensors
"""
import math
import sys

import numpy
import torch
from safetensors.numpy import save_file
from transformers import BertConfig, BertForPreTraining

CONFIG = dict(vocab_size=83, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
              max_position_embeddings=16, type_vocab_size=2, hidden_act="gelu", hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0, layer_norm_eps=1e-12,
              pad_token_id=None)  # the original trains row 0 of the word embedding like any other
SEQ, PREDICTIONS, BATCH, MICROS, STEPS = 11, 3, 3, 2, 20
LR, WARMUP, TOTAL, CLIP, DECAY, BETA1, BETA2, EPS = 0.002, 5, 40, 1.0, 0.01, 0.9, 0.999, 1e-6
EXCLUDED = ("LayerNorm", "bias")


def samples(rng):
    """Micro-batches with padding, an unused prediction and both next-sentence labels."""
    shape = (MICROS, BATCH)
    length = rng.integers(SEQ // 2 + 2, SEQ + 1, shape)
    length[0, 0] = SEQ
    mask = (numpy.arange(SEQ) < length[..., None]).astype(numpy.uint8)
    ids = rng.integers(0, CONFIG["vocab_size"], shape + (SEQ,)) * mask
    types = ((numpy.arange(SEQ) >= length[..., None] // 2) * mask).astype(numpy.int32)
    positions = numpy.stack([[numpy.sort(rng.choice(numpy.arange(1, n), PREDICTIONS, replace=False)) for n in row] for row in length])
    labels = rng.integers(0, CONFIG["vocab_size"], shape + (PREDICTIONS,))
    weights = numpy.ones(shape + (PREDICTIONS,), numpy.float32)
    for m in range(MICROS):
        positions[m, m, -1] = labels[m, m, -1] = 0
        weights[m, m, -1] = 0
    following = rng.integers(0, 2, shape)
    return {"in.ids": ids.astype(numpy.int32), "in.types": types, "in.mask": mask, "in.positions": positions.astype(numpy.int32),
            "in.labels": labels.astype(numpy.int32), "in.weights": weights, "in.next": following.astype(numpy.int32)}


def losses(net, data, micro):
    """The original's losses: weights normalised with 1e-5 in the denominator, only masked positions reach the decoder."""
    x = {k[3:]: torch.from_numpy(v[micro]) for k, v in data.items()}
    hidden, pooled = net.bert(input_ids=x["ids"].long(), token_type_ids=x["types"].long(), attention_mask=x["mask"].long(),
                              return_dict=False)[:2]
    where = x["positions"].long().unsqueeze(-1).expand(-1, -1, hidden.size(-1))
    logits, pair = net.cls(hidden.gather(1, where), pooled)
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x["labels"].long().flatten(), reduction="none")
    weights = x["weights"].double().flatten()
    mlm = (each * weights).sum() / (weights.sum() + 1e-5)
    nsp = torch.nn.functional.cross_entropy(pair, x["next"].long())
    return mlm, nsp


def gradient(net, data):
    """Mean loss over micro-batches and its gradient, in p.grad."""
    net.zero_grad()
    total = 0.0
    for micro in range(MICROS):
        mlm, nsp = losses(net, data, micro)
        ((mlm + nsp) / MICROS).backward()
        total += (mlm + nsp).item() / MICROS
    return total


def rate(step):
    return LR * step / WARMUP if step <= WARMUP else LR * (1 - step / TOTAL)


def update(p, g, m, v, name, step, lamb):
    """BERT's AdamWeightDecayOptimizer (no bias correction), or LAMB with bias correction and its layer-wise trust ratio."""
    plain = any(word in name for word in EXCLUDED)
    m.mul_(BETA1).add_(g, alpha=1 - BETA1)
    v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
    mh, vh = (m / (1 - BETA1 ** step), v / (1 - BETA2 ** step)) if lamb else (m, v)
    u = mh / (vh.sqrt() + EPS)
    if not plain:
        u = u + DECAY * p
    ratio = (p.norm() / u.norm()).item() if lamb and not plain and p.norm() > 0 and u.norm() > 0 else 1.0
    p.sub_(u, alpha=rate(step) * ratio)


def train(start, data, lamb):
    """STEPS steps from `start`: losses and norms by step, and the last parameters and moments."""
    net = model(start)
    params = dict(net.named_parameters())
    m = {n: torch.zeros_like(p) for n, p in params.items()}
    v = {n: torch.zeros_like(p) for n, p in params.items()}
    record = []
    for step in range(1, STEPS + 1):
        loss = gradient(net, data)
        norm = math.sqrt(sum(p.grad.square().sum().item() for p in params.values()))
        scale = CLIP / norm if norm > CLIP else 1.0
        with torch.no_grad():
            for n, p in params.items():
                update(p, p.grad * scale, m[n], v[n], n, step, lamb)
        record.append((loss, norm))
    return record, {n: p.detach() for n, p in params.items()}


def model(parameters):
    net = BertForPreTraining(BertConfig(**CONFIG)).double().eval()
    if parameters:
        with torch.no_grad():
            for n, p in net.named_parameters():
                p.copy_(parameters[n])
    return net


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = numpy.random.default_rng(2026)
    start = {}
    for n, p in model(None).named_parameters():
        x = rng.standard_normal(tuple(p.shape)) * (0.2 if "weight" in n else 0.1) + (1.0 if "LayerNorm.weight" in n else 0.0)
        start[n] = torch.from_numpy(x.astype(numpy.float32)).double()  # what fp32 can hold exactly
    out = samples(rng)
    data = dict(out)
    net = model(start)
    parts = [[part.item() for part in losses(net, data, micro)] for micro in range(MICROS)]
    out["out.losses"] = numpy.array(parts, numpy.float32)
    gradient(net, data)
    for n, p in net.named_parameters():
        out["start." + n] = start[n].numpy().astype(numpy.float32)
        out["gradient." + n] = p.grad.numpy().astype(numpy.float32)
    for name in ("adamw", "lamb"):
        record, last = train(start, data, name == "lamb")
        out[name + ".record"] = numpy.array(record, numpy.float32)
        for n, p in last.items():
            out[name + "." + n] = p.numpy().astype(numpy.float32)
    save_file({k: numpy.ascontiguousarray(x) for k, x in out.items()}, sys.argv[1], metadata={"torch": torch.__version__})
    print("losses", parts, "adamw", record[0], "lamb last", record[-1])


main()
