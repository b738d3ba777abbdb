"""A corrected column of a Lance dataset: right, undoable, and without touching what is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import modgap
from command_line import everything_in
from command_line import modgap as command
from conftest import make_pairs
from modgap.core.checks import InputError, InputValueError
from modgap.engines import add_corrected_column, drop_corrected_column
from modgap.search import search

lance = pytest.importorskip("lance")
N, DIM = 600, 8


@pytest.fixture
def folder(tmp_path):
    """A dataset of four fragments, a correction for it, and its rows."""
    X, Y = (rows.astype("float32") for rows in make_pairs(N, DIM))
    fixed = modgap.Calibrate().fit(X, Y).correction_
    fixed.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "image.npy", X)
    np.save(tmp_path / "text.npy", Y)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), DIM)
    rows = pa.table({"id": pa.array(range(N)), "vector": vectors})
    lance.write_dataset(rows, tmp_path / "d.lance", max_rows_per_file=150)
    return tmp_path


def data_files(dataset: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (dataset / "data").iterdir()}


def vectors(dataset: Path, column: str) -> np.ndarray:
    found = lance.dataset(dataset).to_table(columns=[column])[column].combine_chunks()
    return found.flatten().to_numpy().reshape(N, -1)


def test_the_column_is_added_searched_and_dropped(folder):
    dataset, before = folder / "d.lance", everything_in(folder)
    raw = data_files(dataset)
    words = ("apply", folder / "c.safetensors", dataset, "--modality", "image", "--into", "fixed")
    ran = command(*words)
    assert ran.status == 0, ran.err
    assert "added the column fixed" in ran.err
    assert "these documents are ranked by inner product" in ran.err
    fixed = modgap.Correction.load(folder / "c.safetensors")
    expected = fixed.apply(np.load(folder / "image.npy"), "image")
    np.testing.assert_array_equal(vectors(dataset, "fixed"), expected)
    now = data_files(dataset)
    assert {name: now[name] for name in raw} == raw
    assert not [name for name in everything_in(folder) - before if "checkpoint" in name]

    opened = lance.dataset(dataset)
    opened.create_index("fixed", index_type="IVF_FLAT", num_partitions=2, metric="dot")
    query = fixed.apply(np.load(folder / "text.npy")[:1], "text", "query")
    nearest = {"column": "fixed", "q": query[0], "k": 5, "nprobes": 2, "metric": "dot"}
    found = opened.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
    assert found == search(query, expected, 5, "inner_product")[0][0].tolist()

    assert "has a column 'fixed' already" in command(*words).err
    assert "--into cannot be given with --engine ray" in command(*words, "--engine", "ray").err
    assert "--groups cannot be given with --into" in command(*words, "--groups", "id").err
    ran = command("index", "drop-column", dataset, "--new-column", "fixed")
    assert ran.status == 0, ran.err
    assert lance.dataset(dataset).schema.names == ["id", "vector"]
    now = data_files(dataset)
    assert {name: now[name] for name in raw} == raw


KILLED = """
import os, signal, sys
import modgap
from modgap.engines import add_corrected_column
calls = []
def progress(step, done, total):
    calls.append(done)
    if len(sys.argv) > 2 and done >= int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
fixed = modgap.Correction.load(sys.argv[1] + "/c.safetensors")
add_corrected_column(
    sys.argv[1] + "/d.lance", fixed, "image", "fixed", batch_rows=50, progress=progress
)
print(len(calls))
"""


def test_a_killed_backfill_goes_on_where_it_was(folder):
    run = [sys.executable, "-c", KILLED, str(folder)]
    assert subprocess.run([*run, "400"], check=False).returncode == -signal.SIGKILL
    assert lance.dataset(folder / "d.lance").schema.names == ["id", "vector"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 8  # of twelve batches
    fixed = modgap.Correction.load(folder / "c.safetensors")
    expected = fixed.apply(np.load(folder / "image.npy"), "image")
    np.testing.assert_array_equal(vectors(folder / "d.lance", "fixed"), expected)
    assert not list(folder.glob(".*checkpoint*"))


def test_rows_of_another_modality_are_refused_and_nothing_is_written(folder):
    before = everything_in(folder)
    fixed = modgap.Correction.load(folder / "c.safetensors")
    with pytest.raises(InputValueError, match="The text rows are image rows"):
        add_corrected_column(folder / "d.lance", fixed, "text", "fixed")
    with pytest.raises(InputValueError, match="no column 'nope'"):
        add_corrected_column(folder / "d.lance", fixed, "image", "fixed", column="nope")
    with pytest.raises(InputError, match="cannot be used as a Lance dataset"):
        add_corrected_column(folder / "none.lance", fixed, "image", "fixed")
    with pytest.raises(InputValueError, match="no column 'fixed'"):
        drop_corrected_column(folder / "d.lance", "fixed")
    words = ("apply", folder / "c.safetensors", folder / "d.lance", "--modality", "image")
    assert "either -o or --into" in command(*words, "--into", "f", "-o", "x.npy").err
    assert "-o where to write" in command(*words).err
    assert everything_in(folder) == before


def test_a_row_without_a_vector_is_named(folder):
    rows = np.load(folder / "image.npy").tolist()
    rows[333] = None
    table = pa.table({"vector": pa.array(rows, pa.list_(pa.float32(), DIM))})
    lance.write_dataset(table, folder / "null.lance", max_rows_per_file=150)
    fixed = modgap.Correction.load(folder / "c.safetensors")
    with pytest.raises(InputError, match="row 333 is or holds a null"):
        add_corrected_column(folder / "null.lance", fixed, "image", "fixed")
    assert lance.dataset(folder / "null.lance").schema.names == ["vector"]


def test_hubs_go_by_row_numbers_as_in_a_file(folder):
    X, Y = np.load(folder / "image.npy"), np.load(folder / "text.npy")
    fixed = modgap.Calibrate(hubs=0.5).fit(X, Y).correction_
    assert add_corrected_column(folder / "d.lance", fixed, "image", "fixed", batch_rows=70) == N
    expected = fixed.apply(X, "image")
    np.testing.assert_allclose(vectors(folder / "d.lance", "fixed"), expected, rtol=1e-6)
