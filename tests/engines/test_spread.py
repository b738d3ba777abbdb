"""Work cut by shards gives what one process gives; an engine that does everything twice proves it.

Ray itself is in test_engines_ray.py.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import modgap
from command_line import DIM
from conftest import make_pairs
from engine_rows import TwiceEngine, assert_same, make_shards
from modgap import retrieval
from modgap.core.checks import InputValueError
from modgap.corrections import Procrustes
from modgap.engines import open_engine, retrieval_among_all, row_ranges, spread
from modgap.evaluation import evaluate_correction
from modgap.measures import measure


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def data(shards):
    return modgap.open_pair(*shards)


def test_measures_are_those_of_one_process(data):
    engine = TwiceEngine()
    steps: list[tuple[str, int, int]] = []
    found = measure(
        spread(data, engine), sample=300, seed=4, progress=lambda *one: steps.append(one)
    )
    assert_same(found, measure(data, sample=300, seed=4))
    assert engine.tasks > 8  # moments of eight shards, and rows of the samples
    assert len({done for name, done, _ in steps if name == "moments of image"}) >= 5


@pytest.mark.parametrize("method", [modgap.Calibrate(), Procrustes(), modgap.Calibrate(hubs=0.5)])
@pytest.mark.parametrize("paired", [True, False])
def test_corrections_are_those_of_one_process(data, method, paired):
    if not paired:
        labels = np.arange(900) // 3
        data = modgap.Modalities.of(dict(data.sides), groups={"image": labels, "text": labels})
    expected, found = (method.fit(one).correction_ for one in (data, spread(data, TwiceEngine())))
    rows = np.random.default_rng(0).normal(size=(20, DIM))
    for name in data.names:
        a, b = (one.map(name)(rows) for one in (expected, found))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_an_evaluation_is_that_of_one_process(data):
    fixed = modgap.Calibrate().fit(data).correction_
    expected, found = (
        evaluate_correction(one, correction=fixed, sample=60, seed=2)
        for one in (data, spread(data, TwiceEngine()))
    )
    assert_same(found, expected)
    assert found.fitted_on_these_rows == expected.fitted_on_these_rows


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_ranks_among_all_documents_are_those_of_retrieval(data, metric):
    expected = retrieval(data, metric=metric)
    found = retrieval_among_all(data, metric=metric, engine=TwiceEngine())
    assert found.ranks_x.tolist() == expected.ranks_x.tolist()
    assert found.ranks_y.tolist() == expected.ranks_y.tolist()
    some = retrieval_among_all(data, metric=metric, sample=40, seed=5)
    chosen = np.sort(np.random.default_rng(5).choice(900, 40, replace=False))
    assert some.ranks_x.tolist() == expected.ranks_x[chosen].tolist()


@pytest.mark.parametrize("method", [modgap.Calibrate(), modgap.Calibrate(hubs=0.5), Procrustes()])
def test_ranks_of_corrected_rows_are_those_of_retrieval(data, method):
    fixed = method.fit(data).correction_
    expected = retrieval(data, correction=fixed)
    found = retrieval_among_all(spread(data, TwiceEngine()), correction=fixed)
    assert found.metric == expected.metric
    assert found.ranks_x.tolist() == expected.ranks_x.tolist()
    assert found.ranks_y.tolist() == expected.ranks_y.tolist()


def test_equal_scores_and_groups_are_ranked_as_in_memory():
    rng = np.random.default_rng(1)
    X, Y = (rng.integers(1, 4, size=(n, 3)).astype(float) for n in (80, 130))
    groups = rng.integers(0, 30, 80), rng.integers(0, 40, 130)
    data = modgap.Modalities.of(X, Y, groups=groups)
    expected = retrieval(data, group_duplicates=False)
    found = retrieval_among_all(data, engine=TwiceEngine())
    both = np.intersect1d(*groups)
    assert found.ranks_x.tolist() == expected.ranks_x[np.isin(groups[0], both)].tolist()
    assert found.ranks_y.tolist() == expected.ranks_y[np.isin(groups[1], both)].tolist()


def test_queries_of_their_own_are_ranked_as_in_memory():
    X, Y = make_pairs(90, 8)
    queries = Y[10:40] + 0.2
    data = modgap.Modalities.of(X, Y).with_queries({"text": queries}, {"text": np.arange(10, 40)})
    found, expected = retrieval_among_all(data), retrieval(data)
    assert found.ranks_y.tolist() == expected.ranks_y.tolist()
    assert found.ranks_x.tolist() == expected.ranks_x.tolist()


def test_large_shards_are_cut_and_small_ones_are_not(shards, monkeypatch):
    image = modgap.open_embeddings(shards[0])
    assert len(row_ranges.pieces(image.matrix)) == 5
    monkeypatch.setattr(row_ranges, "PIECE_BYTES", 50 * DIM * 2)
    cut = [piece for piece, _ in row_ranges.pieces(image.matrix)]
    firsts = [first for _, first in row_ranges.pieces(image.matrix)]
    assert firsts[:6] == [0, 50, 100, 150, 180, 230]
    assert [piece.shape[0] for piece in cut[:4]] == [50, 50, 50, 30]
    np.testing.assert_array_equal(np.concatenate([p.rows() for p in cut]), image.rows())
    np.testing.assert_array_equal(cut[2].take(np.array([3, 1])), image.rows()[[103, 101]])
    part = row_ranges.range_of(image.matrix.shards(), 170, 400)
    np.testing.assert_array_equal(part.rows(), image.rows()[170:400])
    held = row_ranges.pieces(modgap.Modalities.of(np.ones((120, DIM)), np.ones((3, DIM))).x.matrix)
    assert len(held) > 1


def test_ranges_of_parquet_are_read_in_batches_of_one_size(tmp_path):
    rows = np.arange(600.0).reshape(100, 6)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"embedding": rows.tolist()}), path, row_group_size=40)
    matrix = modgap.open_embeddings(path).matrix
    part = row_ranges.range_of(matrix.shards(), 30, 90)
    np.testing.assert_array_equal(part.rows(), rows[30:90])
    assert [len(batch) for batch in part.batches(25)] == [25, 25, 10]


@pytest.mark.parametrize("name", ["spark", "ray:", "ray://", "local:1", ""])
def test_engines_that_nobody_knows_are_refused(name):
    with pytest.raises(InputValueError, match="engine must be local, ray, ray:HOST:PORT"):
        open_engine(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ray:nowhere", "must be HOST:PORT"),
        ("ray:127.0.0.1:9", "no cluster of Ray at 127.0.0.1:9"),
        ("ray://127.0.0.1:9", "no cluster of Ray at ray://127.0.0.1:9"),
    ],
)
def test_a_cluster_that_does_not_answer_is_refused_at_once(name, sentence):
    pytest.importorskip("ray")
    with pytest.raises(InputValueError, match=sentence):
        open_engine(name)


def test_without_ray_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'modgap\[ray\]'"):
        open_engine("ray")
