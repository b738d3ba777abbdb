"""Tables of pandas, Polars, Arrow and Hugging Face in memory, and columns of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import modgap
from modgap import Embeddings, Modalities
from modgap.core.checks import InputError, InputTypeError, InputValueError
from modgap.io import open_embeddings, open_pair

N, DIM = 12, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, DIM)).astype(np.float32)
Y = (X + 1 + 0.1 * RNG.normal(size=(N, DIM))).astype(np.float32)
IDS = [f"row {i}" for i in range(N)]
SHUFFLED = RNG.permutation(N)


def from_pandas(columns):
    return pd.DataFrame(columns)


def from_polars(columns):
    return pl.DataFrame({k: np.stack(v) if is_vectors(v) else v for k, v in columns.items()})


def from_arrow(columns):
    return pa.table({k: pa.array([list(row) for row in v], pa.list_(pa.float32()))
                     if is_vectors(v) else v for k, v in columns.items()})  # fmt: skip


def from_fixed(columns):
    return pa.table({k: pa.FixedSizeListArray.from_arrays(np.concatenate(v), DIM)
                     if is_vectors(v) else v for k, v in columns.items()})  # fmt: skip


def from_record_batch(columns):
    return from_arrow(columns).to_batches()[0]


def from_datasets(columns):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    features = datasets.Features(
        {k: datasets.Sequence(datasets.Value("float32")) if is_vectors(v)
         else datasets.Value("string") for k, v in columns.items()}
    )  # fmt: skip
    return datasets.Dataset.from_dict(columns, features=features)


def is_vectors(values):
    return isinstance(values[0], np.ndarray)


KINDS = [from_pandas, from_polars, from_arrow, from_fixed, from_record_batch, from_datasets]
every_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__[5:])


def both():
    return {"id": IDS, "caption": ["a", "b"] * (N // 2), "image": list(X), "text": list(Y)}


@every_kind
def test_a_table_with_a_column_for_each_modality_is_both(make):
    data = Modalities.of(make(both()))
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.Y, Y)
    assert data.X.dtype == np.float32
    assert data.x.ids.tolist() == IDS
    assert (data.names, data.pairing) == (("image", "text"), "row by row, the ids agree")
    assert modgap.gap_distance(make(both())) == modgap.gap_distance(X, Y)


@every_kind
def test_rows_of_two_tables_are_paired_by_id(make):
    images = make({"id": IDS, "embedding": list(X)})
    texts = make({"id": [IDS[i] for i in SHUFFLED], "vector": list(Y[SHUFFLED])})
    data = Modalities.of(images, texts)
    assert data.pairing == "by id: 12 of 12 image rows and 12 of 12 text rows match"
    assert modgap.measures.margin(images, texts) == modgap.measures.margin(X, Y)
    assert modgap.retrieval(images, texts).recall() == modgap.retrieval(X, Y).recall()


@every_kind
def test_rows_of_a_table_are_read_in_batches_and_by_number(make):
    rows = open_embeddings(make({"id": IDS, "embedding": list(X)}))
    assert [len(batch) for batch in rows.batches(size=5)] == [5, 5, 2]
    assert np.array_equal(rows.take([7, 2, 7]), X[[7, 2, 7]])
    part = rows.subset(np.array([3, 1]))
    assert part.ids.tolist() == [IDS[3], IDS[1]]


@every_kind
def test_a_table_without_rows_is_refused(make):
    table = make(both())
    empty = table.select([]) if hasattr(table, "with_format") else table[:0]
    with pytest.raises(InputValueError, match="must have at least one row, got none"):
        modgap.measure(empty)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(list(X)),
        pd.Series(X.tolist()),
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array(X.tolist(), pa.list_(pa.float32())))),
        pl.Series(X),
        pl.Series(X.tolist(), dtype=pl.List(pl.Float32)),
        pa.array(X.tolist(), pa.list_(pa.float32())),
        pa.chunked_array([pa.array(part.tolist(), pa.large_list(pa.float32()))
                          for part in (X[:5], X[5:])]),
        pa.FixedShapeTensorArray.from_numpy_ndarray(X),
    ],
    ids=["pandas arrays", "pandas lists", "pandas Arrow", "polars Array", "polars List", "Arrow",
         "Arrow chunks", "Arrow tensors"],
)  # fmt: skip
def test_a_column_of_vectors_is_rows(column):
    assert np.allclose(modgap.measures.norms(column).mean, modgap.measures.norms(X).mean)
    assert np.allclose(Modalities.of(column, Y).X, X)


def test_half_precision_stays_half_precision():
    rows = open_embeddings(pd.DataFrame({"embedding": list(X.astype(np.float16))}))
    assert rows.dtype == np.float16
    assert np.array_equal(rows.rows(), X.astype(np.float16))


def test_a_table_with_a_column_for_each_number_is_a_matrix():
    for X_table, Y_table in (
        (pd.DataFrame(X), pd.DataFrame(Y)),
        (pl.DataFrame(X), pl.DataFrame(Y)),
        (pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(Y, columns=list("abcd"))),
    ):
        data = Modalities.of(X_table, Y_table)
        assert np.array_equal(data.X, X)
        assert np.array_equal(data.Y, Y)
    wide = np.hstack([X, X, Y, Y])
    names = [f"{side}_{i}" for side in ("image", "text") for i in range(2 * DIM)]
    # Sorted as text, the tenth column would come before the second.
    frame = pd.DataFrame(wide, columns=names)[sorted(names)].assign(id=IDS)
    data = Modalities.of(frame)
    assert np.array_equal(data.X, wide[:, : 2 * DIM])
    levels = pd.MultiIndex.from_product([["image", "text"], range(DIM)])
    assert np.array_equal(Modalities.of(pd.DataFrame(np.hstack([X, Y]), columns=levels)).Y, Y)


def test_a_few_numbers_beside_other_columns_are_no_matrix():
    frame = pd.DataFrame({"name": ["a", "b"], "score_1": [0.1, 0.2], "score_2": [0.3, 0.4]})
    with pytest.raises(InputValueError, match="must hold a matrix of floats"):
        open_embeddings(frame)


def test_an_index_with_a_name_is_a_column():
    frame = pd.DataFrame({"embedding": list(X)}, index=pd.Index(IDS, name="id"))
    rows = open_embeddings(frame)
    assert rows.ids.tolist() == IDS


def test_groups_and_columns_are_named_as_in_a_file():
    frame = pd.DataFrame(
        {"a": list(X), "b": list(Y), "image_group": range(N), "text_group": [*range(1, N), 0]}
    )
    data = open_pair(frame, x_column="a", y_column="b")
    assert (data.pairing, data.n_groups) == ("by group", N)
    with pytest.raises(InputValueError, match=r"does not say which .*x_column='a', y_column='b'"):
        modgap.measure(frame)
    one = pd.DataFrame({"vector": list(X), "who": range(N)})
    assert Modalities.of(one, one, groups="who").pairing == "by group"
    with pytest.raises(InputValueError, match="Did you mean 'who'"):
        Modalities.of(one, one, groups="whom")


def ragged():
    return [*X[:-1], X[0, :2]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"v": ragged()}), "row 0 of the column has 4, row 11 has 2"),
        (pl.Series([row.tolist() for row in ragged()]), "row 0 of the column has 4, row 11 has 2"),
        (pd.Series([*X[:-1], None]), "row 11 is or holds a null"),
        (pd.Series([None, *X[1:]]), "row 0 is or holds a null"),
        (pl.Series([*X[:-1].tolist(), None]), "row 11 is or holds a null"),
        (pa.table({"v": [*X[:-1].tolist(), [1.0, None, 1.0, 1.0]]}), "row 11 is or holds a null"),
        (pd.DataFrame(X).mask(pd.DataFrame(X) == X[3, 1]), "row 3 is or holds a null"),
        (pd.DataFrame({"v": [X, X]}), "Make each entry one vector of floats"),
        (pd.DataFrame({"v": [[1.0], "x"]}), "Make each entry one vector of floats"),
        (pd.DataFrame({"v": [["a"], ["b"]]}), "must hold float16, float32 or float64, got object"),
        (pd.DataFrame({"v": [[1, 2], [3, 4]]}), "must hold float16, float32 or float64, got int64"),
        (pd.DataFrame(X, columns=list("aabb")), "must name every column once"),
        (pd.Series(["a cat", "a dog"]), "must be a matrix with one row per item"),
        (pd.Index([1.0, 2.0]), "must be a table or a column that Arrow reads"),
        (pl.LazyFrame({"v": X.tolist()}), r"Call \.collect\(\)"),
        (pyarrow.dataset.dataset(pa.table({"v": X.tolist()})), r"Call \.to_table\(\)"),
        (pa.schema([("v", pa.float32())]), "must be a table or a column that Arrow reads"),
    ],
)
def test_what_a_table_lacks_is_said_in_one_sentence(table, message):
    with pytest.raises(InputError, match=message) as refused:
        modgap.measures.norms(table)
    assert "\n" not in str(refused.value)


def test_splits_of_a_dataset_and_streams_are_asked_for():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = from_datasets(both())
    with pytest.raises(InputTypeError, match=r"holds the splits 'train', 'test'.*dataset\['train'"):
        modgap.measure(datasets.DatasetDict({"train": rows, "test": rows}))
    with pytest.raises(InputTypeError, match=r"Dataset\.from_list"):
        modgap.measure(rows.to_iterable_dataset())
    shuffled = rows.with_format("torch").shuffle(seed=0)
    assert modgap.measures.margin(shuffled) == modgap.measures.margin(X, Y)


def test_columns_of_a_dataset_are_rows_in_its_order():
    rows = from_datasets(both()).shuffle(seed=0)
    assert modgap.measures.margin(rows["image"], rows["text"]) == modgap.measures.margin(X, Y)
    assert not np.array_equal(open_embeddings(rows["image"]).rows(), X)


def test_rows_that_a_table_holds_otherwise_are_told_how_to_read_them(tmp_path):
    wide = pd.DataFrame(np.hstack([X, Y])).rename(columns=str)
    wide.to_parquet(tmp_path / "wide.parquet")
    with pytest.raises(InputValueError, match=r"read in memory: pass pandas\.read_parquet"):
        modgap.measure(tmp_path / "wide.parquet")
    written = pd.DataFrame({"id": IDS, "image": [str(row.tolist()) for row in X]})
    with pytest.raises(InputValueError, match=r"table\['image'\]\.map\(json\.loads\)"):
        modgap.measure(written)


def test_columns_that_nobody_reads_do_no_harm():
    odd = pd.DataFrame({**both(), "odd": [object() if i else {"a": 1} for i in range(N)]})
    assert modgap.gap_distance(odd) == modgap.gap_distance(X, Y)


def test_tensors_in_the_cells_of_a_table_are_vectors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    cells = [torch.tensor(row, requires_grad=True) for row in X]
    assert np.array_equal(open_embeddings(pd.Series(cells)).rows(), X)


def test_short_reprs_say_what_there_is():
    data = Modalities.of(pd.DataFrame(both()))
    assert repr(data) == "Modalities(image 12 × 4, text 12 × 4; paired row by row, the ids agree)"
    assert repr(data.x) == "Embeddings(pandas DataFrame: 12 × 4 float32; ids, captions)"
    large = Modalities.of(np.ones((5000, 2)), np.ones((5000, 2)), groups=(range(5000),) * 2)
    assert repr(large) == "Modalities(image 5,000 × 2, text 5,000 × 2; paired by group)"
    apart = Modalities.of(X, Y[:3]).with_queries({"text": Y[:5]})
    assert repr(apart) == "Modalities(image 12 × 4, text 3 × 4, text queries 5 × 4; not paired)"
    assert repr(Embeddings.from_array(X)) == "Embeddings(array: 12 × 4 float32)"
