#!/usr/bin/env python3
"""Our --save files of ResNet-50 in somebody else's hands: torchvision's ResNet, in double, has our loss, gradients, running statistics and weights.

For several random sizes and settings:
    run 1   one step, --save start.safetensors
    strip   the momentum is dropped, as in a file that others publish
    run 2   one step --init from it without momentum and decay: optimizer.momentum is the gradient; its loss and running statistics
    run 3   two steps --init from it with momentum (Nesterov's by case) and weight decay: the weights
    here    torchvision.models.ResNet from the stripped file, the same images; loss, gradients, two steps of torch.optim.SGD

The images are JPEG files of the size that the model takes, as PIL decodes them. TensorFlow's padding is added to torchvision's model by hand.

A value within rounding of 0 before a relu, or two of a pool within rounding of each other, decide for one side in float and for the other in
double, and one such decision moves the gradient by a percent (PyTorch's own float32 is off by as much there). So images are drawn until, in
double, no decision is closer than NEAR.

Tolerance: 3e-6 of the loss, of statistics and of the norm of all weights; of all gradients 2e-5, of one tensor's 3e-5, because a batch norm over a small batch divides
by deviations that are near 0, and its gradient is a difference of terms that almost cancel, which amplifies the rounding of the sums before.
Gradients may be off by more where PyTorch's own in float32 are, by as much as those.

usage: resnet_checkpoint.py REPRO SCRATCH
"""
import io
import json
import pathlib
import random
import shutil
import subprocess
import sys

import numpy
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision.models.resnet import Bottleneck, ResNet

TOLERANCE, GRADIENTS, GRADIENT, NEAR = 3e-6, 2e-5, 3e-5, 1e-5
CLASSES = 7
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def case(number):
    r = random.Random(number)
    size, batch, micros, width = r.choice([(33, 4, 1, 12), (40, 4, 1, 8), (33, 7, 1, 8), (33, 4, 2, 4), (65, 2, 1, 4), (48, 5, 1, 4)])
    return {"size": size, "batch": batch, "micros": micros, "width": width, "blocks": [1 + (r.random() < 0.15) for _ in range(4)],
            "same": r.random() < 0.4, "smoothing": r.choice([0, 0.1]),
            "zero": r.random() < 0.3, "recompute": r.choice(["none", "selective"]), "nesterov": r.random() < 0.5,
            "form": r.choice(["decay", "loss"]), "momentum": r.choice([0.875, 0.9]), "decay": 2.0 ** -9, "lr": 0.001, "seed": number}


def recipe(c, images, path):
    path.write_text(f"""workload: resnet50
model: {{width: {c["width"]}, blocks: "{','.join(map(str, c["blocks"]))}", num_classes: {CLASSES}, padding: {"same" if c["same"] else "symmetric"},
  zero_init_last_gamma: {str(c["zero"]).lower()}, initializer_range: 0.05}}
task: {{image_size: {c["size"]}, label_smoothing: {c["smoothing"]}}}
train: {{batch_size: {c["batch"]}, accumulation_steps: {c["micros"]}, recompute: {c["recompute"]}}}
optimizer: {{name: sgd, learning_rate: {c["lr"]}, momentum: {c["momentum"]}, nesterov: {str(c["nesterov"]).lower()},
  weight_decay: {c["decay"]}, weight_decay_form: {c["form"]}, exclude_from_weight_decay: [bn]}}
schedule: {{decay: constant, total_steps: 10}}
data: {{format: image_folder, path: {images}, shuffle: false, augment: none, short_side: {c["size"]}}}
seed: {{init: {c["seed"] + 1}}}
measure: {{warmup_steps: 0, repeats: 1, ceilings: false}}
""")


def draw_images(c, attempt):
    """JPEG files by class, in the order in which a folder is read: classes by name, then files. Each class has a colour."""
    r = numpy.random.default_rng([c["seed"], attempt])
    n = c["batch"] * c["micros"] * 2
    samples = []
    for i in range(n):
        label = i * min(n, CLASSES) // n  # a folder numbers the classes that it has
        base = numpy.array([30 + 25 * label, 200 - 20 * label, 60 + 17 * (label * 3 % 7)])
        pixels = (base + r.integers(-30, 30, (c["size"], c["size"], 3))).clip(0, 255).astype(numpy.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=0)
        samples.append((label, file.getvalue(), numpy.asarray(Image.open(file).convert("RGB"))))
    return samples


def write_images(samples, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for i, (label, file, _) in enumerate(samples):
        place = folder / f"class{label}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i:03}.jpg").write_bytes(file)


def run(repro, scratch, steps, *more):
    bundle = scratch / "run.repro.tar.zst"
    bundle.unlink(missing_ok=True)
    subprocess.run([repro, "run", scratch / "resnet.yaml", "--key", scratch / "key.pem", "-o", bundle, "--steps", str(steps), *more], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = subprocess.run(["tar", "--zstd", "-xOf", bundle, "--wildcards", "*steps/rank0.jsonl"], check=True, capture_output=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def same_padding(layer):
    """What TensorFlow's SAME adds: the odd pixel at the end. A pool ignores it."""
    kernel = layer.kernel_size if isinstance(layer.kernel_size, int) else layer.kernel_size[0]
    stride = layer.stride if isinstance(layer.stride, int) else layer.stride[0]
    plain = type(layer).forward
    fill = float("-inf") if isinstance(layer, torch.nn.MaxPool2d) else 0.0

    def forward(x):
        size = x.shape[-1]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return plain(layer, F.pad(x, (total // 2, total - total // 2) * 2, value=fill))

    layer.padding = 0 if isinstance(layer.padding, int) else (0, 0)
    layer.forward = forward


def narrow(c):
    """torchvision's model with fewer channels: the fewer values, the fewer are near a decision."""
    width, net = c["width"], ResNet(Bottleneck, c["blocks"], num_classes=CLASSES)
    net.conv1, net.bn1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(width)
    net.inplanes = width
    for group in range(4):
        setattr(net, f"layer{group + 1}", net._make_layer(Bottleneck, width << group, c["blocks"][group], stride=1 if group == 0 else 2))
    net.fc = torch.nn.Linear(32 * width, CLASSES)
    return net


def model(c, checkpoint):
    net = narrow(c)
    net.load_state_dict(load_file(checkpoint))
    if c["same"]:
        for layer in net.modules():
            if isinstance(layer, (torch.nn.Conv2d, torch.nn.MaxPool2d)):
                same_padding(layer)
    return net.double().train()


def buffers(net):
    return {n: b.clone() for n, b in net.named_buffers() if "running" in n}


def batch_of(c, net, samples, micro):
    """Images and labels of a micro-batch, numbered over all steps."""
    batch = [samples[(micro * c["batch"] + b) % len(samples)] for b in range(c["batch"])]
    x = torch.tensor(numpy.stack([pixels for _, _, pixels in batch])).double()
    x = ((x - torch.tensor(MEAN).double()) / torch.tensor(STD).double()).permute(0, 3, 1, 2).to(net.fc.weight.dtype)
    return x, torch.tensor([label for label, _, _ in batch])


def gradients(c, net, samples, step):
    """The mean over micro-batches, whose statistics are their own; running statistics move by their mean, once."""
    net.zero_grad()
    total, before, moved = 0.0, buffers(net), {}
    for micro in range(c["micros"]):
        x, labels = batch_of(c, net, samples, step * c["micros"] + micro)
        net.load_state_dict(before, strict=False)
        loss = F.cross_entropy(net(x), labels, label_smoothing=c["smoothing"]) / c["micros"]
        loss.backward()
        total += loss.item()
        for name, value in buffers(net).items():
            moved[name] = moved.get(name, 0) + value / c["micros"]
    net.load_state_dict(moved, strict=False)
    if c["form"] == "loss":
        total += c["decay"] / 2 * sum((p ** 2).sum().item() for n, p in net.named_parameters() if "bn" not in n)
    return total


def share(ours, truth):
    return ((ours.double() - truth).norm() / truth.norm().clamp(min=1e-9)).item()


def together(list_of):
    return torch.cat([x.flatten() for x in list_of])


class TooClose(Exception):
    pass


def watch(net):
    """Stops at the first decision that is too close."""
    def relu(_, inputs):
        if inputs[0].abs().min() < NEAR:
            raise TooClose

    def pool(layer, inputs):
        x = inputs[0].flatten(0, 1).unsqueeze(1)
        best = F.unfold(x, layer.kernel_size, padding=layer.padding, stride=layer.stride).topk(2, dim=1).values
        if ((best[:, 0] - best[:, 1])[best[:, 0] > 0] < NEAR).any():
            raise TooClose

    for layer in net.modules():
        if isinstance(layer, torch.nn.ReLU):
            layer.register_forward_pre_hook(relu)
        if isinstance(layer, torch.nn.MaxPool2d):
            layer.register_forward_pre_hook(pool)


def truth_of(c, checkpoint, samples):
    """Two steps in double."""
    net = model(c, checkpoint)
    watch(net)
    start = {n: p.data.clone() for n, p in net.named_parameters()}
    decay = {n: c["decay"] if "bn" not in n else 0.0 for n in start}
    groups = [{"params": [p], "weight_decay": decay[n]} for n, p in net.named_parameters()]
    optimizer = torch.optim.SGD(groups, lr=c["lr"], momentum=c["momentum"], nesterov=c["nesterov"])
    loss = gradients(c, net, samples, 0)
    first = {n: p.grad + (decay[n] * start[n] if c["form"] == "loss" else 0.0) for n, p in net.named_parameters()}
    moved = buffers(net)
    optimizer.step()
    gradients(c, net, samples, 1)
    optimizer.step()
    return loss, first, moved, start, {n: p.data for n, p in net.named_parameters()}


def compare(number, repro, scratch):
    c = case(number)
    write_images(draw_images(c, 0), scratch / "images")
    recipe(c, scratch / "images", scratch / "resnet.yaml")
    run(repro, scratch, 1, "--save", scratch / "one.safetensors")
    start = {name: x for name, x in load_file(scratch / "one.safetensors").items() if not name.startswith("optimizer.")}
    save_file(start, scratch / "start.safetensors", metadata={"format": "pt"})
    for attempt in range(10000):
        samples = draw_images(c, attempt)
        try:
            truth = truth_of(c, scratch / "start.safetensors", samples)
            break
        except TooClose:
            pass
    loss, first, moved, before, after = truth
    rough = model(c, scratch / "start.safetensors").float()
    gradients(c, rough, samples, 0)
    single = {n: p.grad + (c["decay"] * p.data if c["form"] == "loss" and "bn" not in n else 0.0) for n, p in rough.named_parameters()}
    rough = {n: share(single[n], first[n]) for n in first}
    write_images(samples, scratch / "images")
    init = ["--init", scratch / "start.safetensors"]
    plain = [] if c["form"] == "loss" else ["--set", "optimizer.weight_decay=0"]
    steps = run(repro, scratch, 1, *init, "--save", scratch / "two.safetensors", *plain)
    ours = float.fromhex(steps[-1]["loss"])
    two = load_file(scratch / "two.safetensors")
    run(repro, scratch, 2, *init, "--save", scratch / "three.safetensors")
    three = load_file(scratch / "three.safetensors")

    names = list(first)
    worst = {"loss": abs(ours - loss) / loss}
    worst["gradients"] = share(together(two["optimizer.momentum." + n] for n in names), together(first[n] for n in names)) * TOLERANCE
    worst["gradients"] /= max(GRADIENTS, share(together(single.values()), together(first.values())))
    for n in names:
        worst["gradient " + n] = share(two["optimizer.momentum." + n], first[n]) * TOLERANCE / max(GRADIENT, rough[n])
    for n in moved:
        worst["statistics " + n] = share(two[n], moved[n])
    worst["weights"] = share(together(three[n] for n in names), together(after[n] for n in names))
    updates = share(together(three[n] - start[n] for n in names), together(after[n] - before[n] for n in names))
    name = max(worst, key=worst.get)
    print(f"resnet {number}: loss {ours:.7f}, PyTorch {loss:.7f}; worst {worst[name]:.2g}, {name}; updates {updates:.2g}; images of draw {attempt}; {c}")
    if worst[name] > TOLERANCE:
        sys.exit(f"off by {worst[name]:.3g}: {name}")


def public(repro, scratch):
    """A file of torchvision's own, with the counters that it has."""
    c = dict(case(3), width=64, same=False, micros=1, zero=False, form="decay")
    torch.manual_seed(5)
    net = ResNet(Bottleneck, c["blocks"], num_classes=CLASSES)
    for number, name in enumerate(n for n, _ in net.named_buffers() if n.endswith("num_batches_tracked")):
        net.get_buffer(name).fill_(1000 + number)
    save_file(net.state_dict(), scratch / "public.safetensors", metadata={"format": "pt"})
    samples = draw_images(c, 0)
    write_images(samples, scratch / "images")
    recipe(c, scratch / "images", scratch / "resnet.yaml")
    ours = float.fromhex(run(repro, scratch, 1, "--init", scratch / "public.safetensors", "--save", f"{scratch}/saved/")[-1]["loss"])
    saved = load_file(scratch / "saved" / "model.safetensors")
    torchs = ResNet(Bottleneck, c["blocks"], num_classes=CLASSES)
    before, state = net.state_dict(), torchs.state_dict()
    if set(saved) != set(state) or any(saved[n].dtype != x.dtype or saved[n].shape != x.shape for n, x in state.items()):
        sys.exit("the saved file has other tensors than torchvision's state_dict()")
    torchs.load_state_dict(saved, strict=True)
    off = [n for n, x in torchs.state_dict().items() if n.endswith("num_batches_tracked") and x.item() != before[n].item() + 1]
    if off:
        sys.exit(f"counters of batches after a step: {off}")
    loss = gradients(c, net.double().train(), samples, 0)
    print(f"resnet from torchvision: loss {ours:.7f}, PyTorch {loss:.7f}")
    if abs(ours - loss) > TOLERANCE * loss:
        sys.exit("the loss of a public checkpoint is off")


def main():
    repro, scratch = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]) / "resnet"
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run([repro, "key", "new", "-o", scratch / "key.pem"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for number in range(8):
        for saved in scratch.glob("*.safetensors"):
            saved.unlink()
        compare(number, repro, scratch)
    public(repro, scratch)


if __name__ == "__main__":
    main()
