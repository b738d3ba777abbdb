"""What the tests of training share: data, made once, and runs in other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from training import bars_config, few_digits, write_captions


@pytest.fixture(scope="session")
def bars(tmp_path_factory) -> Path:
    """A file of coloured bars with captions."""
    return write_captions(tmp_path_factory.mktemp("bars"))


@pytest.fixture(scope="session")
def bars_data(bars):
    from modgap.train import load_data

    return load_data(bars_config(bars).data)


@pytest.fixture(scope="session")
def digits():
    """Some of the digits."""
    return few_digits()


@pytest.fixture(scope="session")
def processes(tmp_path_factory) -> Path:
    """What other processes have written: see training_worker.py."""
    folder = tmp_path_factory.mktemp("processes")
    here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29000 + os.getpid() % 1000)}
    worker = Path(__file__).parents[1] / "training_worker.py"
    done = subprocess.run(
        [sys.executable, worker, folder], env={**os.environ, **here, "OMP_NUM_THREADS": "1"},
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return folder
