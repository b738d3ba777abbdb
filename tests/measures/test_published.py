"""Numbers on the embeddings published with Liang et al. 2022 (MIT): CLIP ViT-B/16, 500 COCO pairs.

The file features_clip.npy is (2, 500, 512): images, then their captions, unit rows. Where a paper
prints a number for another model or data set, the comment says so; then only the statement holds.
"""

from __future__ import annotations

import numpy as np
import pytest

from modgap.measures import (
    cone,
    conformity_divergence,
    estimated_conformity,
    gap_distance,
    gap_orthogonality,
    linear_separability,
    origin_landscape,
    separability,
    shift_landscape,
    wasserstein_uniformity,
)

pytestmark = [
    pytest.mark.published,
    pytest.mark.xdist_group("published landscape"),  # it is computed once
]

LAMBDAS = np.round(np.arange(-0.5, 2.51, 0.05), 2)
HEATS = [0.01, 0.02, 0.1, 1.0]


def test_the_gap_is_0_8514(published_clip):
    # np.linalg.norm(images.mean(0) - texts.mean(0)) in float64. Liang sec. 4.2 prints 0.82 for
    # ViT-B/32 on 5,000 pairs of the COCO validation set.
    assert gap_distance(*published_clip) == pytest.approx(0.8514, abs=5e-5)


def test_seventeen_features_tag_the_modality(published_clip):
    # Levi sec. 4 counts 9 on ViT-B/32 and 20 on ViT-L/14, rows before normalisation.
    assert int((separability(*published_clip) > 1).sum()) == 17


@pytest.mark.parametrize(("n", "value"), [(100, -1.127), (250, -1.020), (500, -0.983)])
def test_wasserstein_uniformity_grows_with_the_number_of_pairs(published_clip, n, value):
    # The first n pairs of the file. Yaras E.2 has -1.165 for its own baseline model.
    X, Y = published_clip
    assert wasserstein_uniformity(X[:n], Y[:n]) == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize(("bins", "value"), [(20, 0.07), (50, 0.13), (100, 0.55)])
def test_conformity_divergence_hangs_on_the_bins(published_clip, bins, value):
    # Levi fig. 11 has about 0.14 unshifted, on ViT-B/32 rows before normalisation. At 100 bins
    # single rows in bins empty on the other side decide: 0.32 at 96 bins, 0.93 at 104.
    assert conformity_divergence(*published_clip, bins) == pytest.approx(value, abs=0.005)


def test_the_estimate_of_conformity_is_exact_on_unit_rows(published_clip):
    # Levi sec. 6 prints 0.9998 on raw rows; on unit rows both are one affine function apart.
    for side in published_clip:
        assert estimated_conformity(side.astype(np.float64)).pearson == pytest.approx(1, abs=1e-6)


def test_both_modalities_lie_in_narrow_cones(published_clip):
    # Liang fig. 2a: mean cosines of trained models around 0.5 and above; a full sphere has 0.
    for side in published_clip:
        result = cone(side)
        assert result.mean > 0.4
        assert result.min > 0
        assert result.count == 500 * 499


def test_a_linear_classifier_tells_the_modalities_apart(published_clip):
    # Levi sec. 4, fig. 2: separable with two features.
    result = linear_separability(*published_clip)
    assert result.all_features == 1
    assert result.two_features > 0.99


def test_the_gap_is_nearly_orthogonal_to_both_modalities(published_clip):
    # Chowers sec. 3.3, assumption 3.3.
    result = gap_orthogonality(*published_clip)
    assert result.x.mean_abs < 0.15
    assert result.y.mean_abs < 0.15


@pytest.fixture(scope="module")
def landscape(published_clip):
    return shift_landscape(*published_clip, LAMBDAS, HEATS, batch_size=50)


def test_at_the_temperature_of_clip_the_original_gap_is_nearly_optimal(landscape):
    # Liang sec. 4.2, fig. 3b: at τ = 1/100 the default gap has the least loss.
    gap, least = landscape.best()[0.01]
    original = landscape.losses[0, list(LAMBDAS).index(0)]
    assert original - least < 0.02
    closed = landscape.losses[0, list(LAMBDAS).index(0.5)]
    assert closed > original + 0.02
    assert gap > 0.5


def test_the_best_gap_closes_as_the_temperature_rises(landscape):
    # Liang sec. 4.2, fig. 3 b-d.
    best = [landscape.best()[heat][0] for heat in HEATS]
    assert best == sorted(best, reverse=True)
    assert abs(best[-1]) < 0.1


def test_there_is_a_back_to_back_minimum_at_the_temperature_of_clip_only(landscape):
    # Liang sec. 4.2: "a local minimum when we shift the text embeddings to the opposite side".
    beyond = LAMBDAS >= 1.0
    cold, hot = landscape.losses[0][beyond], landscape.losses[-1][beyond]
    place = LAMBDAS[beyond][cold.argmin()]
    assert place == pytest.approx(2.2, abs=0.15)
    assert cold.min() < cold[-1]
    assert landscape.gaps[list(LAMBDAS).index(place)] < 0
    assert hot.argmin() == 0


def test_closing_the_offset_from_the_origin_costs_loss(published_clip):
    # Levi sec. 5 and 6.2: at α = 0, where training left them, the loss is below that at α = 1.
    result = origin_landscape(*published_clip, [0.0, 1.0], temperature=0.01)
    assert result.loss[0] < result.loss[1]
