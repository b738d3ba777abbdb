"""The rates behind the plan for 10⁹ vectors: disk, moments, correcting, exact search.

    python benchmarks/rates.py [--rows 400000] [--folder DIR] [--save]

Files are read from the disk, not from the system's cache, where the system lets go of it. Rates
are of all cores of this machine; the best of several runs counts. ``--save`` puts the rows into
benchmarks/results/rates.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from case import pairs, rows
from modgap import Calibrate, measure, open_embeddings, write_embeddings
from modgap.moments import Moments, PairMoments
from modgap.search import search
from results import FOLDER, Record, said
from timing import best_seconds, peak_megabytes

DIMENSION = 512
CHUNK = 2**23


def made_up(path: Path, n: int, dtype: type, seed: int) -> None:
    out = np.lib.format.open_memmap(path, "w+", dtype, (n, DIMENSION))
    for start in range(0, n, 10_000):
        out[start : start + 10_000] = rows(min(10_000, n - start), DIMENSION, seed + start) + 0.5
    out.flush()


def forget(path: Path) -> None:
    """Ask the system to drop the file from its cache."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def read(path: Path) -> None:
    forget(path)
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(CHUNK)
        while file.readinto(buffer):
            pass


def write(path: Path, size: int) -> None:
    data = np.random.default_rng(0).bytes(CHUNK)
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // CHUNK):
            file.write(data)
        os.fsync(file.fileno())


def moments_of(path: Path) -> Moments:
    forget(path)
    return Moments.from_batches(open_embeddings(path).batches())


def measured(folder: Path, n: int, rounds: int) -> Iterator[dict]:
    """One row a rate."""

    def row(name: str, what: str, run: Callable[[], object], amount: float, of: str) -> dict:
        megabytes = peak_megabytes(run)
        took = best_seconds({"run": run}, rounds)["run"]
        return {
            "case": name,
            "what": what,
            "seconds": took,
            "rate": amount / took,
            "of": of,
            "megabytes": megabytes,
        }

    files = {name: folder / f"{name}.npy" for name in ("float16", "float32")}
    for name, path in files.items():
        made_up(path, n, np.dtype(name).type, 0)
    size = files["float16"].stat().st_size
    yield row("read", "sequential read of the disk", lambda: read(files["float16"]), size, "bytes")
    yield row("write", "sequential write, synced", lambda: write(folder / "w", size), size, "bytes")
    for name, path in files.items():
        what = f"moments of {n:,} × {DIMENSION} {name} from the disk"
        yield row(f"moments-{name}", what, lambda path=path: moments_of(path), n, "rows")
    some = moments_of(files["float16"])
    correction = Calibrate().fit_moments(PairMoments(some, some)).correction_
    held = np.load(files["float16"], mmap_mode="r")[: n // 2]
    what = f"correcting {len(held):,} × {DIMENSION} float16 rows in memory"
    yield row("correct", what, lambda: correction.x(held), len(held), "rows")

    def file_to_file() -> None:
        forget(files["float16"])
        batches = (correction.x(batch) for batch in open_embeddings(files["float16"]).batches())
        write_embeddings(folder / "corrected.npy", batches, dtype=np.float16)

    what = f"correcting {n:,} × {DIMENSION} float16 from file to file"
    yield row("apply", what, file_to_file, n, "rows")
    queries, documents = rows(2_000, DIMENSION, 1), rows(100_000, DIMENSION, 2)
    what = f"exact 10 nearest, 2,000 × 100,000 × {DIMENSION} float32"
    scores = len(queries) * len(documents)
    yield row("search", what, lambda: search(queries, documents, 10), scores, "scores")
    X, Y = pairs(20_000)
    what = "measure of a sample of 20,000 pairs"
    yield row("measure", what, lambda: measure(X, Y), 1, "runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--save", action="store_true", help="put the rows into benchmarks/results")
    options = parser.parse_args()
    record = Record("python benchmarks/rates.py", FOLDER / "rates.json" if options.save else None)
    print(said(record.contents["machine"]))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for row in measured(Path(folder), options.rows, options.rounds):
            record.add(row)
            rate, took = f"{row['rate']:.3g} {row['of']} a second", f"{row['seconds']:.3g} s"
            print(f"{row['what']}: {rate} ({took}, {row['megabytes']:.0f} MB)", flush=True)


if __name__ == "__main__":
    main()
