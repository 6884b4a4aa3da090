#!/usr/bin/env python3
"""Our --save file in somebody else's hands: the public BertForPreTraining loads it, and its loss and every gradient tensor are ours.

    run 1   three steps with this program, --save one.safetensors
    strip   the moments are dropped, as in a file that others publish
    run 2   one step --init from it, --save two.safetensors; without clipping, optimizer.m = (1 - beta1) * gradient
    here    the stripped file in BertForPreTraining (fp32 values, computed in double), the same records, loss and gradients
    away    --save DIR/, which from_pretrained() reads with nothing missing and nothing unexpected; save_pretrained() of several classes, types
            and names, of which one step --init from each has transformers' loss

Tolerances: loss 2e-6 of its value; every gradient tensor 2e-5 of its largest element (rounding of (1 - beta1) * g included).

usage: bert_checkpoint.py REPRO SCRATCH
"""
import json
import pathlib
import struct
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

BATCH, SEQ, PREDICTIONS = 4, 128, 20
SETTINGS = ["model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0", "data.shuffle=false", f"train.batch_size={BATCH}",
            "train.accumulation_steps=1", "optimizer.clip_norm=0", "measure.warmup_steps=0", "measure.repeats=1",
            "schedule.warmup_steps=0"]


def run(repro, scratch, corpus, steps, *more):
    """One run on records 0, 1, ...; its step records."""
    bundle = scratch / f"steps{len(list(scratch.glob('*.zst')))}.repro.tar.zst"
    command = [repro, "run", "bert_tiny_fp32", "--key", scratch / "key.pem", "-o", bundle, "--steps", str(steps), *more,
               "--set", f"data.path={corpus}"]
    for setting in SETTINGS:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run(["tar", "--zstd", "-xOf", bundle, "--wildcards", "*steps/rank0.jsonl"], check=True, capture_output=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Protocol buffers, as far as a tf.Example needs them: (number, payload) of every field."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 2:
            size, at = varint(data, at)
            yield tag >> 3, data[at:at + size]
            at += size
        elif tag & 7 == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        else:
            yield tag >> 3, data[at:at + 4]
            at += 4


def values(feature):
    """The numbers of one tf.Feature: 1 bytes_list, 2 float_list, 3 int64_list; packed or not."""
    (kind, body), = fields(feature)
    out = []
    for _, x in fields(body):
        if isinstance(x, int):
            out.append(x)
        elif kind == 2:
            out += struct.unpack(f"<{len(x) // 4}f", x)
        else:
            at = 0
            while at < len(x):
                value, at = varint(x, at)
                out.append(value)
    return out


def records(path, count):
    data = path.read_bytes()
    at = 0
    for _ in range(count):
        size, = struct.unpack_from("<Q", data, at)
        example = data[at + 12:at + 12 + size]
        at += 16 + size
        sample = {}
        for _, features in fields(example):
            for _, entry in fields(features):
                pair = dict(fields(entry))
                sample[pair[1].decode()] = values(pair[2])
        yield sample


def losses(net, samples):
    """Masked-LM and next-sentence loss by the public model."""
    x = {key: torch.tensor([s[key] for s in samples]) for key in samples[0]}
    hidden, pooled = net.bert(input_ids=x["input_ids"], token_type_ids=x["segment_ids"], attention_mask=x["input_mask"],
                              return_dict=False)[:2]
    where = x["masked_lm_positions"].unsqueeze(-1).expand(-1, -1, hidden.size(-1))
    logits, pair = net.cls(hidden.gather(1, where), pooled)
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x["masked_lm_ids"].flatten(), reduction="none")
    weights = x["masked_lm_weights"].double().flatten()
    words = (each * weights).sum() / (weights.sum() + 1e-5)
    return words, torch.nn.functional.cross_entropy(pair, x["next_sentence_labels"].flatten())


def double_losses(net, samples):
    return losses(net.double().eval(), samples)


def tiny():
    return BertConfig(vocab_size=30522, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
                      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=None)


def truth(checkpoint, samples):
    """Loss and gradients by the public model, in double."""
    net = BertForPreTraining(tiny())
    result = net.load_state_dict(load_file(checkpoint), strict=False)
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"}
    if result.unexpected_keys or set(result.missing_keys) - tied:
        sys.exit(f"names differ: unexpected {result.unexpected_keys}, missing {result.missing_keys}")
    loss = sum(double_losses(net, samples))
    loss.backward()
    return loss.item(), {name: p.grad for name, p in net.named_parameters()}


def load(cls, directory):
    """from_pretrained() with nothing missing and nothing unexpected."""
    net, info = cls.from_pretrained(directory, output_loading_info=True)
    if any(info.values()):
        sys.exit(f"{cls.__name__} of {directory}: {info}")
    return net


def old_names(weights):
    return {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): x for n, x in weights.items()}


def away(repro, scratch, corpus, samples):
    """Directories of ours in transformers, and of transformers here."""
    run(repro, scratch, corpus, 3, "--save", f"{scratch}/ours/")
    net = load(BertForPreTraining, scratch / "ours")
    saved = load_file(scratch / "ours" / "model.safetensors")
    if any(not torch.equal(net.state_dict()[name], x) for name, x in saved.items()):
        sys.exit("from_pretrained() has other weights than the file")
    net.save_pretrained(scratch / "theirs")
    net.bert.save_pretrained(scratch / "encoder")
    BertForMaskedLM.from_pretrained(scratch / "theirs").save_pretrained(scratch / "masked")
    for name, dtype in ("half", torch.float16), ("brain", torch.bfloat16):
        load(BertForPreTraining, scratch / "ours").to(dtype).save_pretrained(scratch / name)
    save_file(old_names(saved), scratch / "old.safetensors", metadata={"format": "pt"})
    words, pair = (x.item() for x in double_losses(load(BertForPreTraining, scratch / "ours"), samples))
    for what in "theirs", "masked", "encoder", "half", "brain", "old.safetensors":
        step = run(repro, scratch, corpus, 1, "--init", scratch / what)[-1]
        is_words, is_pair = (float.fromhex(step["loss_parts"][part]) for part in ("mlm", "nsp"))
        if what in ("half", "brain"):
            words, pair = (x.item() for x in double_losses(load(BertForPreTraining, scratch / what), samples))
        off = [abs(is_words - words) / words, abs(is_pair - pair) / pair]
        if what == "encoder":
            off = [0.0]  # both heads are this program's
        elif what == "masked":
            off = off[:1]
        print(f"checkpoint {what}: masked-LM loss {is_words:.7f}, next-sentence loss {is_pair:.7f}, worst difference {max(off):.3g}")
        if max(off) > 2e-6:
            sys.exit(f"{what}: transformers has {words!r} and {pair!r}")
        words, pair = (x.item() for x in double_losses(load(BertForPreTraining, scratch / "ours"), samples))
    other_sizes(repro, scratch, corpus, samples)
    with_state, without = (run(repro, scratch, corpus, 1, "--init", scratch / what) for what in ("ours", "theirs"))
    if with_state[0]["state_root"] == without[0]["state_root"]:
        sys.exit("the optimizer state of a directory makes no difference")


def other_sizes(repro, scratch, corpus, samples):
    """A model that transformers made, with its sizes taken from its config.json."""
    torch.manual_seed(9)
    config = BertConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, intermediate_size=80, max_position_embeddings=160,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    BertForPreTraining(config).save_pretrained(scratch / "other")
    words, pair = (x.item() for x in double_losses(load(BertForPreTraining, scratch / "other"), samples))
    step = run(repro, scratch, corpus, 1, "--init", scratch / "other", "--set", f"model.config={scratch}/other/config.json")[-1]
    is_words, is_pair = (float.fromhex(step["loss_parts"][part]) for part in ("mlm", "nsp"))
    print(f"checkpoint of other sizes: masked-LM loss {is_words:.7f}, next-sentence loss {is_pair:.7f}; PyTorch {words:.7f}, {pair:.7f}")
    if max(abs(is_words - words) / words, abs(is_pair - pair) / pair) > 2e-6:
        sys.exit("model.config of transformers: another model")


def main():
    repro, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
    corpus = scratch / "corpus"
    subprocess.run([repro, "data", "make", "bert", corpus, "--sequences", "64", "--shards", "1", "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([repro, "key", "new", "-o", scratch / "key.pem"], check=True, stdout=subprocess.DEVNULL)
    run(repro, scratch, corpus, 3, "--save", scratch / "one.safetensors")
    weights = {name: x for name, x in load_file(scratch / "one.safetensors").items() if not name.startswith("optimizer.")}
    save_file(weights, scratch / "weights.safetensors", metadata={"format": "pt"})
    steps = run(repro, scratch, corpus, 1, "--init", scratch / "weights.safetensors", "--save", scratch / "two.safetensors")
    ours = float.fromhex([s for s in steps if s["step"] == 0][0]["loss"])
    moments = load_file(scratch / "two.safetensors")
    shard, = sorted(corpus.glob("*.tfrecord"))
    loss, gradients = truth(scratch / "weights.safetensors", list(records(shard, BATCH)))
    if abs(ours - loss) > 2e-6 * loss:
        sys.exit(f"loss {ours!r}, PyTorch {loss!r}")
    worst = 0.0
    for name, gradient in gradients.items():
        if name.endswith("key.bias"):
            continue  # softmax does not feel it: rounding noise
        share = ((moments["optimizer.m." + name].double() / 0.1 - gradient).abs().max() / gradient.abs().max().clamp(min=1e-3)).item()
        worst = max(worst, share)
        if share > 2e-5:
            sys.exit(f"gradient of {name} is off by {share:.3g} of its largest element")
    away(repro, scratch, corpus, list(records(shard, BATCH)))
    print(f"checkpoint: loss {ours:.7f}, PyTorch {loss:.7f}; {len(gradients)} gradient tensors, worst difference {worst:.3g}")


if __name__ == "__main__":
    main()
