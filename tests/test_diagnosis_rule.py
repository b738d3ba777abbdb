"""The rule behind the verdict, on judgements made by hand; and the split it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import Center, Shift
from modgap.diagnosis import DEFAULT_CORRECTORS, Figure, Judgement, Trial
from modgap.diagnosis.splits import Part, split, split_unpaired
from modgap.diagnosis.run import _Run, corrector_name
from modgap.diagnosis.verdict import choose, eligibility, lower_bound
from modgap.evaluation import Interval
from modgap.io import Embeddings

RECALLS = ("image_retrieval_recall@1", "text_retrieval_recall@1")


def judgement(image=(0.0, -0.01, 0.01), text=(0.0, -0.01, 0.01), goal=(0.1, 0.05, 0.15)):
    """Changes of the two recalls and of the goal, each (value, low, high)."""
    some = Interval(0.5, 0.4, 0.6)
    figures = {
        name: Figure(some, Interval(*change))
        for name, change in zip(RECALLS, (image, text), strict=True)
    }
    return Judgement(figures, Figure(some, Interval(*goal)))


def trial(method="A", eligible=True, bound=0.05, confirm=None):
    confirm = judgement() if confirm is None else confirm
    return Trial(method, "cosine", eligible, "", bound, 1.0, confirm)


@pytest.mark.parametrize(
    ("change", "eligible", "reason"),
    [
        ((0.0, -0.05, 0.05), True, "recall@1 holds"),
        ((0.1, 0.05, 0.15), True, "recall@1 holds"),
        ((-0.02, -0.05, 0.01), True, "recall@1 holds"),
        ((-0.0201, -0.05, 0.01), False, "falls by 0.020"),
        ((-0.3, -0.4, 0.1), False, "falls by 0.300"),
        ((-0.01, -0.02, -0.001), False, "falls beyond chance"),
        ((-0.01, -0.02, 0.0), True, "recall@1 holds"),
    ],
)
@pytest.mark.parametrize("side", ["image", "text"])
def test_recall_may_fall_by_two_hundredths_each_way_but_not_beyond_chance(
    change, eligible, reason, side
):
    found, why = eligibility(judgement(**{side: change}), RECALLS)
    assert found is eligible
    assert reason in why
    assert eligible or why.startswith(f"{side}_retrieval_recall@1")


def test_the_lower_bound_is_that_of_the_goals_change():
    assert lower_bound(judgement(goal=(0.3, 0.2, 0.4))) == 0.2


def test_the_eligible_correction_with_the_largest_lower_bound_is_chosen():
    trials = [trial("A", bound=0.1), trial("B", bound=0.3), trial("C", False, 0.9)]
    assert choose(trials).method == "B"
    assert choose([trial("A", False, 0.4)]) is None
    assert choose([trial("A", bound=0.0), trial("B", bound=-0.2)]) is None
    assert choose([]) is None


def decide(trials, n_confirm=100):
    run = _Run(("image", "text"), "mixed", "cosine", None, 0, len(trials), None)
    return run._decide(trials, n_confirm)


def test_a_choice_that_is_confirmed_is_used():
    verdict, chosen, _ = decide([trial("A", bound=0.1), trial("B", bound=0.2)])
    assert (verdict, chosen.method) == ("use", "B")


def test_a_choice_that_is_not_confirmed_is_not_recommended():
    no_gain = trial("B", bound=0.2, confirm=judgement(goal=(0.01, -0.02, 0.04)))
    verdict, chosen, doubt = decide([trial("A", bound=0.1), no_gain])
    assert (verdict, chosen) == ("leave it alone", None)
    assert doubt == "B looked best, but its gain did not hold on the confirm part"
    costly = trial("B", bound=0.2, confirm=judgement(text=(-0.1, -0.2, 0.0)))
    verdict, chosen, doubt = decide([trial("A", bound=0.1), costly])
    assert (verdict, chosen) == ("leave it alone", None)
    assert "on the confirm part text_retrieval_recall@1 falls by 0.100" in doubt


def test_fewer_than_a_hundred_confirm_groups_are_not_enough():
    assert decide([trial()], 99)[:2] == ("not enough pairs", None)
    assert decide([trial()], 100)[0] == "use"


# --- Parts ---------------------------------------------------------------------------------------


def test_the_split_is_by_group_disjoint_and_50_25_25(rng):
    gx = rng.integers(0, 300, 500)
    gy = rng.integers(0, 320, 700)
    X = np.c_[gx, np.arange(500)].astype(float)
    Y = np.c_[gy, np.arange(700)].astype(float)
    parts = split(X, Y, (gx, gy), seed=1)
    both = np.intersect1d(gx, gy)
    labels = [set(part.gx) | set(part.gy) for part in parts]
    assert not labels[0] & labels[1]
    assert not labels[0] & labels[2]
    assert not labels[1] & labels[2]
    sizes = [part.n_groups for part in parts]
    assert sum(sizes) == len(both)
    np.testing.assert_allclose(sizes, np.array([0.5, 0.25, 0.25]) * len(both), atol=1)
    for part in parts:
        # Every row of a chosen group is there, and carries its own group.
        assert part.X[:, 0].tolist() == part.gx.tolist()
        assert part.Y[:, 0].tolist() == part.gy.tolist()
        assert len(part.gx) == np.isin(gx, part.gx).sum()
    # Rows without a match help fitting only.
    single = set(np.setxor1d(gx, gy))
    assert single <= labels[0]
    assert single


def test_the_split_hangs_on_the_seed_alone(rng):
    X = rng.normal(size=(40, 2))
    groups = np.arange(40), np.arange(40)
    first, again, other = (split(X, X, groups, seed)[0].gx.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_one_pair_per_group_is_its_first_row_of_each_side():
    X, Y = np.arange(8.0).reshape(4, 2), np.arange(10.0).reshape(5, 2)
    groups = np.array([0, 1, 1, 0]), np.array([1, 0, 0, 1, 1])
    x, y, shared = Part(X, Y, *groups).pairs()
    assert shared.tolist() == [0, 1]
    for row_x, row_y, group in zip(x, y, shared, strict=True):
        assert row_x.tolist() == X[groups[0] == group][0].tolist()
        assert row_y.tolist() == Y[groups[1] == group][0].tolist()


def test_rows_without_pairs_are_split_into_disjoint_halves_that_match_nowhere(rng):
    X, Y = rng.normal(size=(41, 2)), rng.normal(size=(30, 2))
    for sides in ((X, Y), (Embeddings.from_array(X), Embeddings.from_array(Y))):
        fit, judged = split_unpaired(*sides, seed=0)
        assert len(judged.X) == len(judged.Y) == 15
        assert (len(fit.X), len(fit.Y)) == (26, 15)
        assert fit.n_groups == judged.n_groups == 0
        rows = {tuple(row) for row in np.vstack([fit.X, judged.X])}
        assert rows == {tuple(row) for row in X}


def test_correctors_are_named_as_they_are_written():
    assert corrector_name(Center()) == "Center()"
    assert corrector_name(Shift()) == "Shift(amount=0.5)"
    names = [corrector_name(corrector) for corrector in DEFAULT_CORRECTORS]
    assert len(set(names)) == len(names)
    assert "OrthogonalShift(move='y', explained_variance=0.95)" in names
