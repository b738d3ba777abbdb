"""No command writes over what it reads, whichever two of its paths are one."""

from __future__ import annotations

import hashlib
import inspect
import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import DIM, make_files, modgap, succeed
from modgap import Correction
from modgap.cli.app import app
from modgap.cli.index import index_app
from modgap.cli.kept_inputs import OUTPUTS, check_outputs
from modgap.core.checks import InputValueError

# Every command that writes, with its inputs in braces and its outputs in angle brackets.
COMMANDS = (
    "measure {image.npy} {text.npy} --save-moments <m.npz> --partial <kept>",
    "manifest {shards} -o <m.json>",
    "manifest {shards/s0.npy} -o <shards/s0.npy>",
    "manifest {shards/s0.npy} -o <linked/s0.npy>",
    "fit {image.npy} {text.npy} -o <f.safetensors> --bank {bank.npy} --query-rows text={q.npy}",
    "fit {image.npy} {text.npy} -o <f.safetensors> --groups {groups.txt}",
    "fit image={image.npy} text={text.npy} -o <f.safetensors> --partial <kept>",
    "fit {x-text.safetensors} {y.safetensors} --queries both -o <x.safetensors>",
    "fit --extend {c.safetensors} audio={bank.npy} -o <f.safetensors>",
    "fit --refit {c.safetensors} image={image.npy} text={text.npy} -o <f.safetensors>",
    "fix {image.npy} {text.npy} -o <fixed> --bank {bank.npy} --partial <kept>",
    "diagnose {image.npy} {text.npy} -o <out> --bank {bank.npy} --partial <kept>",
    "report {image.npy} {text.npy} -o <r.html> --images {photos}",
    "apply {c.safetensors} {image.npy} --modality image -o <a.npy> --without-bank <b.safetensors>",
    "apply {c.safetensors} {shards} --modality image -o <corrected>",
    "export {c.safetensors} --to json -o <merge.json>",
    "index build <x.faiss> {c.safetensors} image={image.npy} text={text.npy} "
    "--groups image={groups.txt},text={groups.txt} --without-bank <b.safetensors>",
    "index add <x.faiss> {c.safetensors} image={image.npy} text={text.npy} "
    "--ids image={groups.txt},text={groups.txt}",
    "index delete <x.faiss> {c.safetensors} image=@{groups.txt}",
    "index status {c.safetensors} {run} --new-index {image.npy} --left <left.txt>",
    "migrate {image.npy},{text.npy} {q.npy},{bank.npy} --correction {c.safetensors} "
    "--new-correction {y.safetensors} --groups {groups.txt} -o <moving>",
    "migrate image={shards/s0.npy},text={shards/s1.npy} {shards} -o <moving>",
    "vslerp {image.npy}:0 {text.npy}:1 -o <v.npy> --mean {bank.npy} --steps 3",
    "vslerp {image.npy}:0 {image.npy}:1 --bank {image.npy} --images {photos} --picture <p.png>",
    "embed run:{run} {photos} -o <rows>",
    "train {config.toml} -o <trained>",
    "reproduce liang2022/fig2b --rows {shards} {shards} -o <out>",
    "task zero_shot {image.npy} --class-text {bank.npy} --labels {groups.txt} -o <task>",
    "serve {image.npy} {text.npy} --monitor-file <m.safetensors>",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with one file of every kind that a command reads."""
    monkeypatch.chdir(tmp_path)
    X, Y = make_files(tmp_path, 24)
    correction = Correction.identity(DIM)
    for name in ("c", "x-text", "y"):
        correction.save(f"{name}.safetensors")
    for name in ("bank", "q"):
        np.save(f"{name}.npy", Y[:12])
    Path("groups.txt").write_text("".join(f"{k}\n" for k in range(24)))
    Path("config.toml").write_text("")
    for name in ("shards", "photos", "run"):
        Path(name).mkdir()
        np.save(f"{name}/s0.npy", X[:12])
    np.save("shards/s1.npy", X[12:])
    Image.new("RGB", (8, 8)).save("photos/0.png")
    Path("linked").symlink_to("shards")
    return tmp_path


def _contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _with_one_path_twice() -> list[str]:
    found = []
    for command in COMMANDS:
        inputs = [part.partition("}")[0] for part in command.split("{")[1:]]
        outputs = [part.partition(">")[0] for part in command.split("<")[1:]]
        pairs = [(source, output) for source in inputs for output in outputs]
        for first, second in (*pairs, *combinations(outputs, 2)):
            found.append(command.replace(f"<{second}>", f"<{first}>"))
    return [command.translate(dict.fromkeys(map(ord, "{}<>"))) for command in found]


@pytest.mark.parametrize(
    "command",
    [
        "fix fixed/documents-image.parquet fixed/documents-text.parquet -o fixed",
        "fix image.npy text.npy --bank fixed/example-queries-text.npy -o fixed",
    ],
)
def test_fix_does_not_replace_the_folder_that_it_reads_from(folder, command):
    make_files(folder, 440)
    succeed(*["fix", "image.npy", "text.npy", "-o", "fixed"])
    before = _contents(folder)
    ran = modgap(*command.split())
    assert ran.status == 2
    assert "lies in fixed, which is replaced" in ran.err
    assert _contents(folder) == before


def test_every_command_that_writes_is_tried():
    words = [command.split() for command in COMMANDS]
    tried = {"_".join(one[: 1 + (one[0] == "index")]) for one in words}
    names = {
        command.callback.__name__: {*inspect.signature(command.callback).parameters}
        for command in (*app.registered_commands, *index_app.registered_commands)
    }
    writing = {name for name, parameters in names.items() if {*OUTPUTS} & parameters}
    # These only read an index, or take away what they are told to; demo reads no file.
    others = {"index_search", "index_evaluate", "index_drop", "index_drop_column", "demo"}
    writing |= {name for name in names if name.startswith("index_")}
    assert writing - others == tried - {"task"}
    assert {"index_build", "measure", "serve", "migrate"} <= writing


@pytest.mark.parametrize("command", _with_one_path_twice())
def test_a_path_given_twice_changes_no_input(folder, command):
    before = _contents(folder)
    ran = modgap(*command.split())
    assert ran.status == 2, ran
    assert _contents(folder) == before
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"paths": ["image.npy"], "output": "hard.npy"}, "image.npy is a file being read"),
        ({"paths": ["image.npy"], "output": "soft.npy"}, "image.npy is a file being read"),
        ({"paths": ["shards"], "output": "linked/new.npy"}, "lies in shards, which is being read"),
        ({"paths": ["shards"], "output": "shards/new"}, "lies in shards, which is being read"),
        ({"paths": ["image.npy+text.npy"], "output": "text.npy"}, "text.npy is a file being read"),
        ({"documents": ["x=shards"], "address": "qdrant:shards"}, "shards is a folder being read"),
        ({"output": "new.npy", "picture": "./new.npy"}, "written to twice, by -o and --picture"),
    ],
)
def test_one_file_is_known_under_every_name(folder, given, sentence):
    os.link("image.npy", "hard.npy")
    Path("soft.npy").symlink_to("image.npy")
    with pytest.raises(InputValueError, match=sentence):
        check_outputs(given, ("output", "picture", "address"))


@pytest.mark.parametrize(
    "command",
    [
        "manifest shards -o shards/manifest.json",
        "index build fixed/both.faiss fixed image=image.npy text=text.npy",
        "apply fixed image.npy --modality image -o fixed/new.npy",
        "report image.npy text.npy -o shards/report.html",
    ],
)
def test_a_result_may_lie_beside_what_is_read_where_it_is_not_taken_for_rows(folder, command):
    Path("fixed").mkdir()
    Correction.identity(DIM).save("fixed/correction.safetensors")
    succeed(*command.split())
