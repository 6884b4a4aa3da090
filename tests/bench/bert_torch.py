#!/usr/bin/env python3
"""The peer: steps of BERT pre-training in PyTorch at its best on a CPU or a GPU, timed one by one.

The same model as ours: post-LN encoder, erf GELU, tied decoder fed by the masked positions only, pooler and next-sentence head,
dropout 0.1 on hidden states and attention, AdamW, clipping at 1. What makes PyTorch fast here is used: its fused attention, its
fused optimizer, gradients freed between steps, on a CPU the settings of peer.sh; `compile` tries its compiler too.

torch_steps.py has the options and the timing loop.
"""
import torch
from torch import nn
from torch.nn import functional as F
import torch_steps


class Encoder(nn.Module):
    """One post-LN layer; query, key and value are one product."""

    def __init__(self, width, heads, inner, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width, eps=1e-12)
        self.widen = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)
        self.norm_output = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, mask):
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=mask, dropout_p=self.p)
        mixed = mixed.transpose(1, 2).flatten(2)
        x = self.norm_attention(x + F.dropout(self.project(mixed), self.p))
        return self.norm_output(x + F.dropout(self.narrow(F.gelu(self.widen(x))), self.p))


class Pretraining(nn.Module):
    """Embeddings, encoder, both heads; returns the loss."""

    def __init__(self, vocab, width, layers, heads, inner, p=0.1):
        super().__init__()
        self.p = p
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Embedding(512, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.encoder = nn.ModuleList([Encoder(width, heads, inner, p) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2)
        self.transform = nn.Linear(width, width)
        self.transform_norm = nn.LayerNorm(width, eps=1e-12)
        self.decoder_bias = nn.Parameter(torch.zeros(vocab))
        for name, parameter in self.named_parameters():
            if "norm" not in name and parameter.dim() == 2:
                nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, sample):
        ids = sample["ids"]
        x = self.words(ids) + self.kinds(sample["kinds"]) + self.places.weight[:ids.size(1)]
        x = F.dropout(self.norm(x), self.p)
        for layer in self.encoder:
            x = layer(x, sample["mask"])
        masked = x[sample["rows"], sample["masked"]]
        scores = F.linear(self.transform_norm(F.gelu(self.transform(masked))), self.words.weight, self.decoder_bias)
        pair = self.pair(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(scores.flatten(0, 1), sample["labels"].flatten()) + F.cross_entropy(pair, sample["next"])


def make_sample(a):
    """Random tokens; lengths between half and all of the sequence, as in real data some are shorter."""
    generator = torch.Generator().manual_seed(7)

    def draw(high, *shape):
        return torch.randint(high, shape, generator=generator)

    lengths = a.seq - draw(a.seq // 2, a.batch) * (draw(10, a.batch) == 0)
    return {"ids": draw(a.vocab, a.batch, a.seq), "kinds": draw(2, a.batch, a.seq),
            "mask": (torch.arange(a.seq) < lengths[:, None])[:, None, None, :],
            "rows": torch.arange(a.batch)[:, None], "masked": draw(a.seq // 2, a.batch, a.predictions),
            "labels": draw(a.vocab, a.batch, a.predictions), "next": draw(2, a.batch)}


SIZES = {"batch": 32, "seq": 128, "predictions": 20, "vocab": 30522, "width": 768, "layers": 12, "heads": 12,
         "inner": 3072}


def build(a):
    net = Pretraining(a.vocab, a.width, a.layers, a.heads, a.inner).to(a.device).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.01, fused=True)
    return net, optimizer, [{name: x.to(a.device) for name, x in make_sample(a).items()}], 1.0


if __name__ == "__main__":
    torch_steps.main(__doc__, SIZES, build)
