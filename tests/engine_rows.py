"""Rows in shards for the tests of engines, and shards that tell who reads them, and slowly."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from command_line import DIM, succeed
from modgap.core.threads import processors
from modgap.io import write_clip_retrieval
from modgap.io._matrices import ArrayMatrix


def write_shards(folder: Path, rows: np.ndarray, n_shards: int) -> Path:
    """A folder of .npy shards."""
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(rows, n_shards)):
        np.save(folder / f"part_{number}.npy", part)
    return folder


def make_shards(folder: Path, n: int = 900) -> tuple[Path, Path]:
    """Pairs with a gap: images in five shards of half precision, texts in three of single."""
    rng = np.random.default_rng(11)
    latent = rng.normal(size=(n, DIM))
    offsets = rng.normal(size=(2, DIM))
    X, Y = (latent + offset + 0.3 * rng.normal(size=(n, DIM)) for offset in offsets)
    return (
        write_shards(folder / "image", X.astype("float16"), 5),
        write_shards(folder / "text", Y.astype("float32"), 3),
    )


CLIP_SHAPE = 70, 6, 16


def write_clip_folder(folder: Path, rng: np.random.Generator) -> Path:
    """``rows``, of clip-retrieval: five shards on each side; and a correction ``c.safetensors``."""
    n, dim, shard = CLIP_SHAPE
    Z, noise = rng.normal(size=(n, dim)), rng.normal(size=(2, n, dim))
    X, Y = (Z + 0.3 * noise[0] + 1).astype("float16"), (Z + 0.3 * noise[1] - 1).astype("float16")
    names = [f"{i}.jpg" for i in range(n)]
    write_clip_retrieval(folder / "rows", X, Y, ids=names, captions=names, shard_rows=shard)
    succeed("fit", folder / "rows", "-o", folder / "c.safetensors")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class TwiceEngine:
    """Sends every task through a pickle and does it twice, as a cluster with bad luck does."""

    name = "twice"

    def __init__(self) -> None:
        self.tasks = 0

    def map(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], *, gpus: float = 0
    ) -> Iterator[Any]:
        for task in tasks:
            self.tasks += 1
            for _ in range(2):
                result = pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(task)))
            yield result


class SlowMatrix(ArrayMatrix):
    """Rows that take a while to read; every attempt is noted with the process that makes it."""

    log: Path
    number: int

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        half = -(-self.shape[0] // 2)
        with self.log.open("a") as file:
            file.write(f"{self.number} {os.getpid()}\n")
        for batch in super().blocks(half):
            time.sleep(0.25)
            yield batch


def slow_parts(folder: Path, rows: np.ndarray, n_parts: int) -> list[SlowMatrix]:
    """The rows in parts that note in ``folder/log`` who reads them."""
    found = []
    for number, part in enumerate(np.array_split(rows, n_parts)):
        slow = SlowMatrix(part)
        slow.log, slow.number = folder / "log", number
        found.append(slow)
    return found


def attempts(folder: Path) -> list[tuple[int, int]]:
    """Which part was begun by which process, in order."""
    if not (folder / "log").exists():
        return []
    lines = (folder / "log").read_text().splitlines()
    return [(int(part), int(process)) for part, process in map(str.split, lines)]


def process_after_a_while(_: int) -> int:
    """Which process does a task."""
    time.sleep(0.3)
    return os.getpid()


def cores(_: int) -> int:
    """How many processors a task may use."""
    return processors()


def divided(number: int) -> float:
    """What nobody foresaw, where the number is 0."""
    return 1 / number


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, (int, float)):
        yield float(value)


def assert_same(found: Any, expected: Any) -> None:
    a, b = (np.array([*numbers(one.to_dict())]) for one in (found, expected))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
