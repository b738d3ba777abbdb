from __future__ import annotations

import numpy as np

import modgap
from conftest import make_many, make_pairs
from modgap.io import Embeddings
from modgap.measures.profile import CosineHistograms


def by_kind(histograms: CosineHistograms) -> dict[str, np.ndarray]:
    within_x, within_y = histograms.within
    found = {"within_x": within_x, "within_y": within_y, "others": histograms.others}
    if histograms.matching is not None:
        found["matching"] = histograms.matching
    return found


def counted(histograms: CosineHistograms) -> dict[str, int]:
    return {kind: int(counts.sum()) for kind, counts in by_kind(histograms).items()}


def test_cosine_histograms_hold_every_pair_of_rows_once(pairs):
    X, Y = pairs
    n = len(X)
    found = counted(modgap.measures.profile(X, Y).cosines)
    assert found == {
        "within_x": n * (n - 1) // 2,
        "within_y": n * (n - 1) // 2,
        "others": n * (n - 1),
        "matching": n,
    }


def test_cosine_histograms_agree_with_loops(pairs):
    X, Y = pairs
    found = modgap.measures.profile(X, Y).cosines
    U, V = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    upper = np.triu_indices(len(U), 1)
    cosines = {
        "within_x": (U @ U.T)[upper],
        "within_y": (V @ V.T)[upper],
        "matching": np.sum(U * V, axis=1),
        "others": (U @ V.T)[~np.eye(len(U), dtype=bool)],
    }
    for name, values in cosines.items():
        expected, _ = np.histogram(values, found.edges)
        # A cosine within rounding of an edge may fall on either side of it.
        assert np.abs(np.cumsum(expected) - np.cumsum(by_kind(found)[name])).max() <= 1


def test_groups_decide_which_cosines_are_matches():
    X, Y = make_pairs(40)
    shuffled = np.random.default_rng(3).permutation(40)
    plain = modgap.measures.profile(X, Y).cosines
    grouped = modgap.measures.profile(X, Y[shuffled], groups=(np.arange(40), shuffled)).cosines
    np.testing.assert_array_equal(plain.matching, grouped.matching)


def test_without_pairs_no_cosine_is_a_match(pairs):
    X, Y = pairs
    found = modgap.measures.profile(X[:20], Y).cosines
    assert found.matching is None
    assert found.others.sum() == 20 * len(Y)


def test_features_are_those_of_the_measures(pairs):
    X, Y = pairs
    found = modgap.measures.profile(X, Y).features
    np.testing.assert_allclose(found.separability, modgap.measures.separability(X, Y), rtol=1e-12)
    for place, rows in enumerate((X, Y)):
        np.testing.assert_allclose(found.variance[place], rows.var(axis=0), rtol=1e-9)
        np.testing.assert_allclose(
            found.offset[place], modgap.measures.feature_offset(rows), rtol=1e-12
        )
        np.testing.assert_allclose(
            found.dominance[place], modgap.measures.off_diagonal_dominance(rows), rtol=1e-12
        )


def test_radii_and_conformity_count_every_row(pairs):
    X, Y = pairs
    found = modgap.measures.profile(X, Y)
    radii = np.linalg.norm(X - X.mean(axis=0), axis=1)
    np.testing.assert_array_equal(found.radii.sides[0], np.histogram(radii, found.radii.edges)[0])
    typical = modgap.measures.conformity(Y)
    expected, _ = np.histogram(typical, found.conformity.edges)
    np.testing.assert_array_equal(found.conformity.sides[1], expected)


def test_typical_rows_are_those_of_highest_and_lowest_conformity(pairs):
    X, Y = pairs
    typical, _ = modgap.measures.profile(X, Y, typical=3).typical
    order = np.argsort(modgap.measures.conformity(X))
    assert typical.most.tolist() == order[::-1][:3].tolist()
    assert typical.least.tolist() == order[:3].tolist()
    np.testing.assert_allclose(typical.most_values, modgap.measures.conformity(X)[typical.most])


def test_streamed_rows_give_the_profile_of_the_whole(pairs, monkeypatch):
    X, Y = pairs
    x, y = (Embeddings.from_array(rows) for rows in (X, Y))
    whole = modgap.measures.profile(X, Y).to_dict()
    batches = Embeddings.batches
    monkeypatch.setattr(Embeddings, "batches", lambda self, size=7: batches(self, 7))
    streamed = modgap.measures.profile(x, y).to_dict()
    for name in ("radii", "conformity", "cosines"):
        for key in ("x", "y", "within_x"):
            assert whole[name].get(key) == streamed[name].get(key)
    np.testing.assert_allclose(
        whole["features"]["separability"], streamed["features"]["separability"], rtol=1e-10
    )


def test_more_rows_than_the_sample_are_sampled_by_seed(pairs):
    X, Y = pairs
    first, again, other = (
        modgap.measures.profile(X, Y, sample=20, seed=seed).cosines.within[0] for seed in (1, 1, 2)
    )
    assert first.sum() == 20 * 19 // 2
    np.testing.assert_array_equal(first, again)
    assert len(first) != len(other) or (first != other).any()


def test_rows_that_do_not_vary_leave_their_distributions_out():
    X = np.ones((5, 3))
    found = modgap.measures.profile(X, 2 * X)
    assert found.cosines is None
    assert found.radii is None
    assert found.conformity is None
    assert found.features.separability.shape == (3,)


def test_of_three_modalities_each_has_its_distributions_and_every_two_their_cosines():
    data = make_many(40)
    rows = [side.rows() for side in data.sides.values()]
    found = modgap.measures.profile(data)
    assert found.features.separability is None
    for place, one in enumerate(rows):
        np.testing.assert_allclose(found.features.variance[place], one.var(axis=0), rtol=1e-9)
        radii = np.linalg.norm(one - one.mean(axis=0), axis=1)
        np.testing.assert_array_equal(
            found.radii.sides[place], np.histogram(radii, found.radii.edges)[0]
        )
        order = np.argsort(modgap.measures.conformity(one))
        assert found.typical[place].least[0] == order[0]
        assert found.cosines.within[place].sum() == 40 * 39 // 2
    assert found.cosines.matching.sum() == 3 * 40
    assert found.cosines.others.sum() == 3 * 40 * 39
    written = found.to_dict()
    assert len(written["radii"]["sides"]) == len(written["cosines"]["within"]) == 3
