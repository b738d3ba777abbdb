"""Mixed retrieval in full: targets of both modalities, several modalities, and the curve."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conftest import make_pairs
from modgap.corrections import Affine, Calibrate, Correction
from modgap.evaluation import mixed_curve, mixed_retrieval


def several(n=20, d=6, copies=(1, 3, 2), seed=0):
    """Rows of three modalities that share a latent, several rows per group."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    rows, groups = {}, {}
    for name, count in zip(("image", "text", "video"), copies, strict=True):
        offset = rng.normal(size=d)
        groups[name] = np.repeat(np.arange(n), count)
        rows[name] = latent[groups[name]] + 0.3 * rng.normal(size=(n * count, d)) + offset
    return rows, groups


def once(rows, groups, shares, k=10, **options):
    """One draw of an index with these shares, asked by every row."""
    options = {"targets": "both", "repeats": 1, **options}
    return mixed_retrieval(rows, k=k, groups=groups, shares=shares, **options)


def by_hand(rows, groups, held, targets, k, home):
    """Each query's line: (modality, group, NDCG@10, hit, wrong results by modality)."""
    names = list(rows)
    index = [(name, i) for name in names for i in held[name]]
    lines = []
    for place, name in enumerate(names):
        for i, q in enumerate(rows[name]):
            g = groups[name][i]
            others = [entry for entry in index if entry != (name, i)]
            matches = [e for e in others if groups[e[0]][e[1]] == g]
            if home[g] < 0 or not matches or (targets == "other" and home[g] == place):
                continue

            def cosine(entry, q=q):
                d = rows[entry[0]][entry[1]]
                return float(q @ d) / math.sqrt(float(q @ q) * float(d @ d))

            ranked = sorted(others, key=cosine, reverse=True)
            hits = [groups[e[0]][e[1]] == g for e in ranked]
            gain = sum(hit / math.log2(r + 2) for r, hit in enumerate(hits[:10]))
            ideal = sum(1 / math.log2(r + 2) for r in range(min(10, len(matches))))
            wrong = [e[0] for e, hit in zip(ranked[:k], hits[:k], strict=True) if not hit]
            counts = [wrong.count(n) for n in names]
            lines.append((name, g, gain / ideal, float(any(hits[:k])), counts))
    return lines


@pytest.mark.parametrize("targets", ["other", "both"])
@pytest.mark.parametrize("k", [3, 10])
def test_three_modalities_are_searched_as_by_hand(targets, k):
    rows, groups = several()
    shares = {"image": 0.2, "text": 0.7, "video": 0.1}
    found = once(rows, groups, shares, k, targets=targets, seed=3)
    home = np.full(20, -1)
    for queries in found.queries:
        home[queries.group] = queries.target
    assert sorted(np.bincount(home).tolist()) == [2, 4, 14]
    held = {
        name: [i for i, g in enumerate(groups[name]) if home[g] == place]
        for place, name in enumerate(rows)
    }
    lines = by_hand(rows, groups, held, targets, k, home)
    for queries in found.queries:
        mine = [line for line in lines if line[0] == queries.modality]
        assert queries.group.tolist() == [line[1] for line in mine]
        np.testing.assert_allclose(queries.ndcg, [line[2] for line in mine], atol=1e-12)
        assert queries.hit.tolist() == [line[3] for line in mine]
        assert queries.non_relevant_by.tolist() == [line[4] for line in mine]
        sizes = np.array([len(held[name]) for name in rows])
        np.testing.assert_allclose(
            queries.corpus_share, np.tile(sizes / sizes.sum(), (len(mine), 1))
        )


def test_a_query_is_never_among_its_own_results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    Y = np.repeat(X, 2, axis=0) + 1e-3 * rng.normal(size=(60, 5))
    groups = np.arange(30), np.repeat(np.arange(30), 2)
    found = mixed_retrieval(X, Y, groups=groups, targets="both", x_share=0.0, repeats=1)
    texts = found.queries[1]
    # Every text finds the group's other text first, not itself.
    assert texts.ndcg.tolist() == [1.0] * 60
    assert len(found.queries[0].ndcg) == 30


def test_rows_without_another_match_are_not_asked():
    X, Y = make_pairs(n=12)
    found = mixed_retrieval(X, Y, targets="both", repeats=1)
    other = mixed_retrieval(X, Y, targets="other", repeats=1)
    assert found.to_dict() == other.to_dict()


def test_groups_that_lack_a_modality_are_in_the_index_and_not_asked():
    rows, groups = several()
    lacking = groups["video"] >= 5
    rows["video"], groups["video"] = rows["video"][lacking], groups["video"][lacking]
    shares = {"image": 1, "text": 1, "video": 1}
    found = once(rows, groups, shares, seed=1)
    for queries in found.queries:
        assert queries.group.min() >= 5
    total = 1 / found.queries[0].corpus_share[0]  # in units of the index
    assert np.allclose(found.queries[0].corpus_share.sum(axis=1), 1)
    assert np.all(total > 1)


def test_the_curve_is_a_u_with_a_gap_and_flat_without():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(60, 16))
    gap = np.zeros(16)
    gap[0] = 6.0
    X = latent + 0.2 * rng.normal(size=(60, 16)) + gap
    Y = np.repeat(latent, 2, axis=0) + 0.2 * rng.normal(size=(120, 16)) - gap
    groups = np.arange(60), np.repeat(np.arange(60), 2)
    raw = mixed_curve(X, Y, groups=groups)
    closed = mixed_curve(X - gap, Y + gap, groups=groups)
    texts = raw.ndcg["text"]
    assert texts[3] < texts[0] - 0.2
    assert texts[3] < texts[-1] - 0.2
    assert np.ptp(closed.ndcg["text"]) < 0.1
    assert raw.share_off[3] > 0.4 > closed.share_off[3]
    assert raw.to_dict()["x_shares"] == [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]


def test_a_third_modality_is_corrected_by_its_name():
    rows, groups = several()
    names = ("image", "text", "video")
    maps = {
        (name, "document"): Affine(6, offset=-rows[name].mean(0), renormalise=True)
        for name in names
    }
    shares = {"image": 0.7, "text": 0.2, "video": 0.1}
    raw = once(rows, groups, shares)
    centred = once(rows, groups, shares, correction=Correction(names, maps))
    calibrate = Calibrate("mixed").fit(rows)
    calibrated = once(rows, groups, shares, correction=calibrate.correction_)
    assert raw.ndcg < centred.ndcg
    assert raw.ndcg < calibrated.ndcg
    assert centred.share_off < raw.share_off
    assert calibrated.share_off < raw.share_off


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shares": {"image": 1.0}}, "must name the same modalities"),
        ({"shares": {"image": -1, "text": 1, "video": 1}}, "at least 0 and not all 0"),
        ({"shares": {"image": 0, "text": 0, "video": 0}}, "at least 0 and not all 0"),
        ({"groups": {"image": [0], "text": [0], "video": [0]}}, "one label per row"),
        (
            {
                "groups": {
                    "image": np.arange(20),
                    "text": 100 + np.arange(60),
                    "video": 200 + np.arange(40),
                }
            },
            "No group has rows of every modality",
        ),
        ({"targets": "own"}, "targets must be one of"),
        ({"k": 0}, "k must be at least 1"),
        ({"repeats": 0}, "repeats must be at least 1"),
    ],
)
def test_what_cannot_be_mixed_is_refused(change, message):
    rows, groups = several()
    options = {"rows": rows, "groups": groups, "shares": {"image": 1, "text": 1, "video": 1}}
    with pytest.raises((ValueError, TypeError), match=message):
        once(**{**options, **change})
