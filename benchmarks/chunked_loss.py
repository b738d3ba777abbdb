"""The chunked contrastive loss against the plain one: time and memory of value and gradients.

    python benchmarks/chunked_loss.py [--rows N ...] [--dimension D] [--block-mb MB]

On a GPU if there is one, in smaller sizes on a CPU. Both forms run in turns in one process; the
best of several rounds counts. Memory is the peak during a run above what the features take, their
gradients included. The plain form is left out where it does not fit. ``--precision high``
multiplies in TF32. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from modgap.train.loss import contrastive
from timing import best_seconds, peak_gpu_megabytes, peak_megabytes

MAX_RATIO = 1.5
MAX_CHUNKED_GB = 4.0
LARGE = 65_536
SIZES = {"cuda": (4_096, 8_192, 16_384, 32_768, LARGE), "cpu": (1_024, 2_048, 4_096)}
# Tensors of n × n floats that the plain form holds at its peak, generously.
PLAIN_MATRICES = 6


def features(rows, dimension, device):
    generator = torch.Generator(device=device).manual_seed(0)
    pair = []
    for _ in range(2):
        made = torch.randn(rows, dimension, generator=generator, device=device)
        pair.append(torch.nn.functional.normalize(made, dim=1).requires_grad_())
    return pair


def forget(*leaves):
    for leaf in leaves:
        leaf.grad = None


def step(X, Y, scale, chunked, block_bytes):
    forget(X, Y, scale)
    value = contrastive(X, Y, scale, chunked=chunked, block_bytes=block_bytes)
    value.backward()
    return value


def peak(run, device):
    """Bytes at the peak of a run above those before it."""
    if device == "cuda":
        return peak_gpu_megabytes(run) * 2**20
    return peak_megabytes(run) * 2**20 if Path("/proc/self/status").exists() else None


def best_times(runs, rounds):
    """Best seconds of each run, taken in turns, after one round that does not count."""
    for run in runs.values():
        run()
    return best_seconds(runs, rounds)


def fits(rows, device):
    needed = PLAIN_MATRICES * rows * rows * 4
    if device == "cuda":
        return needed < torch.cuda.mem_get_info()[0]
    return needed < 8e9


def difference(X, Y, scale, block_bytes):
    """Largest difference of the two forms, in the value and relative to the largest gradient."""
    found = []
    for chunked in (False, True):
        value = step(X, Y, scale, chunked, block_bytes)
        found.append([value.detach(), *(leaf.grad.clone() for leaf in (X, Y, scale))])
    of_value = float((found[0][0] - found[1][0]).abs() / found[0][0].abs())
    of_gradients = max(
        float((a - b).abs().max() / a.abs().max()) for a, b in zip(*found, strict=True)
    )
    return {"value": of_value, "gradients": of_gradients}


def measure(rows, dimension, device, rounds, block_bytes):
    X, Y = features(rows, dimension, device)
    scale = torch.tensor(1 / 0.07, device=device, requires_grad=True)
    forms = {"chunked": True}
    if fits(rows, device):
        forms["plain"] = False
    runs = {
        name: lambda chunked=chunked: step(X, Y, scale, chunked, block_bytes)
        for name, chunked in forms.items()
    }
    memory = {}
    for name, run in runs.items():
        forget(X, Y, scale)
        memory[name] = peak(run, device)
    seconds = best_times(runs, rounds)
    line = {
        "rows": rows,
        "dimension": dimension,
        "seconds": seconds,
        "memory_gb": {name: None if b is None else b / 1e9 for name, b in memory.items()},
    }
    if "plain" in forms:
        line["ratio"] = seconds["chunked"] / seconds["plain"]
        line["difference"] = difference(X, Y, scale, block_bytes)
    return line


def failures(lines, device):
    """What is beyond a limit; the limits are meant for a GPU."""
    if device != "cuda":
        return []
    found = []
    for line in lines:
        if line.get("ratio", 0) > MAX_RATIO:
            found.append(f"{line['rows']} rows: ratio {line['ratio']:.2f} above {MAX_RATIO}")
        if line["memory_gb"]["chunked"] > MAX_CHUNKED_GB:
            found.append(f"{line['rows']} rows: {line['memory_gb']['chunked']:.2f} GB")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block-mb", type=float)
    parser.add_argument("--precision", choices=("highest", "high", "medium"), default="highest")
    options = parser.parse_args()
    torch.set_float32_matmul_precision(options.precision)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    block_bytes = None if options.block_mb is None else int(options.block_mb * 2**20)
    sizes = options.rows or SIZES[device]
    lines = [measure(n, options.dimension, device, options.rounds, block_bytes) for n in sizes]
    failed = failures(lines, device)
    report = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "precision": options.precision,
        "sizes": lines,
        "failed": failed,
    }
    print(json.dumps(report, indent=2))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
