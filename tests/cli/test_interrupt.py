"""Killed half-way, run twice at once, piped into head, on odd terminals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from command_line import DIM, everything_in, make_files, modgap, start
from modgap import Correction

MODGAP = f"{sys.executable} -m modgap"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    make_files(folder, 60)
    return folder


@pytest.fixture
def huge(tmp_path):
    """A file of rows that takes long to correct and no room on the disk: it is one hole."""
    folder = tmp_path / "huge"
    folder.mkdir()
    Correction.identity(64).save(folder / "c.safetensors")
    np.lib.format.open_memmap(folder / "rows.npy", "w+", "float32", (8_000_000, 64))
    yield folder
    shutil.rmtree(folder)


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "status", "debris"),
    [(signal.SIGTERM, 143, 0), (signal.SIGINT, 130, 0), (signal.SIGKILL, -9, 1)],
)
def test_a_killed_apply_leaves_no_file_at_the_target(huge, number, status, debris):
    out = huge / "out"
    process = start(
        "apply", huge / "c.safetensors", huge / "rows.npy", "--modality", "text",
        "-o", out / "fixed.npy",
    )  # fmt: skip
    while process.poll() is None and not list(out.glob(".modgap-*")):
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == status, err
    assert not (out / "fixed.npy").exists()
    # Nothing can be tidied up after SIGKILL; the temporary name is hidden and says whose it is.
    assert len(list(out.iterdir())) == debris
    assert "Traceback" not in err
    assert ("interrupted; nothing half-written is left" in err) == (number == signal.SIGINT)


def test_an_interrupted_diagnose_writes_nothing(files, tmp_path, monkeypatch):
    called = []

    @contextmanager
    def interrupting() -> Iterator[Any]:
        def step(name: str, *_: int) -> None:
            called.append(name)
            if len(called) == 4:
                raise KeyboardInterrupt

        yield step

    monkeypatch.setattr("modgap.cli.progress.steps", interrupting)
    ran = modgap(
        "diagnose", files / "image.npy", files / "text.npy", "--no-umap", "-o", tmp_path / "out"
    )  # fmt: skip
    assert len(called) == 4
    assert (ran.status, ran.out) == (130, "")
    assert ran.err == "modgap: interrupted; nothing half-written is left.\n"
    assert everything_in(tmp_path) == set()


def test_two_runs_into_one_folder_both_succeed_and_leave_whole_files(tmp_path):
    make_files(tmp_path, 60)
    out = tmp_path / "out"
    words = (
        "diagnose",
        tmp_path / "image.npy",
        tmp_path / "text.npy",
        "--unpaired",
        "--no-umap",
        "-o",
        out,
        "--seed",
    )
    both = [start(*words, seed) for seed in (0, 1)]
    for process in both:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert everything_in(out) == {
        "diagnosis.json",
        "report.md",
        "report.html",
        "correction.safetensors",
    }
    result = json.loads((out / "diagnosis.json").read_text(encoding="utf-8"))
    assert result["seed"] in (0, 1)
    assert Correction.load(out / "correction.safetensors").dim_in == DIM


@pytest.mark.parametrize(
    ("words", "reader"), [("", "head -1"), pytest.param("--json", "true", marks=pytest.mark.long)]
)
def test_a_reader_that_goes_away_is_no_mistake(words, reader):
    done = shell(f"{MODGAP} train --list {words} | {reader}")
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("closed", "printed"), [pytest.param("<&-", True, marks=pytest.mark.long), (">&-", False)]
)
def test_a_closed_stream_is_no_mistake(closed, printed):
    done = shell(f"{MODGAP} train --list {closed}")
    assert done.returncode == 0
    assert done.stderr == ""
    assert ("modgap train digits" in done.stdout) == printed


def test_a_file_is_written_though_nobody_hears_that_it_is(files):
    Correction.identity(DIM).save(files / "c.safetensors")
    done = shell(f"cd '{files}' && {MODGAP} apply c.safetensors image.npy -o out.npy "
                 "--modality image 2>&-")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    np.testing.assert_array_equal(np.load(files / "out.npy"), np.load(files / "image.npy"))


def test_a_terminal_that_knows_little_still_gets_the_table(files):
    line = f"cd '{files}' && {MODGAP} diagnose image.npy text.npy --unpaired"
    ascii_alone = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell(line, TERM="dumb", COLUMNS="40", NO_COLOR="1", **ascii_alone)
    assert done.returncode == 0, done.stderr
    assert "Center()" in done.stdout
    assert "\x1b" not in done.stdout
