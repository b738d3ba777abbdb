"""Damaged files: a short part of ``make fuzz``, and whether it would notice what it looks for."""

from __future__ import annotations

import contextlib
import sys
import time
from random import Random

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

import fuzz.__main__ as harness
from command_line import Ran
from fuzz.mutators import ANY, mutate
from fuzz.samples import images
from fuzz.targets import TARGETS, WHOLE, Cases, judged
from modgap.io.images import ImageError
from modgap.reports.rows import shrink
from modgap.train.images import decode_image

pytestmark = pytest.mark.xdist_group("fuzz")  # the whole files are made once

# Those that take half a second or less.
QUICK = [name for name in TARGETS if name != "report"]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    home = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        yield Cases(home / "cases")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", QUICK)
def test_damaged_files_are_refused_in_one_line_or_give_finite_numbers(cases, name):
    assert cases.run(f"{name}:{WHOLE}").accepted
    for seed in range(2):
        assert cases.run(f"{name}:{seed}").failure == ""


@pytest.mark.parametrize("kind", list(images()))
def test_a_damaged_image_is_read_or_refused_as_one(kind):
    whole = images()
    rng = Random(kind)
    for _ in range(30):
        stored = mutate(rng, whole[kind], list(whole.values()))
        for read in (shrink, lambda one: decode_image(one, 8)):
            with contextlib.suppress(ImageError):
                read(stored)


@pytest.mark.parametrize("mutator", ANY, ids=lambda one: one.__name__)
def test_a_mutator_takes_any_file_and_is_told_by_its_seed(mutator):
    for whole in (b"x", b"12", b"words and 12 numbers " * 40):
        made = []
        for _ in range(2):
            data = bytearray(whole)
            mutator(Random(3), data, [b"other", b"\0" * 300])
            made.append(bytes(data))
        assert made[0] == made[1]


@pytest.mark.parametrize(
    ("ran", "failure"),
    [
        (Ran(0, "1.5", ""), ""),
        (Ran(2, "", "modgap: no.\n"), ""),
        (Ran(2, "", "modgap: warning: odd\nmodgap: no.\n"), ""),
        (Ran(2, "", "modgap: no.\nmodgap: never.\n"), "2 lines for one error"),
        (Ran(2, "", ""), "0 lines for one error"),
        (Ran(1, "", "modgap met something unexpected (TypeError)\n"), "exit 1: modgap met"),
        (Ran(1, "", "Traceback (most recent call last)\nTypeError"), "traceback: TypeError"),
        (Ran(0, '{"a": NaN}', ""), "NaN or infinity on stdout"),
        (Ran(0, "gap  -inf", ""), "NaN or infinity on stdout"),
    ],
)
def test_the_rule_sees_what_is_wrong_with_a_run(tmp_path, ran, failure):
    assert judged(ran, tmp_path).failure.startswith(failure)
    assert bool(judged(ran, tmp_path).failure) == bool(failure)


def test_the_rule_sees_what_is_wrong_with_a_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import save_file

    rows = np.array([[1, np.nan], [np.inf, 2]], dtype="float32")
    listed = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), 2)
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", rows=rows)
    save_file({"rows": rows}, tmp_path / "a.safetensors")
    pq.write_table(pa.table({"embedding": listed, "id": ["a", "b"]}), tmp_path / "a.parquet")
    (tmp_path / "a.json").write_text('{"a": [NaN]}')
    for path in list(tmp_path.iterdir()):
        one = tmp_path / path.suffix[1:]
        one.mkdir()
        path = path.rename(one / path.name)
        assert "a." in judged(Ran(0, "", ""), one).failure
        assert judged(Ran(2, "", "modgap: no.\n"), one).failure == f"refused, yet wrote {path.name}"


def test_a_case_that_kills_its_process_is_kept_and_the_others_go_on(tmp_path, monkeypatch):
    dying = """
import json, os, signal, sys
for case in json.loads(sys.stdin.read()):
    print(json.dumps({"case": case}), flush=True)
    os.makedirs(os.path.join(sys.argv[1], case.replace(":", "-")), exist_ok=True)
    if case == "npy:2":
        os.kill(os.getpid(), signal.SIGBUS)
    print(json.dumps({"case": case, "accepted": True, "failure": "bad" * (case == "npz:4")}))
"""
    monkeypatch.setattr(harness, "WORKER", (sys.executable, "-c", dying))
    tally, kept = harness.Tally(), tmp_path / "kept"
    cases = ["npy:1", "npy:2", "npz:3", "npz:4"]
    harness.fuzz(cases, tally, time.monotonic() + 600, kept)
    assert tally.failures == [("npy:2", "killed by SIGBUS"), ("npz:4", "bad")]
    assert [line.split() for line in tally.table().splitlines()][1:] == [
        ["npy", "2", "1", "0", "1"], ["npz", "2", "1", "0", "1"], ["all", "4", "2", "0", "2"]
    ]  # fmt: skip
    assert {path.name for path in kept.iterdir()} == {"npy-2", "npz-4"}
    assert "--replay npy:2" in (kept / "npy-2" / "failure.txt").read_text()
