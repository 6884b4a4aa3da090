"""The figures of a run, computed a second time from the documented definitions alone. Run by hand after a change of the
definitions: `python3 tests/vectors/results/results.py` rewrites steps.jsonl and results.json, which test_results.c compares."""
import hashlib
import json
import os
import random
import re

HERE = os.path.dirname(os.path.abspath(__file__))
FLOPS = 2.5e9
MASK = (1 << 64) - 1


def hex_float(x):
    return re.sub(r"\.?0*p", "p", x.hex())


def value_of(text):
    return {"value": float.fromhex(text), "hex": text}


def records():
    rng = random.Random(7)
    now, waited, lines = 10**12, 500, []
    lines.append({"step": -1, "phase": "init", "rank": 0, "state_root": "ab" * 32, "root_ns": 31415926})
    for step in range(2 + 3 * 5):
        timed = step - 2
        ns = rng.randrange(90_000_000, 130_000_000)
        r = {"step": step, "phase": "warm-up" if timed < 0 else "timed", "rank": 0, "repeat": 0 if timed < 0 else timed // 5, "start_ns": now,
             "end_ns": now + ns, "loss": hex_float(9.0 - step / 8), "grad_norm": "0x1.8p+0",
             "loss_parts": {"mlm": hex_float(8.5 - step / 8), "nsp": hex_float(0.5)}, "learning_rate": 1e-4, "samples": 8, "input_ns": waited,
             "counters": {"tokens": rng.randrange(700, 1024), "padded_tokens": 1024}}
        pause = rng.randrange(1000, 900_000)
        waited = pause * (step % 5) // 4
        now += ns + pause
        if step % 4 == 3 or step == 16:
            r["state_root"] = "%064x" % step
            r["root_ns"] = rng.randrange(5_000_000, 9_000_000)
            now += r["root_ns"] + 1
        lines.append(r)
    return lines


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def median(v):
    v, n = sorted(v), len(v)
    return v[n // 2] if n % 2 else (v[n // 2 - 1] + v[n // 2]) / 2


def rank(v, percent):
    v = sorted(v)
    return v[max(1, -(-len(v) * percent // 100)) - 1] / 1e9


def results(lines, digest):
    steps = [r for r in lines if r["step"] >= 0]
    timed = [r for r in steps if r["phase"] == "timed"]
    windows, cycles, gaps = [], [], 0
    for repeat in sorted({r["repeat"] for r in timed}):
        w = [r for r in timed if r["repeat"] == repeat]
        roots = sum(r.get("root_ns", 0) for r in w[:-1])
        ns = w[-1]["end_ns"] - w[0]["start_ns"] - roots
        cycles.append([b["start_ns"] - a["start_ns"] - a.get("root_ns", 0) for a, b in zip(w, w[1:])] + [w[-1]["end_ns"] - w[-1]["start_ns"]])
        assert sum(cycles[-1]) == ns
        gaps += ns - sum(r["end_ns"] - r["start_ns"] for r in w)
        samples = sum(r["samples"] for r in w)
        windows.append({"repeat": repeat, "steps": len(w), "samples": samples, "seconds": ns / 1e9, "state_root_s": roots / 1e9,
                        "throughput": samples / (ns / 1e9)})
    rate = median([w["throughput"] for w in windows])
    rng, draws = splitmix64(int(digest[:16], 16)), []
    for _ in range(2000):
        rates = []
        for _ in windows:
            k = next(rng) * len(windows) >> 64 if len(windows) > 1 else 0
            c = cycles[k]
            rates.append(windows[k]["samples"] / (sum(c[next(rng) * len(c) >> 64] for _ in c) / 1e9))
        draws.append(median(rates))
    draws.sort()
    ns = [r["end_ns"] - r["start_ns"] for r in timed]
    waits = [r["input_ns"] for r in timed]
    share = sum(waits) / (sum(waits) + sum(ns))
    tokens, padded = (sum(r["counters"][name] for r in timed) for name in ("tokens", "padded_tokens"))
    samples = sum(r["samples"] for r in timed)
    roots = [r for r in lines if "state_root" in r]
    return {
        "records_sha256": digest, "steps": {"warm_up": len(steps) - len(timed), "timed": len(timed)}, "samples_per_step": 8,
        "windows": windows, "throughput": {"value": rate, "unit": "sequences/s", "interval": [draws[49], draws[1949]],
                                           "level": 0.95, "resamples": 2000},
        "step_s": {"min": min(ns) / 1e9, "median": median([x / 1e9 for x in ns]), "p90": rank(ns, 90),
                   "p99": rank(ns, 99), "max": max(ns) / 1e9},
        "input": {"waited_s": sum(waits) / 1e9, "median_s": median([x / 1e9 for x in waits]), "share": share,
                  "limited_by": "input" if share >= 0.1 else "device"},
        "counters": [{"name": "tokens", "total": tokens, "per_s": rate * (tokens / samples), "of": "padded_tokens", "share": tokens / padded},
                     {"name": "padded_tokens", "total": padded, "per_s": rate * (padded / samples)}],
        "flops_per_s": rate * FLOPS, "between_steps_s": gaps / 1e9,
        "loss_first": value_of(steps[0]["loss"]), "loss_last": value_of(steps[-1]["loss"]),
        "grad_norm_first": value_of(steps[0]["grad_norm"]), "grad_norm_last": value_of(steps[-1]["grad_norm"]), "state_root_first": roots[0]["state_root"],
        "state_root_last": roots[-1]["state_root"], "state_roots": {"count": len(roots), "seconds": sum(r["root_ns"] for r in roots) / 1e9},
    }


def main():
    lines = records()
    text = "".join(json.dumps(r, sort_keys=True, separators=(",", ":")) + "\n" for r in lines)
    with open(os.path.join(HERE, "steps.jsonl"), "w") as f:
        f.write(text)
    with open(os.path.join(HERE, "results.json"), "w") as f:
        json.dump(results(lines, hashlib.sha256(text.encode()).hexdigest()), f, indent=2, sort_keys=True)
        f.write("\n")


main()
