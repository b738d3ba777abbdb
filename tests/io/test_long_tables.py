"""Long tables: one row a document, a modality column and an id; in memory and in files."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import modgap
from command_line import modgap as command
from modgap import Modalities
from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import PairingWarning, from_table, open_embeddings, open_modality, open_pair

N, DIM = 10, 4
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, DIM)).astype(np.float32)
Y = (X + 1 + 0.1 * RNG.normal(size=(N, DIM))).astype(np.float32)
ORDER = RNG.permutation(2 * N)


def long(**changes):
    """Images and texts of the same ids, shuffled together."""
    columns = {
        "modality": ["image"] * N + ["text"] * N,
        "id": [*range(N), *range(N)],
        "caption": [None] * N + [f"text {i}" for i in range(N)],
        "embedding": [*X, *Y],
    }
    return pd.DataFrame({**columns, **changes}).iloc[ORDER]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet"])
def test_rows_are_told_apart_by_modality_and_paired_by_id(tmp_path, kind):
    table = pa.Table.from_pandas(long(), preserve_index=False)
    if kind == "polars":
        table = pl.from_arrow(table)
    elif kind == "pandas":
        table = long()
    elif kind == "parquet":
        pq.write_table(table, tmp_path / "long.parquet", row_group_size=3)
        table = tmp_path / "long.parquet"
    data = Modalities.of(table)
    assert data.names == ("image", "text")
    assert data.pairing == "by id: 10 of 10 image rows and 10 of 10 text rows match"
    assert modgap.measures.margin(table) == modgap.measures.margin(X, Y)
    assert modgap.retrieval(table).recall() == modgap.retrieval(X, Y).recall()
    places = data.y.ids.astype(int)
    assert data.y.captions.tolist() == [f"text {i}" for i in places]
    assert np.array_equal(np.concatenate(list(data.y.batches(size=3))), Y[places])
    assert np.array_equal(data.y.take([4, 0]), Y[places[[4, 0]]])
    assert np.array_equal(open_modality(table, "text").rows(), data.Y)
    assert np.array_equal(open_embeddings(table, modality="image").rows(), data.X)


def test_columns_may_have_other_names():
    table = long().rename(columns={"modality": "kind", "id": "doc", "embedding": "vec"})
    table["other"] = table["vec"]
    data = from_table(table, modality="kind", id="doc", embedding="vec")
    assert data.pairing.startswith("by id: 10 of 10")
    also = open_pair(table.rename(columns={"doc": "id"}), modality_column="kind", x_column="vec")
    assert also.pairing == data.pairing
    with pytest.raises(InputValueError, match=r"has no column 'kinds'.*Did you mean 'kind'"):
        from_table(table, modality="kinds")
    with pytest.raises(InputValueError, match=r"has no column 'docs' of ids.*Did you mean 'doc'"):
        from_table(table, modality="kind", id="docs", embedding="vec")
    with pytest.raises(InputValueError, match="more than one matrix: 'vec', 'other'"):
        from_table(table, modality="kind", id="doc")


def test_modalities_are_chosen_and_ordered_by_name():
    three = pd.concat([long(), pd.DataFrame({"modality": "audio", "id": range(N),
                                             "embedding": list(X - 1)})])  # fmt: skip
    assert Modalities.of(three).names == ("image", "audio", "text")
    assert from_table(three, names=("text", "audio")).names == ("text", "audio")
    assert Modalities.of(three, names=("audio", "text")).names == ("audio", "text")
    by_name = Modalities.of({"text": three, "image": three})
    assert np.array_equal(by_name.sides["text"].rows(), Modalities.of(long()).Y)
    with pytest.raises(InputValueError, match=r"has no rows of 'video'.*'image', 'audio', 'text'"):
        from_table(three, names=("image", "video"))


def test_several_texts_of_an_image_are_its_group():
    table = long(id=[*range(N), *np.repeat(range(N // 2), 2)])
    data = Modalities.of(table)
    assert (data.n_groups, data.paired) == (N // 2, True)


def test_an_id_on_several_rows_of_both_modalities_is_refused():
    table = long(id=[*[0, 0], *range(2, N), *[0, 0], *range(2, N)])
    with pytest.raises(InputValueError, match=r"The id '0' is on more than one row of image and"):
        Modalities.of(table)
    assert Modalities.of(table, groups="id").n_groups == N - 1
    assert not Modalities.of(table, paired=False).paired


def test_rows_without_ids_in_common_are_not_paired_by_their_place():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Modalities.of(long().drop(columns="id")).paired
    with pytest.warns(PairingWarning, match="No id of image is an id of text .* not paired"):
        assert not Modalities.of(long(id=range(2 * N))).paired
    assert Modalities.of(long().drop(columns="id"), paired=True).pairing == "row by row"
    with pytest.raises(InputValueError, match="It must be known which rows of image and text"):
        modgap.measures.margin(long().drop(columns="id"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"modality": [None] + ["image"] * (2 * N - 1)}, InputValueError, "missing in row"),
        ({"modality": ["image"] * 2 * N}, InputValueError, "says image throughout"),
        ({"modality": [f"m{i}" for i in range(4 * N)]}, InputValueError, "20 are no modalit"),
        ({"modality": np.linspace(0, 1, 2 * N)}, InputTypeError, "must name the modality"),
        ({"modality": ["a.b", "c"] * N}, InputValueError, "contain no dot"),
        ({"embedding": [*X, *Y[:-1], Y[0, :2]]}, InputValueError, "same length"),
        ({"embedding": [*X, *Y[:-1], None]}, InputValueError, "holds a null"),
    ],
)
def test_contradictions_are_refused(change, error, message):
    n = len(next(iter(change.values())))
    table = pd.concat([long()] * (n // (2 * N))).assign(**change)
    table = table.reset_index(drop=True)
    with pytest.raises(error, match=message):
        Modalities.of(table, paired=False).check()


def test_rows_of_several_modalities_are_not_taken_for_one():
    with pytest.raises(InputValueError, match=r"holds rows of image and text, where one modality"):
        modgap.measures.cone(long())
    correction = modgap.Calibrate().fit(long()).correction_
    expected = correction.apply(Modalities.of(long()).Y, "text")
    assert np.array_equal(correction.apply(long(), "text"), expected)
    # A column of that name that says something else: kinds of scans.
    scans = pd.DataFrame({"modality": ["CT", "MRI"] * (N // 2), "embedding": list(X)})
    assert Modalities.of(scans, Y).pairing == "row by row"
    assert modgap.measures.norms(scans).mean == modgap.measures.norms(X).mean


def test_the_command_line_reads_long_tables(tmp_path):
    place = tmp_path / "long.parquet"
    long().rename(columns={"modality": "kind"}).to_parquet(place)
    told = command("measure", place, "--modality-column", "kind", "--json")
    assert told.status == 0, told.err
    assert "paired by id: 10 of 10" in told.err
    refused = command("measure", f"image={place}", f"text={place}", "--modality-column", "kind")
    assert refused.status == 2
    assert "--modality-column is for one table" in refused.err
