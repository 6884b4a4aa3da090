#!/usr/bin/env python3
"""Decoded and cropped images per second: `repro data bench` and torchvision, in turns. See images.sh.

The files are made here: noise of all scales with the amplitude of photographs, 500x375 as most of ImageNet, 4:2:0, about 110 KB each.
Every peer does what the reference scripts do on CPUs: decode the whole file, random-resized crop to 224 with antialiasing, flip.

CLOCK=cpu in the environment counts processor time instead of elapsed time, on one core only: for a busy machine. Ours then includes the start of
the program.
"""
import json, os, resource, statistics, subprocess, sys, time

import PIL
import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2


by_processor = os.environ.get("CLOCK") == "cpu"
clock = time.process_time if by_processor else time.perf_counter


def photograph(rng, width=500, height=375):
    """Spectrum 1/f in each of three colours that share most of their light."""
    f = np.hypot(*np.meshgrid(np.fft.fftfreq(width), np.fft.fftfreq(height)))
    f[0, 0] = 1
    planes = []
    for _ in range(4):
        noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((height, width))) / f).real
        planes.append(noise / noise.std())
    rgb = np.stack([planes[0] + 0.35 * p for p in planes[1:]], axis=-1) * 48 + 120
    return Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8))


def make_files(folder, count):
    rng = np.random.default_rng(7)
    for i in range(count):
        path = f"{folder}/class{i % 8}/{i:05d}.jpg"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            photograph(rng).save(path, quality=90, subsampling=2)
        else:
            rng.standard_normal(4 * 500 * 375)
    return sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names)


class ByPillow(torch.utils.data.Dataset):
    change = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor()])

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with open(self.files[i], "rb") as f:
            return self.change(Image.open(f).convert("RGB"))


class ByTensors(ByPillow):
    change = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])

    def __getitem__(self, i):
        data = torchvision.io.read_file(self.files[i])
        return self.change(torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB))


def loop_rate(data, seconds):
    """One process without a loader: no time goes into messages between processes."""
    count, start, began = 0, clock(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        data[count % len(data)]
        count += 1
    return count / (clock() - start)


def loader_rate(data, seconds, workers):
    count, start = 0, None
    while start is None or time.perf_counter() - start < seconds:
        for batch in torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=workers):
            if start is None:
                start = time.perf_counter()  # the workers have started
            else:
                count += len(batch)
    return count / (time.perf_counter() - start)


def our_rate(repro, folder, seconds, threads):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([repro, "data", "bench", folder, "--format", "image_folder", "--threads", str(threads), "--seconds", str(seconds), "--json"],
                         capture_output=True, text=True, check=True).stdout
    result, after = json.loads(out)["results"][0], resource.getrusage(resource.RUSAGE_CHILDREN)
    if by_processor:
        return result["images"] / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return result["images_per_second"]


def main():
    repro, folder, runs, seconds, count, result = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6]
    torch.set_num_threads(1)
    files = make_files(folder, count)
    cpus = sorted(os.sched_getaffinity(0))
    print(f"{len(files)} files of 500x375, {sum(map(os.path.getsize, files)) / len(files) / 1000:.0f} kB on average; torch {torch.__version__}, "
          f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}; median of {runs} runs, in turns, "
          f"{'processor' if by_processor else 'elapsed'} time")
    table = {}
    for threads in sorted({1} if by_processor else {1, len(cpus)}):
        os.sched_setaffinity(0, cpus[:threads])
        rates = {"repro": [], "torchvision, Pillow": [], "torchvision, tensors": []}
        for _ in range(runs):
            rates["repro"].append(our_rate(repro, folder, seconds, threads))
            for name, data in (("torchvision, Pillow", ByPillow(files)), ("torchvision, tensors", ByTensors(files))):
                rates[name].append(loop_rate(data, seconds) if threads == 1 else loader_rate(data, seconds, threads))
        os.sched_setaffinity(0, cpus)
        table[threads] = rates
        median = {name: statistics.median(r) for name, r in rates.items()}
        best = max(v for name, v in median.items() if name != "repro")
        for name, r in rates.items():
            print(f"{threads} core{'s' if threads > 1 else ' '}  {name:22} {median[name]:8.1f} images/s  ({min(r):.1f}..{max(r):.1f})" +
                  (f"  {median['repro'] / best:.2f}x the faster peer" if name == "repro" else ""))
    with open(result, "w", encoding="utf-8") as f:
        json.dump({"clock": clock.__name__, "torch": torch.__version__, "torchvision": torchvision.__version__, "pillow": PIL.__version__,
                   "images_per_second": table}, f, indent=1)


main()
