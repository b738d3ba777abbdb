"""Killed at any point of reading, fitting or writing: the next run finishes, and nothing is left.

Each run is ended by a signal at a stated point, several one after the other in the same folder.
After each, what is there is whole; the last one is left to finish.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import everything_in, make_files, modgap
from modgap import Correction
from modgap.io import open_embeddings, write_embeddings

KILL, TERM = signal.SIGKILL, signal.SIGTERM
# Reading: the second time that rows are asked for. Writing: each file is flushed, then renamed.
READ = ("modgap.io.embeddings:Embeddings:batches", 2)
FLUSH, RENAME, RENAMED = ("os:fsync", 1), ("os:replace", 1), ("os:replace+", 1)


class Worker:
    """A process that runs commands in children of its own; see fault_worker.py."""

    def __init__(self, *modules: str) -> None:
        script = str(Path(__file__).with_name("fault_worker.py"))
        self.process = subprocess.Popen(
            [sys.executable, script, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(
        self,
        folder: Path,
        words: str,
        point: tuple[str, int] = ("", 0),
        number: int = KILL,
        code: str = "",
    ) -> tuple[int, str]:
        asked: dict[str, Any] = {"folder": str(folder), "words": words.split(), "code": code}
        asked |= {"point": point[0], "call": point[1], "signal": number}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        status, said = json.loads(self.process.stdout.readline())
        assert "Traceback" not in said
        return status, said

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    pytest.importorskip("faiss")
    made = Worker("modgap.cli", "modgap.diagnosis", "modgap.reports", "modgap.index", "faiss")
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    make_files(tmp_path, 40)
    Correction.identity(16).save(tmp_path / "c.safetensors")
    return tmp_path


def check_whole(folder: Path) -> None:
    """Every file that has its name can be read to its end."""
    for path in folder.rglob("[!.]*"):
        if path.is_dir() or any(part.startswith(".modgap-") for part in path.parts):
            continue
        if path.suffix in (".npy", ".parquet"):
            assert open_embeddings(path).rows().size
        elif path.name.endswith("correction.safetensors"):
            Correction.load(path)
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>")
        else:
            assert path.stat().st_size


def kill_then_finish(
    worker: Worker, folder: Path, words: str, points: list[tuple[str, int]], out: str
) -> None:
    """Kill a command at every point, by either signal; then run it once more."""
    before = everything_in(folder)
    for point in points:
        for number in (TERM, KILL):
            status, said = worker(folder, words, point, number)
            # 143: it was writing, and removed its temporary files on the way out.
            assert status in (-number, 143 if number == TERM else None), (point, status, said)
            check_whole(folder)
    status, said = worker(folder, words)
    assert status == 0, said
    check_whole(folder)
    left = everything_in(folder) - before
    assert left
    assert all(name.startswith(out) for name in left)


@pytest.mark.parametrize(
    ("words", "points", "out"),
    [
        (
            "apply c.safetensors image.npy --modality image -o out.npy",
            [READ, FLUSH, RENAME, RENAMED],
            "out.npy",
        ),
        (
            "fit image.npy text.npy -o out.safetensors",
            [("modgap.corrections.calibrate:Calibrate:fit", 1), FLUSH, RENAME, RENAMED],
            "out.safetensors",
        ),
        (
            "index build out.faiss c.safetensors image=image.npy text=text.npy --replace",
            [READ, FLUSH, RENAME, RENAMED, ("os:replace", 2), ("os:replace+", 2)],
            "out.faiss",
        ),
        (
            "diagnose image.npy text.npy --unpaired --no-umap -o out",
            [("modgap.diagnosis.run:measure", 1), FLUSH, RENAMED, ("os:replace", 4)],
            "out",
        ),
        (
            "fix image.npy text.npy --unpaired -o out",
            [("modgap.diagnosis.run:measure", 1), FLUSH, ("modgap._files:_settle_folder+", 1)],
            "out",
        ),
    ],
    ids=["apply", "fit", "index build", "diagnose", "fix"],
)
def test_a_command_that_was_killed_at_any_point_finishes_when_it_is_run_again(
    worker: Worker, files: Path, words: str, points: list[tuple[str, int]], out: str
) -> None:
    kill_then_finish(worker, files, words, points, out)
