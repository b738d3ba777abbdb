"""Run modgap as a user would: in this process, which is quick, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from modgap.datasets import DigitPairs, load_digits

DIM = 16


@dataclass(frozen=True)
class Ran:
    """What a command left behind on the terminal."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON on stdout; NaN and infinity, which JSON does not know, are refused."""
        return json.loads(self.out, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def modgap(*words: object) -> Ran:
    """Run a command in this process, through the same door as the installed script."""
    from modgap.cli import main

    return _in_this_process(main, "modgap", *words)


def script(path: str | Path, *words: object) -> Ran:
    """Run a script in this process as ``python path …`` would; it must end well."""
    ran = _in_this_process(lambda: runpy.run_path(str(path), run_name="__main__"), path, *words)
    assert ran.status == 0, ran
    return ran


def _in_this_process(main: Callable[[], object], *words: object) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    try:
        with (
            mock.patch.object(sys, "argv", [*map(str, words)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            main()
    except SystemExit as stop:
        status = stop.code
    return Ran(status or 0, out.getvalue(), err.getvalue())


def succeed(*words: object) -> Ran:
    """Run a command that must end well."""
    ran = modgap(*words)
    assert ran.status == 0, ran.err
    return ran


def refuse(*words: object) -> str:
    """What a command says that must be refused, and print nothing else."""
    ran = modgap(*words)
    assert (ran.status, ran.out) == (2, ""), ran
    assert "Traceback" not in ran.err
    return ran.err


def start(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(
        [sys.executable, "-m", "modgap", *map(str, words)], text=True, encoding="utf-8", **pipes
    )


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints when it runs the code; an error there is an error here."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_files(folder: Path, n: int = 440) -> tuple[np.ndarray, np.ndarray]:
    """image.npy and text.npy with a gap that hurts a mixed index and that a shift mends."""
    rng = np.random.default_rng(7)
    latent = rng.normal(size=(n, DIM))
    offsets = rng.normal(size=(2, DIM))
    X, Y = (
        (latent + offset + 0.3 * rng.normal(size=(n, DIM))).astype("float32") for offset in offsets
    )
    np.save(folder / "image.npy", X)
    np.save(folder / "text.npy", Y)
    return X, Y


def few_digits(n: int = 200) -> DigitPairs:
    """The first digits with all their captions, which are diagnosed in a second."""
    digits = load_digits()
    m = n * len(digits.Y) // len(digits.X)
    return replace(
        digits,
        X=digits.X[:n],
        Y=digits.Y[:m],
        groups=(digits.groups[0][:n], digits.groups[1][:m]),
        captions=digits.captions[:m],
        wording=digits.wording[:m],
        images=digits.images[:n],
        labels=digits.labels[:n],
    )


def everything_in(folder: Path) -> set[str]:
    """Every path below a folder, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
