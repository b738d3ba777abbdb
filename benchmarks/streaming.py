"""Shards larger than memory, measured and corrected: how fast, and in how much memory.

    python benchmarks/streaming.py [--gigabytes 20] [--folder DIR] [--save]

Makes shards of made-up rows in two modalities, half of the bytes each, and runs ``modgap measure``
and ``modgap apply`` on them in processes of their own. Two yardsticks, of which the slower counts:

- the disk: the same files read from end to end and, for ``apply``, copied into files that are
  synced, since it writes as many bytes as it reads;
- memory: the same work on rows that are held. For ``measure``, the moments of as many rows, and the
  quadratic work on its sample once; for ``apply``, rows corrected and converted, then dropped.

Before each pass the system is asked to drop the files from its cache. Yardsticks are taken before
and after our run, and the better counts. Memory is the peak of the command's anonymous memory.
Fails below 0.8 of the yardstick, or beyond 500 MB. ``--save`` puts the rows into
benchmarks/results/streaming.json.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from modgap import Calibrate, Correction, measure
from modgap.io import Embeddings
from modgap.io._matrices import BATCH_ROWS
from modgap.measures.summary import MAX_SAMPLE
from modgap.moments import Moments
from rates import CHUNK, DIMENSION, forget
from results import FOLDER, Record, beyond, said

SHARD_ROWS = 100_000
# Shards of each modality that differ; the others repeat them.
DISTINCT = 4
LEAST_SHARE, MOST_MEGABYTES = 0.8, 500
FOLDERS = {"image": "img_emb", "text": "text_emb"}


def made_up(dtype: np.dtype) -> dict[str, list[np.ndarray]]:
    """Shards of two narrow cones; row i of both is a pair."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(64, DIMENSION)).astype(np.float32) / 8
    gap = 0.3 * rng.normal(size=DIMENSION).astype(np.float32)
    found: dict[str, list[np.ndarray]] = {name: [] for name in FOLDERS}
    for _ in range(DISTINCT):
        latent = rng.standard_normal((SHARD_ROWS, 64), dtype=np.float32) @ mix
        for name, side in zip(FOLDERS, (1, -1), strict=True):
            rows = latent + side * gap
            rows += 0.8 * rng.standard_normal(rows.shape, dtype=np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            found[name].append(rows.astype(dtype))
    return found


def write_shards(folder: Path, held: dict[str, list[np.ndarray]], n_bytes: float) -> None:
    """Shards in clip-retrieval's layout, as many as make up the bytes."""
    size = held["image"][0].nbytes
    for name, inside in FOLDERS.items():
        (folder / inside).mkdir(parents=True)
        for number in range(max(1, round(n_bytes / 2 / size))):
            path = folder / inside / f"{inside}_{number:04d}.npy"
            np.save(path, held[name][number % DISTINCT])
            forget(path)


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npy"))


def size_of(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def read_all(files: list[Path]) -> float:
    """Seconds to read all files from the disk, one after the other."""
    for path in files:
        forget(path)
    buffer, start = bytearray(CHUNK), time.perf_counter()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - start


def copy_all(files: list[Path], folder: Path) -> float:
    """Seconds to copy them, one after the other, each synced."""
    for path in files:
        forget(path)
    folder.mkdir()
    buffer, start = memoryview(bytearray(CHUNK)), time.perf_counter()
    for path in files:
        with (
            open(path, "rb", buffering=0) as source,
            open(folder / path.name, "wb", buffering=0) as out,
        ):
            while n := source.readinto(buffer):
                out.write(buffer[:n])
            os.fsync(out.fileno())
    took = time.perf_counter() - start
    shutil.rmtree(folder)
    return took


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def batches(shards: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for shard in shards:
        for start in range(0, len(shard), BATCH_ROWS):
            yield shard[start : start + BATCH_ROWS]


def moments_in_memory(held: dict[str, list[np.ndarray]]) -> float:
    """Seconds of the moments of all rows that are held."""
    return seconds(lambda: [Moments.from_stream(batches(side)) for side in held.values()])


def sample_in_memory(held: dict[str, list[np.ndarray]]) -> float:
    """Seconds of what measure does with its sample, whatever the number of rows."""
    X, Y = (side[0][:MAX_SAMPLE] for side in held.values())
    return seconds(lambda: measure(X, Y))


def correct_in_memory(held: dict[str, list[np.ndarray]], correction: Correction) -> float:
    """Seconds to correct all rows that are held, in the precision they are written in."""

    def run() -> None:
        for name, side in held.items():
            for _ in correction.map(name).over(batches(side), name, dtype=side[0].dtype):
                pass

    return seconds(run)


def command(words: list[str], files: list[Path]) -> tuple[float, float]:
    """Seconds of a command of modgap on cold files, and its peak of anonymous memory in MB."""
    for path in files:
        forget(path)
    peak, start = 0.0, time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "modgap", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            if line.startswith("RssAnon"):
                peak = max(peak, int(line.split()[1]) * 1024 / 1e6)
        time.sleep(0.01)
    _, said_there = child.communicate()
    took = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"modgap {' '.join(words)}: {said_there.strip().splitlines()[-1]}")
    return took, peak


def row(name: str, size: float, ours: tuple[float, float], disk: float, memory: float) -> dict:
    """What a command took, beside what the disk and memory allow for as many bytes."""
    took, megabytes = ours
    slower = max(disk, memory)
    return {
        "case": name,
        "what": f"`modgap {name}`",
        "gigabytes": size / 1e9,
        "seconds": took,
        "rate": size / took / 1e6,
        "disk_rate": size / disk / 1e6,
        "memory_rate": size / memory / 1e6,
        "against": "the disk" if disk > memory else "memory",
        "yardstick_s": slower,
        "share": slower / took,
        "least_share": LEAST_SHARE,
        "megabytes": megabytes,
        "megabytes_limit": MOST_MEGABYTES,
    }


def measured(folder: Path, gigabytes: float, dtype: np.dtype, part: float) -> Iterator[dict]:
    """One row a command. Yardsticks of the disk take ``part`` of the files."""
    held = made_up(dtype)
    shards = folder / "shards"
    write_shards(shards, held, 1e9 * gigabytes)
    files = files_of(shards)
    size, in_memory = size_of(files), sum(s.nbytes for side in held.values() for s in side)
    some = files[:: max(1, round(1 / part))]
    scale = size / size_of(some)
    correction = Calibrate().fit(*(Embeddings.from_array(side[0]) for side in held.values()))
    correction.correction_.save(folder / "c.safetensors")

    def yardsticks() -> dict[str, float]:
        sample = sample_in_memory(held)
        return {
            "read": scale * read_all(some),
            "copy": scale * copy_all(some, folder / "copy"),
            "measure": size / in_memory * moments_in_memory(held) + sample,
            "apply": size / in_memory * correct_in_memory(held, correction.correction_),
        }

    before = yardsticks()
    ours = {"measure": command(["measure", str(shards)], files)}
    took, peak = 0.0, 0.0
    for name in FOLDERS:
        words = ["apply", str(folder / "c.safetensors"), str(shards), "--modality", name]
        one = command([*words, "-o", str(folder / "out")], files)
        took, peak = took + one[0], max(peak, one[1])
        shutil.rmtree(folder / "out")
    ours["apply"] = (took, peak)
    after = yardsticks()
    best = {name: min(before[name], after[name]) for name in before}
    yield row("measure", size, ours["measure"], best["read"], best["measure"])
    yield row("apply", size, ours["apply"], best["copy"], best["apply"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20, help="of shards; twice that is free")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--dtype", default="float16", choices=("float16", "float32"))
    parser.add_argument("--part", type=float, default=0.2, help="of the files, for the disk alone")
    parser.add_argument("--save", action="store_true", help="put the rows into benchmarks/results")
    options = parser.parse_args()
    path = FOLDER / "streaming.json" if options.save else None
    words = f"python benchmarks/streaming.py --gigabytes {options.gigabytes:g}"
    record = Record(words, path)
    print(said(record.contents["machine"]))
    too_far = []
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        dtype = np.dtype(options.dtype)
        for found in measured(Path(place), options.gigabytes, dtype, options.part):
            found["dtype"], found["beyond"] = options.dtype, beyond(found)
            record.add(found)
            print(
                f"{found['what']:18} {found['gigabytes']:5.1f} GB {found['seconds']:7.1f} s "
                f"{found['rate']:6.0f} MB/s; disk {found['disk_rate']:.0f}, memory "
                f"{found['memory_rate']:.0f} MB/s: {found['share']:.2f} of {found['against']} "
                f"(at least {LEAST_SHARE}); {found['megabytes']:.0f} MB (at most {MOST_MEGABYTES})"
                f"{' BEYOND' if found['beyond'] else ''}"
            )
            too_far += [found["what"]] if found["beyond"] else []
    if too_far:
        sys.exit(f"beyond a limit: {', '.join(too_far)}")


if __name__ == "__main__":
    main()
