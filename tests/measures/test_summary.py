"""``measure``: the single functions' numbers in one result that prints, exports and samples."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from conftest import make_many
from modgap.io import Embeddings
from modgap.measures import (
    alignment,
    conformity,
    conformity_difference,
    conformity_divergence,
    estimated_conformity,
    feature_divergence,
    feature_offset,
    feature_variance,
    gap_distance,
    gap_orthogonality,
    linear_separability,
    loss_terms,
    measure,
    norms,
    off_diagonal_dominance,
    origin_landscape,
    separability,
    shift_landscape,
    wasserstein_uniformity,
)


def dump(result) -> str:
    return json.dumps(result.to_dict(), allow_nan=False)


def test_the_numbers_are_those_of_the_single_functions(pairs):
    X, Y = pairs
    result = measure(X, Y, temperature=0.05)
    assert result.gap_distance == pytest.approx(gap_distance(X, Y))
    assert result.gap_orthogonality.x.mean_abs == gap_orthogonality(X, Y).x.mean_abs
    assert result.linear_separability == linear_separability(X, Y)
    parted = separability(X, Y)
    assert result.n_tags == (parted > 1).sum()
    assert [f for f, _ in result.top_features] == np.argsort(-parted)[:10].tolist()
    assert [v for _, v in result.top_features] == pytest.approx(np.sort(parted)[::-1][:10])
    assert result.feature_divergence_max == pytest.approx(feature_divergence(X, Y).max())
    assert result.conformity_divergence == conformity_divergence(X, Y)
    assert result.wasserstein_uniformity == pytest.approx(wasserstein_uniformity(X, Y))
    assert result.dim == 12


def test_each_modality_has_its_own_numbers(pairs):
    result = measure(*pairs, names=("photo", "caption"))
    assert [side.name for side in result.modalities] == ["photo", "caption"]
    for side, A in zip(result.modalities, pairs, strict=True):
        assert (side.n, side.n_sample) == (60, 60)
        assert side.norm_mean == pytest.approx(norms(A).mean)
        assert side.norm_std == pytest.approx(norms(A).std)
        assert side.feature_offset_max == pytest.approx(feature_offset(A).max())
        assert side.variance_tail == pytest.approx(feature_variance(A).tail)
        assert side.off_diagonal_dominance_median == pytest.approx(
            np.median(off_diagonal_dominance(A))
        )
        assert side.conformity_std == pytest.approx(conformity(A).std())
        assert side.conformity_slope == estimated_conformity(A).slope


def test_pairs_have_theirs(pairs):
    X, Y = pairs
    found = measure(X, Y, temperature=0.05).pairs
    assert (found.n_pairs, found.n_sample, found.temperature) == (60, 60, 0.05)
    assert found.loss == loss_terms(X, Y, 0.05)
    assert found.conformity_difference_std == pytest.approx(conformity_difference(X, Y).std())
    assert (found.shift_landscape.losses == shift_landscape(X, Y).losses).all()
    assert (found.origin_landscape.loss == origin_landscape(X, Y, temperature=0.05).loss).all()


def test_without_pairs_what_needs_them_is_left_out(pairs):
    X, Y = pairs
    for result in (measure(X, Y[:40]), measure(X, Y, paired=False)):
        assert result.pairs is None
        assert "contrastive loss" not in str(result)
        assert result.to_dict()["pairs"] is None
    assert measure(X, Y[:40]).gap_distance == pytest.approx(gap_distance(X, Y[:40]))


def test_groups_say_which_rows_match(pairs):
    X, Y = pairs
    # Two captions per picture; the pair of a group is its first row on each side.
    gx, gy = [f"g{i}" for i in range(30)], [f"g{i // 2}" for i in range(60)]
    captions = np.repeat(Y[:30], 2, axis=0)
    captions[1::2] += 0.1
    found = measure(X[:30], captions, groups=(gx, gy)).pairs
    order = np.argsort(gx)
    assert (found.n_pairs, found.n_sample) == (30, 30)
    assert found.alignment == pytest.approx(alignment(X[:30], Y[:30]))
    assert found.loss.loss == pytest.approx(loss_terms(X[:30][order], Y[:30][order], 0.01).loss)


def test_groups_without_a_partner_are_left_out_of_the_pairs(pairs):
    X, Y = pairs
    found = measure(X, np.roll(Y, -10, axis=0), groups=(np.arange(60), np.arange(10, 70))).pairs
    assert found.n_pairs == 50
    assert found.alignment == pytest.approx(alignment(X[10:], Y[10:]))


def test_a_sample_is_seeded_and_says_how_many(pairs):
    X, Y = pairs
    first = measure(X, Y[:50], sample=20, seed=7)
    assert [side.n_sample for side in first.modalities] == [20, 20]
    assert [side.n for side in first.modalities] == [60, 50]
    assert "a sample of 20 and 20 rows (seed 7)" in str(first)
    errors = " and ".join(f"{m.cone.standard_error:.2g}" for m in first.modalities)
    assert f"The standard error of the mean cosine is {errors}." in str(first)
    assert dump(first) == dump(measure(X, Y[:50], sample=20, seed=7))
    other = measure(X, Y[:50], sample=20, seed=8)
    assert other.modalities[0].cone != first.modalities[0].cone
    # Moments use every row whatever the sample.
    assert other.gap_distance == first.gap_distance == pytest.approx(gap_distance(X, Y[:50]))
    assert other.n_tags == first.n_tags


def test_sampled_pairs_stay_pairs(pairs):
    X = pairs[0]
    found = measure(X, X, sample=15).pairs
    assert (found.n_pairs, found.n_sample) == (60, 15)
    assert found.alignment == pytest.approx(0, abs=1e-12)


def test_it_prints_as_a_table(pairs):
    text = str(measure(*pairs, names=("photo", "caption")))
    header, *lines = text.splitlines()
    assert header.split() == ["photo", "caption", "both"]
    assert lines[-1].startswith("The gap distance and the measures of each modality use every row.")
    shown = next(line for line in lines if line.startswith("gap distance"))
    assert float(shown.split()[-1]) == pytest.approx(gap_distance(*pairs), abs=1e-4)


def test_rows_of_other_lengths_have_the_gap_of_unit_rows_beside_their_own(pairs):
    X, Y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in pairs)
    unit, long = measure(X, Y), measure(3 * X, 5 * Y)
    labels = [[line.label for line in one.lines() if line.term == "gap_distance"]
              for one in (unit, long)]  # fmt: skip
    assert labels == [
        ["gap distance"],
        ["gap distance of rows as given", "gap distance of unit rows"],
    ]
    assert long.gap_distance == gap_distance(3 * X, 5 * Y)
    assert long.unit_gap_distance == pytest.approx(unit.gap_distance, abs=1e-12)
    assert unit.unit_gap_distance == pytest.approx(unit.gap_distance, abs=1e-12)
    assert f"({unit.gap_distance:.4f} of unit rows)" in repr(long)
    assert "of unit rows" not in repr(unit)


def test_json_carries_every_number_and_no_nan(pairs):
    X, Y = (A.copy() for A in pairs)
    X[:, 0] = 3.0  # a constant feature has an infinite offset
    loaded = json.loads(dump(measure(X, Y)))
    assert loaded["gap_distance"] == pytest.approx(gap_distance(X, Y))
    assert loaded["modalities"][0]["feature_offset_max"] is None
    assert loaded["pairs"]["shift_landscape"]["losses"] == pytest.approx(
        shift_landscape(X, Y).losses
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_fewest_rows_leave_out_what_they_cannot_tell(pairs, n):
    X, Y = (A[:n] for A in pairs)
    result = measure(X, Y)
    dump(result)
    str(result)
    assert (result.modalities[0].cone is None) == (n == 1)
    assert (result.linear_separability is None) == (n == 1)
    assert (result.pairs.margin is None) == (n == 1)


def test_identical_rows_have_no_shell_and_no_conformity():
    result = measure(np.ones((4, 3)), np.ones((4, 3)))
    side = result.modalities[0]
    assert (side.shell, side.conformity_mean, side.conformity_pearson) == (None, None, None)
    assert result.gap_distance == 0
    assert math.isnan(result.gap_orthogonality.x.mean)
    assert result.pairs.origin_landscape is None
    dump(result)
    str(result)


def test_rows_on_disk_give_the_numbers_of_rows_in_memory(pairs, tmp_path):
    X, Y = (A.astype(np.float32) for A in pairs)
    expected = dump(measure(X, Y, sample=30))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    maps = [np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "y.npy")]
    assert dump(measure(*maps, sample=30)) == expected
    streams = [Embeddings.from_array(A) for A in (X, Y)]
    assert dump(measure(*streams, sample=30)) == expected
    assert dump(measure(X, streams[1], sample=30)) == expected


def told(*rows, **options):
    heard = []
    measure(*rows, progress=lambda *step: heard.append(step), **options)
    return heard


@pytest.mark.parametrize("held", [np.asarray, Embeddings.from_array])
def test_progress_moves_inside_the_steps_and_ends_where_it_said(rng, held):
    Z = rng.normal(size=(5000, 3))
    heard = told(held(Z + 1), held(Z - 1), names=("photo", "caption"), sample=1600)
    counts, totals = [done for _, done, _ in heard], {total for *_, total in heard}
    assert len(totals) == 1
    assert (counts[0], counts[-1]) == (0, totals.pop())
    assert counts == sorted(counts)
    inside = Counter(step for step, *_ in {(step, done) for step, done, _ in heard})
    blocks = ["cone and uniformity of photo", "cone and uniformity of caption"]
    blocks += ["loss, margin and soft assignments of photo and caption"]
    blocks += ["moments of photo"] if held is np.asarray else []  # a stream has its own batches
    assert all(inside[step] > 2 for step in blocks)
    assert len(inside) == 10


def test_progress_counts_to_the_end_whatever_is_measured(pairs):
    X, Y = pairs
    several = make_many()
    alike = np.ones((3, 2))
    for rows, options in (
        (pairs, {"paired": False}),
        ((X, Y[:20]), {}),
        ((X[:1], Y[:1]), {}),
        ((alike, alike), {}),
        (pairs, {"sample": 7}),
        ((several,), {}),
        ((several.with_queries({"text": X}),), {}),
    ):
        heard = told(*rows, **options)
        assert {total for *_, total in heard} == {heard[-1][1]}
        assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)


def test_a_progress_that_raises_stops_the_measurement_inside_a_step(pairs):
    def stop(step, done, total):
        if step.startswith("cone and uniformity"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(*pairs, progress=stop)
    heard = told(*pairs)  # nobody listens to what was stopped
    assert heard[0][1] == 0
