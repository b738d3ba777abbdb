"""The losses that bring modalities together: definitions, laws, and what they do in training."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from modgap.train import (  # noqa: E402
    ContrastiveLoss,
    SigmoidLoss,
    align_true_pairs,
    centroid_uniformity,
    make_config,
    train,
)
from training import digits_config, few_digits  # noqa: E402


def rows(modalities=3, n=7, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(modalities, n, d, generator=generator, dtype=torch.float64)
    return list(found / found.norm(dim=2, keepdim=True))


def slow_align(modalities):
    total, pairs = 0.0, 0
    for a in range(len(modalities)):
        for b in range(a + 1, len(modalities)):
            pairs += 1
            for x, y in zip(modalities[a], modalities[b], strict=True):
                total += float(sum((u - v) ** 2 for u, v in zip(x, y, strict=True)))
    return total / pairs / len(modalities[0])


def slow_uniformity(modalities):
    centroids = []
    for item in zip(*(one.numpy() for one in modalities), strict=True):
        mean = sum(item) / len(item)
        centroids.append(mean / np.sqrt(np.sum(mean**2)))
    found = [
        np.exp(-2 * np.sum((centroids[i] - centroids[j]) ** 2))
        for i in range(len(centroids))
        for j in range(i + 1, len(centroids))
    ]
    return np.log(np.mean(found))


@pytest.mark.parametrize("modalities", [2, 3, 4])
def test_both_are_their_definitions_for_any_number_of_modalities(modalities):
    given = rows(modalities)
    assert align_true_pairs(*given).item() == pytest.approx(slow_align(given), abs=1e-12)
    assert centroid_uniformity(*given).item() == pytest.approx(slow_uniformity(given), abs=1e-12)


@pytest.mark.parametrize("loss", [align_true_pairs, centroid_uniformity])
def test_a_turn_and_another_order_change_nothing(loss):
    given = rows()
    turn = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    order = torch.randperm(7)
    expected = pytest.approx(loss(*given).item(), abs=1e-12)
    assert loss(*(one @ turn for one in given)).item() == expected
    assert loss(*(one[order] for one in given[::-1])).item() == expected


def test_equal_modalities_are_aligned_and_items_in_one_place_are_not_uniform():
    X = rows()[0]
    assert align_true_pairs(X, X, X).item() == 0
    assert centroid_uniformity(X[:1].expand(4, 5), X[:1].expand(4, 5)).item() == pytest.approx(0)
    poles = torch.tensor([[1.0, 0], [-1, 0]])
    assert centroid_uniformity(poles, poles).item() == pytest.approx(-8)
    assert centroid_uniformity(X[:1], X[:1]).item() == 0  # one item has none to be apart from


@pytest.mark.parametrize("form", [ContrastiveLoss, SigmoidLoss])
def test_they_are_added_with_their_weights(form):
    X, Y = rows(2)
    plain = form()(X, Y, 10.0)
    both = form(align=0.3, uniform=0.2)(X, Y, 10.0)
    expected = plain + 0.3 * align_true_pairs(X, Y) + 0.2 * centroid_uniformity(X, Y)
    assert both.item() == pytest.approx(expected.item())


def test_their_gradients_are_those_of_finite_differences():
    given = [one.requires_grad_() for one in rows()]
    assert torch.autograd.gradcheck(align_true_pairs, tuple(given))
    assert torch.autograd.gradcheck(centroid_uniformity, tuple(given))


@pytest.mark.long
def test_aligning_true_pairs_in_training_leaves_a_smaller_gap(tmp_path):
    gaps, pairs = {}, {}
    for align in (0.0, 5.0):
        config = digits_config(train={"steps": 60}, loss={"align": align, "uniform": align / 10})
        found = train(config, output=tmp_path / f"{align}", data=few_digits()).evaluation.flat()
        gaps[align], pairs[align] = found["gap_distance"], found["alignment"]
    assert gaps[5.0] < gaps[0.0]
    assert pairs[5.0] < pairs[0.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: align_true_pairs(rows()[0]), "at least two modalities"),
        (lambda: centroid_uniformity(rows()[0], rows(n=6)[0]), "same pairs row by row"),
        (lambda: ContrastiveLoss(align=float("nan")), "align must be"),
        (lambda: ContrastiveLoss(chunked=True, uniform=0.1), "Choose one"),
        (lambda: make_config({"loss": {"align": -1}}), "align"),
    ],
)
def test_what_cannot_be_used_is_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        given()
