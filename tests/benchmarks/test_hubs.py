"""The benchmark of hubs, small: baselines against loops, and its metrics against the library's."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import hub_baselines as baselines
import hubs
from conftest import unit
from modgap import load_digits
from modgap.corrections import ExpectedWrong
from modgap.evaluation import retrieval


@pytest.fixture
def rows(rng):
    """Queries, documents, a bank and its documents."""
    mean = rng.normal(size=6)
    return tuple(unit(rng.normal(size=(n, 6)) + mean) for n in (7, 9, 30, 25))


def test_qb_norm_divides_by_the_bank_where_the_nearest_document_is_one_of_its(rows):
    Q, D, bank, _ = rows
    found = baselines.qb_norm(*rows)
    firsts = {int(np.argmax([b @ d for d in D])) for b in bank}
    for i, q in enumerate(Q):
        scores = [q @ d for d in D]
        if int(np.argmax(scores)) in firsts:
            scores = [
                math.exp(20 * s) / sum(math.exp(20 * (b @ d)) for b in bank)
                for s, d in zip(scores, D, strict=True)
            ]
        assert np.argsort(found[i]).tolist() == np.argsort(scores).tolist()


def test_csls_subtracts_the_mean_of_the_nearest_of_both_sides(rows):
    Q, D, bank, _ = rows
    found = baselines.csls(*rows, k=4)
    for i, q in enumerate(Q):
        around_q = np.mean(sorted((q @ d for d in D), reverse=True)[:4])
        for j, d in enumerate(D):
            around_d = np.mean(sorted((d @ b for b in bank), reverse=True)[:4])
            assert found[i, j] == pytest.approx(2 * q @ d - around_q - around_d)


def test_csls_ranks_as_nnn_with_one_half(rows):
    ranked = [np.argsort(f(*rows), axis=1).tolist() for f in (baselines.csls, baselines.nnn)]
    assert ranked[0] == ranked[1]


def test_dbsn_brings_documents_and_those_of_the_bank_to_equal_sums(rows):
    Q, D, bank, bank_documents = rows
    every = np.vstack([D, bank_documents])
    factor = np.ones(len(every))
    kernel = np.exp(every @ bank.T / 0.1)
    for _ in range(10):
        columns = 1 / (kernel * factor[:, None]).sum(axis=0)
        factor = 1 / (kernel * columns).sum(axis=1)
    expected = Q @ D.T + 0.1 * np.log(factor[: len(D)])
    np.testing.assert_allclose(baselines.dbsn(*rows, temperature=0.1), expected, atol=1e-9)


@pytest.mark.parametrize("asking", [0, 1])
def test_recall_with_hubs_is_that_of_merging_by_expected_wrong_results(asking):
    digits = load_digits()
    rng = np.random.default_rng(1)
    # Captions repeat: moved a little, so that ranks have no ties for rounding to break.
    rows = (unit(side + 1e-6 * rng.normal(size=side.shape)) for side in (digits.X, digits.Y))
    half = hubs.Half(tuple(rows), digits.groups)
    fit, rest = half.parts(np.random.default_rng(0))
    names = ("first", "second")
    correction = (
        ExpectedWrong(0.25)
        .fit(*fit.rows, names=names, queries=names[asking], bank=fit.bank(asking))
        .correction_
    )
    options = {"groups": rest.groups, "names": names, "correction": correction}
    options["group_duplicates"] = False  # the benchmark takes rows as given
    (expected,) = retrieval(*rest.rows, k=1, **options).recall().values()
    score = hubs.METHODS["hubs, α = ¼"](fit, asking, rng)
    assert hubs.recall(score, rest, asking) == pytest.approx(
        expected, abs=2e-3
    )  # a bank in float16


def test_one_split_measures_every_method_both_ways(rng):
    rows = [unit(rng.normal(size=(120, 8))).astype(np.float32) for _ in range(2)]
    found = hubs.one_split(hubs.Half(tuple(rows), (np.arange(120),) * 2), seed=0)
    assert found.shape == (len(hubs.METHODS), 2)
    assert np.all(np.isfinite(found))


def test_the_python_of_the_page_runs(rng):
    page = (hubs.PAGE.parents[1] / "concepts" / "hubs.md").read_text(encoding="utf-8")
    labels = np.repeat(np.arange(30), 4)
    class_texts = rng.normal(size=(30, 12)) + 1
    images = class_texts[labels] + rng.normal(size=(120, 12)) - 3
    given = {"images": images, "class_texts": class_texts, "labels": labels}
    given["captions"], given["query_log"] = (
        class_texts[labels] + 0.1 * rng.normal(size=(120, 12)) for _ in range(2)
    )
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        exec(block, given)
    assert given["documents"].shape == given["queries"].shape == (120, 13)
    assert given["found"].gain.n_groups == 60
