#!/usr/bin/env python3
"""The peer: steps of ResNet-50 v1.5 training in PyTorch at its best on a CPU or a GPU, timed one by one.

The same model as ours: the stride in the 3x3 convolution, batch norm, label smoothing, SGD with momentum 0.875 and weight decay outside of
batch norms. What makes PyTorch fast here is used: channels last, its fused optimizer, relu in place, gradients freed between steps, on a CPU
started by peer.sh; `compile` tries its compiler too. The images are in memory: nothing is decoded.

torch_steps.py has the options and the timing loop.
"""
import torch
from torch import nn
from torch.nn import functional as F
import torch_steps


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut, which is one where sizes change."""

    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv2d(width_in, width, 1, bias=False), nn.Conv2d(width, width, 3, stride, 1, bias=False),
                                   nn.Conv2d(width, 4 * width, 1, bias=False)])
        self.norm = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(4 * width)])
        self.shortcut = nn.Identity()
        if stride != 1 or width_in != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = x
        for i in range(2):
            y = F.relu(self.norm[i](self.conv[i](y)), inplace=True)
        return F.relu(self.norm[2](self.conv[2](y)) + self.shortcut(x), inplace=True)


class Training(nn.Module):
    """Returns the loss of images and labels."""

    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        width_in, blocks = 64, []
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(width_in, width, stride if i == 0 else 1))
                width_in = 4 * width
        self.blocks, self.classify = nn.Sequential(*blocks), nn.Linear(width_in, classes)

    def forward(self, images, labels):
        features = self.blocks(self.stem(images)).mean((2, 3))
        return F.cross_entropy(self.classify(features), labels, label_smoothing=0.1)


SIZES = {"batch": 32, "size": 224, "classes": 1000}


def build(a):
    """In channels last, unless a.layout is "nchw"."""
    layout = torch.contiguous_format if getattr(a, "layout", "") == "nchw" else torch.channels_last
    net = Training(a.classes).to(a.device, memory_format=layout).train()
    decayed = [p for p in net.parameters() if p.dim() > 1]
    rest = [p for p in net.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 2.0 ** -15}, {"params": rest, "weight_decay": 0.0}], lr=0.032, momentum=0.875,
                                fused=True)
    random = torch.Generator().manual_seed(7)
    images = torch.randn(a.batch, 3, a.size, a.size, generator=random).to(a.device, memory_format=layout)
    labels = torch.randint(a.classes, (a.batch,), generator=random).to(a.device)
    return net, optimizer, [images, labels], 0.0


if __name__ == "__main__":
    torch_steps.main(__doc__, SIZES, build)
