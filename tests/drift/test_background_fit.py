"""Whether expected wrong results still hold is counted on the documents of now."""

from __future__ import annotations

import numpy as np
import pytest

from modgap import Embeddings, detect_drift
from modgap.corrections import ExpectedWrong, refit_background
from modgap.moments.modality import moments_of_rows

N, D = 300, 12
rng = np.random.default_rng(5)
TOPIC = rng.normal(size=(N, D))
X, Y = (TOPIC + 0.5 * rng.normal(size=(N, D)) + side for side in (1.0, -1.0))
OTHERS = rng.normal(size=(4 * N, D)) + 1.0
BANK = TOPIC[rng.integers(N, size=400)] + rng.normal(size=(400, D)) - 1.0
DATA = {"image": X, "text": Y}


def fitted(hubs=0.25, bank=BANK):
    return ExpectedWrong(hubs).fit(DATA, queries="text", bank=bank).correction_


def fit_of(now, correction, then=DATA):
    (found,) = detect_drift(then, now, correction).corrections
    return found


def slowly_counted(correction, rows, name):
    """How many documents a query of the bank finds now that are said to be better than E = 1."""
    documents = correction.affine(name)(rows)
    scores = -np.sort(-(correction.hubs.rows.astype(float) @ documents.T), axis=1)
    return float(np.mean(np.sum(correction.background.judged(scores, name)[0] <= 1, axis=1)))


def test_the_same_documents_have_what_was_said():
    found = fit_of(DATA, fitted(bank=None))
    assert found.fits is True
    assert found.expected_wrong == pytest.approx({"image": 1.0, "text": 1.0}, rel=1e-6)
    assert "where it says 1 expected wrong result there are 1 among image and 1 among" in (
        found.sentence
    )


@pytest.mark.filterwarnings("ignore::modgap.corrections.background.ForeignQueriesWarning")
@pytest.mark.parametrize("n_others", [0, 300, 1200])
def test_it_is_what_a_slow_count_finds(n_others):
    # Without hubs, and without lists in which some results may be matches.
    correction = fitted(hubs=0.0)
    now = {"image": np.vstack([X[:150], OTHERS[:n_others]])}
    found = fit_of(now, correction).expected_wrong
    assert [*found] == ["image"]
    assert found["image"] == pytest.approx(
        slowly_counted(correction, now["image"], "image"), rel=0.1
    )


@pytest.mark.filterwarnings("ignore::modgap.corrections.background.ForeignQueriesWarning")
def test_documents_unlike_those_then_call_for_a_new_background_and_that_fits():
    correction = fitted()
    # A few pictures that every query likes, in a crowd that none does.
    liked = Y.mean(axis=0) + 0.3 * rng.normal(size=(12, D))
    now = {"image": np.vstack([0.2 * OTHERS[:500] + 3.0, liked]), "text": Y}
    report = detect_drift(DATA, now, correction)
    assert report.fits is False
    (found,) = report.corrections
    assert not 0.5 <= found.expected_wrong["image"] <= 2
    assert found.sentence.startswith("Fit the background of ExpectedWrong(hubs=0.25) again (modgap")
    again = fit_of(now, refit_background(correction, now), then=now)
    assert again.expected_wrong == pytest.approx({"image": 1.0, "text": 1.0}, rel=1e-6)


def test_moments_and_a_correction_without_its_bank_are_compared_by_moments():
    correction = fitted()
    moments = {name: moments_of_rows(rows, detail="covariance") for name, rows in DATA.items()}
    for now, one in ((moments, correction), (DATA, correction.without_bank())):
        found = fit_of(now, one)
        assert found.expected_wrong == {}
        assert found.share_now
    few = {name: Embeddings.from_array(rows[:40]) for name, rows in DATA.items()}
    assert fit_of(few, correction).expected_wrong == {}
