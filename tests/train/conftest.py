"""What the tests of training share: data, made once, and runs in other processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fault_worker import training_worker
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
    pytest.importorskip("transformers", reason="transformers is not installed")
    folder = tmp_path_factory.mktemp("processes")
    path = Path(__file__).parents[1] / "training_worker.py"
    code = (
        "import os, runpy, sys\n"
        f"os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='{29000 + os.getpid() % 1000}')\n"
        f"sys.argv[1:] = [{str(folder)!r}]\n"
        f"runpy.run_path({str(path)!r}, run_name='__main__')"
    )
    status, said = training_worker()(folder, "", code=code)
    assert status == 0, said
    return folder
