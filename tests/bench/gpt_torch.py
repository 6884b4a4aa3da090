#!/usr/bin/env python3
"""The peer: steps of GPT-2 pre-training in PyTorch at its best on a CPU or a GPU, timed one by one.

The same model as ours: pre-norm decoder, tanh GELU, causal attention, tied embedding, no dropout, AdamW, clipping at 1. What makes PyTorch
fast here is used: its fused attention, its fused optimizer, gradients freed between steps, on a CPU jemalloc preloaded by the caller
(training.sh); `compile` tries its compiler too.

torch_steps.py has the options and the timing loop.
"""
import torch
from torch import nn
from torch.nn import functional as F
import torch_steps


class Decoder(nn.Module):
    """One pre-norm layer; query, key and value are one product."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        split = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.project(mixed)
        return x + self.narrow(F.gelu(self.widen(self.norm_mlp(x)), approximate="tanh"))


class Pretraining(nn.Module):
    """Embeddings, decoder and logits from the same embedding; returns the loss."""

    def __init__(self, vocab, width, layers, heads, seq):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(seq, width)
        self.decoder = nn.ModuleList([Decoder(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if "norm" not in name:
                nn.init.normal_(parameter, std=0.02) if parameter.dim() == 2 else nn.init.zeros_(parameter)

    def forward(self, ids, labels):
        x = self.words(ids) + self.places.weight[:ids.size(1)]
        for layer in self.decoder:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x), self.words.weight).flatten(0, 1), labels.flatten())


SIZES = {"batch": 4, "seq": 1024, "vocab": 50304, "width": 768, "layers": 12, "heads": 12}


def build(a):
    net = Pretraining(a.vocab, a.width, a.layers, a.heads, a.seq).to(a.device).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    random = torch.Generator().manual_seed(7)
    tokens = torch.randint(min(50257, a.vocab), (a.batch, a.seq + 1), generator=random).to(a.device)
    return net, optimizer, [tokens[:, :-1], tokens[:, 1:]], 1.0


if __name__ == "__main__":
    torch_steps.main(__doc__, SIZES, build)
