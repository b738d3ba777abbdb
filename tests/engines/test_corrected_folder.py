"""Shards are corrected into shards: the same on any engine, and on from where a run was stopped."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import everything_in, modgap, refuse, succeed
from conftest import make_pairs
from engine_rows import CLIP_SHAPE, TwiceEngine, contents, make_shards, write_clip_folder
from modgap import Calibrate, Correction, open_embeddings, open_pair, write_embeddings
from modgap.core import files
from modgap.core.checks import InputValueError
from modgap.core.files import WriteError
from modgap.engines import LocalEngine, apply_to_folder, row_ranges
from modgap.io import Embeddings

N, DIM, SHARD = CLIP_SHAPE
CORRECTION = Correction.identity(DIM)
APPLY = "apply c.safetensors rows --modality image -o out"
on_any_engine = pytest.mark.parametrize("make", [LocalEngine, TwiceEngine])


class Killed(BaseException):
    """Stands for a signal."""


class MortalEngine(TwiceEngine):
    """Dies once three tasks are done."""

    def map(self, *given: Any, **options: Any) -> Iterator[Any]:
        for number, result in enumerate(super().map(*given, **options)):
            if number == 2:
                raise Killed
            yield result


@pytest.fixture
def shards(tmp_path, rng, monkeypatch):
    """A clip-retrieval folder of five shards on each side, and a correction that was fitted."""
    monkeypatch.chdir(tmp_path)
    return write_clip_folder(tmp_path, rng)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Folders of .npy shards."""
    return make_shards(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def data(plain):
    return open_pair(*plain)


def images(folder: str) -> Embeddings:
    return open_embeddings(folder, column="img_emb", modality="image")


def stop_after(n_rows: int) -> Callable[[str, int, int], None]:
    """Progress that ends a run once so many rows are done."""

    def stop(_: str, done: int, __: int) -> None:
        if done > n_rows:
            raise Killed

    return stop


def test_a_folder_of_shards_is_corrected_into_a_folder_of_shards(shards):
    ran = succeed(*APPLY.split(), "--dtype", "float32")
    assert f"wrote out: {N} rows of {DIM} columns" in ran.err
    rows = images("rows")
    fixed = Correction.load("c.safetensors")
    found = images("out")
    assert found.dtype == np.float32
    assert (found.rows() == fixed.apply(rows.rows(), "image")).all()
    assert found.captions.tolist() == rows.captions.tolist()
    assert [len(part.rows()) for part in found.matrix.shards()] == [16, 16, 16, 16, 6]
    assert modgap(*APPLY.replace("image", "text").split()).status == 0
    both = open_pair("out")
    assert both.pairing == open_pair("rows").pairing
    assert (fixed.apply(open_pair("rows").Y, "text").astype("float16") == both.Y).all()
    assert not list(shards.glob("*.partial"))
    said = refuse(*APPLY.split())
    assert "img_emb exists already. Choose a new folder" in said


@on_any_engine
def test_clip_retrievals_layout_is_the_same_on_any_engine(shards, make):
    fixed = Correction.load("c.safetensors")
    apply_to_folder(fixed, images("rows"), "image", "out", engine=make())
    files = {f"img_emb/img_emb_{k}.npy" for k in range(5)}
    files |= {f"metadata/metadata_{k}.parquet" for k in range(5)}
    assert {*contents(shards / "out")} == files
    apply_to_folder(fixed, images("rows"), "image", "here")
    assert contents(shards / "out") == contents(shards / "here")
    tables = contents(shards / "rows" / "metadata")
    assert contents(shards / "out" / "metadata") == tables


def test_corrected_shards_hold_what_one_file_would(data, tmp_path):
    fixed = Calibrate().fit(data).correction_
    told: list[int] = []
    done = apply_to_folder(
        fixed, data.x, "image", tmp_path / "out", engine=TwiceEngine(),
        progress=lambda _, done, total: told.append(done),
    )  # fmt: skip
    assert done == 0
    assert told == [0, 180, 360, 540, 720, 900]
    found = open_embeddings(tmp_path / "out")
    assert found.dtype == "float16"
    expected = fixed.apply(data.x.rows(), "image").astype("float16")
    np.testing.assert_array_equal(found.rows(), expected)
    assert everything_in(tmp_path) == {"out", *(f"out/part_{k}.npy" for k in range(5))}
    with pytest.raises(InputValueError, match=r"out exists already. Choose a new folder"):
        apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine=TwiceEngine())
    apply_to_folder(fixed, data.x, "image", tmp_path / "here")
    assert contents(tmp_path / "out") == contents(tmp_path / "here")


@on_any_engine
def test_documents_of_hubs_have_the_keys_of_their_rows(tmp_path, make):
    X, Y = make_pairs(60, 8)
    fixed = Calibrate(hubs=0.5).fit(X, Y).correction_
    for k in range(3):
        some = slice(20 * k, 20 * k + 20)
        ids = [f"i{j}" for j in range(some.start, some.stop)]
        write_embeddings(tmp_path / "in" / f"{k}.parquet", X[some], ids=ids)
    rows, keys = open_embeddings(tmp_path / "in"), np.arange(60)
    apply_to_folder(fixed, rows, "image", tmp_path / "out", keys=keys, engine=make())
    found = open_embeddings(tmp_path / "out")
    assert found.ids.tolist() == rows.ids.tolist()
    np.testing.assert_allclose(found.rows(), fixed.apply(X, "image", keys=keys), rtol=1e-12)


@on_any_engine
def test_a_single_large_file_is_corrected_in_pieces(tmp_path, rng, make, monkeypatch):
    monkeypatch.setattr(row_ranges, "PIECE_BYTES", 25 * DIM * 4)
    X = rng.normal(size=(280, DIM)).astype("float32")
    ids = [f"i{j}" for j in range(280)]
    np.save(tmp_path / "rows.npy", X)
    source = open_embeddings(tmp_path / "rows.npy")
    apply_to_folder(CORRECTION, source, "image", tmp_path / "out", engine=make())
    assert everything_in(tmp_path / "out") == {f"rows-{k}.npy" for k in range(12)}
    np.testing.assert_array_equal(open_embeddings(tmp_path / "out").rows(), X)
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))  # no row lies together
    source = open_embeddings(tmp_path / "columns.npy")
    apply_to_folder(CORRECTION, source, "image", tmp_path / "whole", engine=make())
    assert everything_in(tmp_path / "whole") == {"columns.npy"}
    write_embeddings(tmp_path / "named.npz", X, ids=ids)
    source = open_embeddings(tmp_path / "named.npz")
    apply_to_folder(CORRECTION, source, "image", tmp_path / "named", engine=make())
    found = open_embeddings(tmp_path / "named")
    np.testing.assert_array_equal(found.rows(), X)
    assert found.ids.tolist() == ids


@on_any_engine
def test_a_bad_row_is_named_by_its_number_among_all(tmp_path, make):
    rows = np.ones((40, DIM), "float32")
    rows[25, 2] = np.nan
    (tmp_path / "in").mkdir()
    for number in range(2):
        np.save(tmp_path / "in" / f"{number}.npy", rows[20 * number : 20 * number + 20])
    source = open_embeddings(tmp_path / "in")
    with pytest.raises(InputValueError, match=r"image has 1 row with NaN.*, the first at row 25"):
        apply_to_folder(CORRECTION, source, "image", tmp_path / "out", engine=make())
    assert everything_in(tmp_path / "out.partial") == {"0.npy", "apply.json"}


@on_any_engine
def test_shards_without_a_layout_keep_their_names_and_their_columns(tmp_path, rng, make):
    X = rng.normal(size=(9, DIM)).astype("float32")
    for name, rows in {"a": X[:4], "b": X[4:]}.items():
        (tmp_path / "plain").mkdir(exist_ok=True)
        np.save(tmp_path / "plain" / f"{name}.npy", rows)
        write_embeddings(
            tmp_path / "named" / f"{name}.parquet", rows, ids=list(map(str, rows[:, 0]))
        )
    for kind, suffix in {"plain": ".npy", "named": ".parquet"}.items():
        source, out = open_embeddings(tmp_path / kind), tmp_path / f"{kind}-out"
        assert apply_to_folder(CORRECTION, source, "image", out, engine=make()) == 0
        assert everything_in(out) == {f"a{suffix}", f"b{suffix}"}
        found = open_embeddings(out)
        assert (found.rows() == X).all()
        assert (found.ids is None) == (kind == "plain")
        if found.ids is not None:
            assert found.ids.tolist() == source.ids.tolist()


def test_what_changed_since_an_apply_was_stopped_is_corrected_again_or_said(shards):
    fixed = Correction.load("c.safetensors")
    rows = images("rows")
    with pytest.raises(Killed):
        apply_to_folder(fixed, rows, "image", "out", progress=stop_after(3 * SHARD))
    with pytest.raises(ValueError, match=r"out.partial was begun with another correction"):
        apply_to_folder(fixed, rows, "image", "out", dtype="float64")
    shard = Path("rows/img_emb/img_emb_1.npy")
    changed = np.load(shard) + np.float16(1)
    np.save(shard, changed)
    with pytest.raises(ValueError, match=r"img_emb_1.npy changed while it was read"):
        rows.rows()
    rows = images("rows")
    assert apply_to_folder(fixed, rows, "image", "out") == 2
    found = images("out").rows()
    assert (found == fixed.apply(rows.rows(), "image").astype("float16")).all()
    (shards / "rows/img_emb/img_emb_4.npy").unlink()
    with pytest.raises(ValueError, match=r"img_emb_4.npy was removed or renamed"):
        apply_to_folder(fixed, rows, "image", "other")
    assert not Path("other").exists()


def test_a_killed_run_goes_on_on_any_engine_and_another_correction_is_refused(data, tmp_path):
    fixed = Calibrate().fit(data).correction_
    other = Calibrate(mode="mixed").fit(data).correction_
    apply_to_folder(fixed, data.x, "image", tmp_path / "expected")
    for name in ("out", "here"):
        with pytest.raises(Killed):
            apply_to_folder(fixed, data.x, "image", tmp_path / name, engine=MortalEngine())
        assert not (tmp_path / name).exists()
    for engine in (LocalEngine(), TwiceEngine()):
        with pytest.raises(InputValueError, match=r"out.partial was begun with another correction"):
            apply_to_folder(other, data.x, "image", tmp_path / "out", engine=engine)
    twice = TwiceEngine()
    assert apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine=twice) == 3
    assert twice.tasks == 2
    assert apply_to_folder(fixed, data.x, "image", tmp_path / "here") == 3
    for name in ("out", "here"):
        assert contents(tmp_path / name) == contents(tmp_path / "expected")
    assert {path.name for path in tmp_path.iterdir()} == {"expected", "out", "here"}


@on_any_engine
def test_what_a_stopped_run_did_is_used_only_where_it_is_still_so(tmp_path, make):
    """Shards whose keys or ids are others now are made again, and those that are gone removed."""
    X, Y = make_pairs(100, 8)
    fixed = Calibrate(hubs=0.5).fit(X, Y).correction_
    (tmp_path / "in").mkdir()
    for k, some in enumerate(np.split(X, 5)):
        np.save(tmp_path / "in" / f"{k}.npy", some)
    keys, ids = np.arange(100), np.array([f"i{j}" for j in range(100)])
    source = open_embeddings(tmp_path / "in").with_column("ids", ids)
    out = tmp_path / "out"
    done = {}
    for change in ("nothing", "keys", "ids", "gone"):
        with pytest.raises(Killed):
            apply_to_folder(fixed, source, "image", out, keys=keys, engine=MortalEngine())
        new_keys, new_ids, now = keys.copy(), ids.copy(), source
        if change == "keys":
            new_keys[25] = 7
        elif change == "ids":
            new_ids[:21] = [f"j{j}" for j in range(21)]
        elif change == "gone":
            (tmp_path / "in" / "1.npy").unlink()
            new_keys, new_ids = (np.delete(one, np.arange(20, 40)) for one in (keys, ids))
            now = open_embeddings(tmp_path / "in")
        now = now.with_column("ids", new_ids)
        done[change] = apply_to_folder(fixed, now, "image", out, keys=new_keys, engine=make())
        found = open_embeddings(out)
        expected = fixed.apply(now.rows(), "image", keys=new_keys)
        np.testing.assert_allclose(found.rows(), expected, rtol=1e-12)
        assert found.ids.tolist() == new_ids.tolist()
        shutil.rmtree(out)
    assert done == {"nothing": 3, "keys": 2, "ids": 1, "gone": 2}


@on_any_engine
def test_what_is_not_of_an_earlier_run_is_left_alone_and_said(data, tmp_path, make):
    fixed = Calibrate().fit(data).correction_
    given = fixed, data.x, "image", tmp_path / "out"
    place = tmp_path / "out.partial"
    place.mkdir()
    for name, said in (("part_0.npy", "such as part_0.npy"), ("apply.json", "such as apply.json")):
        (place / name).write_text("[]")
        with pytest.raises(InputValueError, match=f"out.partial holds other files, {said}"):
            apply_to_folder(*given, engine=make())
        assert everything_in(place) == {name}
        (place / name).unlink()
    with pytest.raises(Killed):
        apply_to_folder(*given, engine=MortalEngine())
    (place / "mine.npy").write_text("")
    with pytest.raises(InputValueError, match=r"holds other files, such as mine.npy"):
        apply_to_folder(*given, engine=make())
    (place / "mine.npy").unlink()
    assert apply_to_folder(*given, engine=make()) == 3


@on_any_engine
def test_two_runs_at_once_are_refused(data, tmp_path, make):
    fixed = Calibrate().fit(data).correction_

    def second(*_: object) -> None:
        apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine=make())

    with pytest.raises(InputValueError, match=r"Another process is writing to .*out"):
        apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine=make(), progress=second)


def test_an_engine_that_nobody_knows_leaves_nothing_behind(data, tmp_path):
    fixed = Calibrate().fit(data).correction_
    with pytest.raises(InputValueError, match="engine must be local, ray"):
        apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine="spark")
    assert not everything_in(tmp_path)


class ElsewhereEngine:
    """Says that all is done; its disk is another one."""

    name = "elsewhere"

    def map(self, work: Any, tasks: Any, *, gpus: float = 0) -> Iterator[Any]:
        return (len(task.rows.rows()) for task in tasks)


def test_a_disk_that_workers_do_not_share_is_said(data, tmp_path):
    fixed = Calibrate().fit(data).correction_
    with pytest.raises(InputValueError, match=r"part_0.npy, which is not to be seen from here"):
        apply_to_folder(fixed, data.x, "image", tmp_path / "out", engine=ElsewhereEngine())
    assert not (tmp_path / "out").exists()


def test_rows_in_memory_are_never_taken_for_those_of_an_earlier_run(tmp_path):
    rows = np.ones((9, DIM), "float32")
    for factor in (1, 2):
        given = Embeddings.of(factor * rows, "image")
        with pytest.raises(Killed):
            apply_to_folder(CORRECTION, given, "image", tmp_path / "out", progress=stop_after(8))
    assert apply_to_folder(CORRECTION, given, "image", tmp_path / "out") == 0
    assert (np.load(tmp_path / "out" / "0.npy") == 2).all()


def test_what_the_disk_refuses_of_a_shard_stops_the_run_while_the_next_is_made(shards, monkeypatch):
    """The third shard cannot be flushed; neither it nor the fourth gets its name."""
    fixed = Correction.load("c.safetensors")
    apply_to_folder(fixed, images("rows"), "image", "whole")
    flushed: list[str] = []
    flush = files._flush

    def failing(path: Path) -> None:
        if path.suffix == ".npy":
            flushed.append(path.name)
            if len(flushed) == 3:
                raise OSError(errno.EIO, "Input/output error", str(path))
        flush(path)

    monkeypatch.setattr(files, "_flush", failing)
    with pytest.raises(WriteError, match=r"img_emb_2.npy cannot be written: Input/output error"):
        apply_to_folder(fixed, images("rows"), "image", "out")
    monkeypatch.undo()
    monkeypatch.chdir(shards)
    assert everything_in(shards / "out.partial" / "img_emb") == {"img_emb_0.npy", "img_emb_1.npy"}
    assert apply_to_folder(fixed, images("rows"), "image", "out") == 2
    assert contents(shards / "out") == contents(shards / "whole")
