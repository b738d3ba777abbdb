"""Killed at any call of the system, or with an input that changes: what has its name is whole.

Commands that are killed in every phase are in test_faults_shards.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import everything_in, make_files, modgap
from fault_worker import Worker, training_worker
from modgap import Correction
from modgap.io import Embeddings, open_embeddings

KILL, TERM = signal.SIGKILL, signal.SIGTERM


@pytest.fixture(scope="module")
def worker():
    made = Worker("modgap.core.files")
    yield made
    made.close()


@pytest.fixture
def files(tmp_path):
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


WRITE = """
from modgap.core.files import atomic_folder, write_text
write_text("file.txt", "new" * 9)
with atomic_folder("folder", replace=True) as temporary:
    write_text(temporary / "file.txt", "new" * 9)
with atomic_folder("fresh") as temporary:
    (temporary / "file.txt").write_text("new" * 9)
"""


@pytest.mark.xdist_group("faults")
@pytest.mark.parametrize(
    "name", ["os:fsync", "os:fsync+", "os:replace", "os:replace+", "os:mkdir", "os:rmdir+"]
)
def test_whatever_call_of_the_system_is_the_last_one_files_are_old_or_new(worker, tmp_path, name):
    """Killed at the first, the second, … call of a kind, until there is none more to come."""
    (tmp_path / "folder").mkdir()
    for path in (tmp_path, tmp_path / "folder"):
        (path / "file.txt").write_text("old")
    for call in range(1, 40):
        status, _ = worker(tmp_path, "", (name, call), code=WRITE)
        shutil.rmtree(tmp_path / "fresh", ignore_errors=status != 0)
        # Between its two renames the folder has no name; the next to write there puts it back.
        for path in (tmp_path / "file.txt", *tmp_path.glob("folder/*")):
            assert path.read_text() in ("old", "new" * 9)
        if status == 0:
            break
        assert status == -KILL
    assert call > 1
    assert everything_in(tmp_path) == {"file.txt", "folder", "folder/file.txt"}


CHANGING = {
    "apply": "apply c.safetensors rows.npy --modality image -o out.npy",
    "fit": "fit rows.npy text.npy -o out.safetensors",
    "index build": "index build out.faiss c.safetensors image=rows.npy --trust-rows",
    "diagnose": "diagnose rows.npy text.npy --unpaired --no-umap -o out",
    "fix": "fix rows.npy text.npy --unpaired -o out",
}


@pytest.mark.parametrize("how", ["vanishes", "shrinks"])
@pytest.mark.parametrize("command", CHANGING)
def test_an_input_that_changes_at_any_read_ends_in_a_result_or_in_a_sentence(
    files, command, how, monkeypatch
):
    """Before the first read, the second, … until the command has no more to come."""
    monkeypatch.chdir(files)
    rows = files / "rows.npy"
    stored = (files / "image.npy").read_bytes()
    reads = 0

    def changing(original: Callable[..., Any], call: int) -> Callable[..., Any]:
        def read(*given: Any, **named: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == call:
                rows.unlink() if how == "vanishes" else os.truncate(rows, 300)
            return original(*given, **named)

        return read

    for call in range(1, 6):
        rows.write_bytes(stored)
        reads = 0
        with monkeypatch.context() as patched:
            for name in ("batches", "take", "rows"):
                patched.setattr(Embeddings, name, changing(getattr(Embeddings, name), call))
            ran = modgap(*CHANGING[command].split())
        assert "Traceback" not in ran.err
        assert not list(files.glob(".modgap-*"))
        made = list(files.glob("out*"))
        rows.unlink(missing_ok=True)
        if ran.status == 0:
            check_whole(files)
        else:
            assert ran.status == 2
            assert "rows.npy" in ran.err.splitlines()[-1]
            assert not made
        for path in made:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if reads < call:
            break
    assert call > 1


@pytest.mark.xdist_group("train")  # the worker is started once
def test_training_that_was_killed_while_it_read_trained_or_wrote_is_resumed(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    from training import bars_config, write_captions

    config = bars_config(
        write_captions(tmp_path), train={"epochs": 1, "checkpoint_every": 2, "loggers": []}
    )
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
    pytest.importorskip("transformers")
    worker = training_worker()
    points = [
        ("modgap.train.loop:load_data", 1),
        ("modgap.train.learner:Learner:set_rates", 2),
        ("modgap.train.run:write_checkpoint+", 1),
        ("safetensors.numpy:save_file+", 1),
    ]
    for place, point in enumerate(points):
        number = (KILL, TERM)[place % 2]
        status, said = worker(tmp_path, "train config.json --resume -o run", point, number)
        assert status == -number, said
        check_whole(tmp_path / "run")
    status, said = worker(tmp_path, "train config.json --resume -o run")
    assert status == 0, said
    assert "no checkpoint" not in said
    assert not list((tmp_path / "run").rglob(".modgap-*"))
    assert (tmp_path / "run" / "result.json").exists()
