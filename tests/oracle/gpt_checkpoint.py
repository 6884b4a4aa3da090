#!/usr/bin/env python3
"""Our --save files of GPT in somebody else's hands: transformers' GPT2LMHeadModel, in double, has our loss, our gradients and our weights.

For several random sizes, seeds, head dimensions, recomputation modes and treatments of documents:
    run 1   one step, --save start.safetensors
    strip   the moments are dropped, as in a file that others publish
    run 2   one step --init from it without clipping: optimizer.m = (1 - beta1) * gradient; its loss
    run 3   two steps --init from it with clipping and weight decay: the weights
    here    GPT2LMHeadModel from the stripped file, the same tokens; loss, gradients, two steps of AdamW written from its paper

Tolerance: 3e-6, of the loss, of the Euclidean norm of each gradient and of all weights together. A bias begins at 0, so that after two steps
it is nothing but Adam's steps, whose size does not depend on that of the gradient: rounding in an element with a gradient near 0 moves it by
as much as in a large one. Single tensors of weights may differ by 3e-4.

usage: gpt_checkpoint.py REPRO SCRATCH
"""
import json
import pathlib
import random
import struct
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

EOD = 7
TOLERANCE = 3e-6
LR, DECAY, BETA1, BETA2, EPS = 1e-3, 0.1, 0.9, 0.95, 1e-8


def case(number):
    """Sizes from a seed. Every head dimension is a multiple of 8."""
    r = random.Random(number)
    dim, heads = r.choice([8, 16, 24, 40, 64, 96, 128]), r.choice([1, 2, 3])
    return {"seq": r.choice([5, 17, 64, 130]), "batch": r.choice([1, 2, 5]), "micros": r.choice([1, 2, 3]), "dim": dim, "heads": heads,
            "hidden": dim * heads, "layers": r.choice([1, 2, 3]), "inner": r.choice([2, 4]) * dim * heads, "vocab": 197, "padded": 208,
            "act": r.choice(["gelu_tanh", "gelu_tanh", "gelu"]), "recompute": r.choice(["none", "selective", "full"]),
            "eod": r.random() < 0.5, "positions": r.random() < 0.5, "apart": r.random() < 0.5, "seed": number}


def yes(x):
    return str(x).lower()


def recipe(c, tokens, path):
    path.write_text(f"""workload: gpt
model: {{vocab_size: {c["vocab"]}, padded_vocab_size: {c["padded"]}, hidden_size: {c["hidden"]}, num_hidden_layers: {c["layers"]},
  num_attention_heads: {c["heads"]}, intermediate_size: {c["inner"]}, max_position_embeddings: {c["seq"] + 3}, hidden_act: {c["act"]},
  hidden_dropout_prob: 0, attention_probs_dropout_prob: 0, embedding_dropout_prob: 0, initializer_range: 0.1}}
task: {{seq_length: {c["seq"]}, eod_mask_loss: {yes(c["eod"])}, eod_token: {EOD},
  reset_position_ids: {yes(c["positions"])}, reset_attention_mask: {yes(c["apart"])}}}
train: {{batch_size: {c["batch"]}, accumulation_steps: {c["micros"]}, recompute: {c["recompute"]}}}
optimizer: {{learning_rate: {LR}, beta1: {BETA1}, beta2: {BETA2}, epsilon: {EPS}, weight_decay: {DECAY}, clip_norm: 0.5}}
schedule: {{decay: constant, total_steps: 10}}
data: {{format: llmc, path: {tokens}, shuffle: false}}
seed: {{init: {c["seed"] + 1}}}
measure: {{warmup_steps: 0, repeats: 1, ceilings: false}}
""")


def run(repro, scratch, steps, *more):
    bundle = scratch / "run.repro.tar.zst"
    bundle.unlink(missing_ok=True)
    subprocess.run([repro, "run", scratch / "gpt.yaml", "--key", scratch / "key.pem", "-o", bundle, "--steps", str(steps), *more], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run(["tar", "--zstd", "-xOf", bundle, "--wildcards", "*steps/rank0.jsonl"], check=True, capture_output=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def model(c, checkpoint):
    config = GPT2Config(vocab_size=c["padded"], n_positions=c["seq"] + 3, n_embd=c["hidden"], n_layer=c["layers"], n_head=c["heads"],
                        n_inner=c["inner"], activation_function="gelu_new" if c["act"] == "gelu_tanh" else "gelu", resid_pdrop=0.0, bos_token_id=None,
                        eos_token_id=None,
                        embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    net = GPT2LMHeadModel(config)
    result = net.load_state_dict(load_file(checkpoint), strict=False)
    if result.unexpected_keys or set(result.missing_keys) - {"lm_head.weight"}:
        sys.exit(f"names differ: unexpected {result.unexpected_keys}, missing {result.missing_keys}")
    return net.double().eval()


def documents(c, ids, dtype):
    """Positions and attention of sequences with several documents, as Megatron-LM describes its options: every end-of-document token
    cuts what comes after it from itself and everything before, and there the positions begin again."""
    batch, seq = ids.shape
    positions = torch.arange(seq).repeat(batch, 1)
    seen = torch.tril(torch.ones(seq, seq, dtype=torch.bool)).repeat(batch, 1, 1)
    for b in range(batch):
        for end in (ids[b] == EOD).nonzero().flatten().tolist():
            if c["positions"]:
                positions[b, end + 1:] = torch.arange(seq - end - 1)
            if c["apart"]:
                seen[b, end + 1:, :end + 1] = False
    mask = torch.zeros(batch, 1, seq, seq, dtype=dtype).masked_fill(~seen[:, None], torch.finfo(dtype).min)
    return {"position_ids": positions, "attention_mask": mask}


def losses(c, net, tokens, step):
    """Of the micro-batches of a step: the mean over tokens that count."""
    for micro in range(c["micros"]):
        first = (step * c["micros"] + micro) * c["batch"]
        rows = torch.tensor([tokens[(first + b) * c["seq"]:(first + b + 1) * c["seq"] + 1] for b in range(c["batch"])])
        ids = rows[:, :-1]
        logits = net(ids, **documents(c, ids, net.dtype)).logits
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
        mask = (ids != EOD).double().flatten() if c["eod"] else torch.ones_like(each)
        yield (each * mask).sum() / mask.sum() / c["micros"]


def gradients(c, net, tokens, step):
    net.zero_grad()
    total = 0.0
    for loss in losses(c, net, tokens, step):
        loss.backward()
        total += loss.item()
    return total


def adamw(net, moments, t, clip):
    """Decoupled weight decay for all but norms and biases, bias correction, clipping by the global norm."""
    norm = torch.sqrt(sum((p.grad ** 2).sum() for p in net.parameters()))
    scale = min(1.0, clip / norm.item())
    for name, p in net.named_parameters():
        m, v = moments.setdefault(name, (torch.zeros_like(p), torch.zeros_like(p)))
        g = p.grad * scale
        m.mul_(BETA1).add_(g, alpha=1 - BETA1)
        v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        u = (m / (1 - BETA1 ** t)) / (torch.sqrt(v / (1 - BETA2 ** t)) + EPS)
        decay = 0.0 if "ln_" in name or "bias" in name else DECAY
        p.data.sub_(LR * (u + decay * p.data))


def share(ours, truth):
    return ((ours.double() - truth).norm() / truth.norm().clamp(min=1e-9)).item()


def compare(number, repro, scratch):
    c = case(number)
    r = random.Random(1000 + number)
    tokens = [EOD if r.random() < 0.1 else r.randrange(c["vocab"]) for _ in range(c["seq"] * c["batch"] * c["micros"] * 3 + 1)]
    path = scratch / "tokens.bin"
    path.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *([0] * 253)) + struct.pack(f"<{len(tokens)}H", *tokens))
    recipe(c, path, scratch / "gpt.yaml")
    run(repro, scratch, 1, "--save", scratch / "one.safetensors")
    start = {name: x for name, x in load_file(scratch / "one.safetensors").items() if not name.startswith("optimizer.")}
    save_file(start, scratch / "start.safetensors", metadata={"format": "pt"})
    init = ["--init", scratch / "start.safetensors"]
    steps = run(repro, scratch, 1, *init, "--save", scratch / "two.safetensors", "--set", "optimizer.clip_norm=0")
    ours = float.fromhex(steps[-1]["loss"])
    moments = load_file(scratch / "two.safetensors")
    run(repro, scratch, 2, *init, "--save", scratch / "three.safetensors")
    weights = load_file(scratch / "three.safetensors")

    net = model(c, scratch / "start.safetensors")
    loss = gradients(c, net, tokens, 0)
    worst = {"loss": abs(ours - loss) / loss}
    factor = float(torch.tensor(1 - BETA1, dtype=torch.float32))
    bias = "attn.c_attn.bias"
    for name, p in net.named_parameters():
        g, truth = moments["optimizer.m." + name] / factor, p.grad
        if name.endswith(bias):  # softmax does not feel the keys' part: rounding noise
            keep = torch.ones(len(truth), dtype=torch.bool)
            keep[c["hidden"]:2 * c["hidden"]] = False
            g, truth = g[keep], truth[keep]
        worst["gradient " + name] = share(g, truth)
    state = {}
    adamw(net, state, 1, 0.5)
    gradients(c, net, tokens, 1)
    adamw(net, state, 2, 0.5)
    names = [name for name, _ in net.named_parameters() if not name.endswith(bias)]
    truth = dict(net.named_parameters())
    worst["weights"] = share(torch.cat([weights[n].flatten() for n in names]), torch.cat([truth[n].data.flatten() for n in names]))
    for name in names:
        worst["weights " + name] = share(weights[name], truth[name].data) * TOLERANCE / 3e-4
    name = max(worst, key=worst.get)
    print(f"gpt {number}: loss {ours:.7f}, PyTorch {loss:.7f}; worst {worst[name]:.2g}, {name}; {c}")
    if worst[name] > TOLERANCE:
        sys.exit(f"off by {worst[name]:.3g}: {name}")


def public(repro, scratch):
    """A model that transformers saved: the embedding has no rows of padding, which count as zero logits."""
    c = dict(case(3), eod=False, positions=False, apart=False, micros=1)
    torch.manual_seed(5)
    net = GPT2LMHeadModel(GPT2Config(vocab_size=c["vocab"], n_positions=c["seq"] + 3, n_embd=c["hidden"], n_layer=c["layers"],
                                     n_head=c["heads"], n_inner=c["inner"], activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0,
                                     attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, attn_implementation="eager"))
    net.save_pretrained(scratch / "public")
    r = random.Random(5)
    tokens = [r.randrange(c["vocab"]) for _ in range(c["seq"] * c["batch"] + 1)]
    (scratch / "tokens.bin").write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *([0] * 253)) + struct.pack(f"<{len(tokens)}H", *tokens))
    recipe(c | {"act": "gelu_tanh"}, scratch / "tokens.bin", scratch / "gpt.yaml")
    ours = float.fromhex(run(repro, scratch, 1, "--init", scratch / "public")[-1]["loss"])
    run(repro, scratch, 1, "--init", scratch / "public", "--save", f"{scratch}/ours/")
    back, info = GPT2LMHeadModel.from_pretrained(scratch / "ours", output_loading_info=True)
    if any(info.values()):
        sys.exit(f"from_pretrained() of our directory: {info}")
    saved = load_file(scratch / "ours" / "model.safetensors")
    if any(not torch.equal(back.state_dict()[name], x) for name, x in saved.items()):
        sys.exit("from_pretrained() has other weights than the file")
    back.save_pretrained(scratch / "theirs")
    states = [run(repro, scratch, 1, "--init", scratch / what)[-1]["loss"] for what in ("ours", "theirs")]
    if states[0] != states[1]:
        sys.exit(f"the same weights have the losses {states}")
    rows = torch.tensor([tokens[b * c["seq"]:(b + 1) * c["seq"] + 1] for b in range(c["batch"])])
    logits = torch.nn.functional.pad(net.double().eval()(rows[:, :-1]).logits, (0, c["padded"] - c["vocab"]))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
    print(f"gpt from transformers: loss {ours:.7f}, PyTorch {loss:.7f}")
    if abs(ours - loss) > TOLERANCE * loss:
        sys.exit("the loss of a public checkpoint is off")
    # Its sizes from its config.json: then the embedding has no rows of padding either.
    recipe(c | {"act": "gelu_tanh", "hidden": 2 * c["hidden"], "layers": c["layers"] + 1, "inner": 8}, scratch / "tokens.bin", scratch / "gpt.yaml")
    ours = float.fromhex(run(repro, scratch, 1, "--init", scratch / "public", "--set", f"model.config={scratch}/public/config.json")[-1]["loss"])
    loss = torch.nn.functional.cross_entropy(logits[..., :c["vocab"]].flatten(0, 1), rows[:, 1:].flatten()).item()
    print(f"gpt with the sizes of config.json: loss {ours:.7f}, PyTorch {loss:.7f}")
    if abs(ours - loss) > TOLERANCE * loss:
        sys.exit("model.config of transformers: another model")


def main():
    repro, scratch = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]) / "gpt"
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run([repro, "key", "new", "-o", scratch / "key.pem"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for number in range(12):
        for saved in scratch.glob("*.safetensors"):
            saved.unlink()
        compare(number, repro, scratch)
    public(repro, scratch)


if __name__ == "__main__":
    main()
