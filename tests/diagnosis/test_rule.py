"""The rule behind the verdict, on scores made by hand; and the split it rests on."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import Affine, Center, Correction, Shift
from modgap.diagnosis import DEFAULT_CORRECTORS, Trial
from modgap.diagnosis.splits import split
from modgap.diagnosis.verdict import choose, confirm, eligibility, lower_bound
from modgap.evaluation import Evaluator, Interval, Score, Scores
from modgap.evaluation.metric_names import OWN_EXCESS
from modgap.io import Embeddings, Modalities

RECALLS = {f"{name}_retrieval_recall@1": f"{name} recall@1" for name in ("image", "text")}


def scores(image=(0.0, -0.01, 0.01), text=(0.0, -0.01, 0.01), goal=(0.1, 0.05, 0.15)):
    """Changes of the two recalls and of the goal, each (value, low, high)."""
    some = Interval(0.5, 0.4, 0.6)
    metrics = {
        name: Score(some, Interval(*change))
        for name, change in zip(RECALLS, (image, text), strict=True)
    }
    return Scores(metrics, Score(some, Interval(*goal)))


def trial(method="A", eligible=True, bound=0.05, keeps_rankings=False):
    return Trial(method, "cosine", eligible, "", bound, 1.0, scores(), keeps_rankings)


@pytest.mark.parametrize(
    ("change", "eligible", "reason"),
    [
        ((0.0, -0.05, 0.05), True, "recall@1 holds"),
        ((0.1, 0.05, 0.15), True, "recall@1 holds"),
        ((-0.02, -0.05, 0.01), True, "recall@1 holds"),
        ((-0.0201, -0.05, 0.01), False, "falls by 0.020"),
        ((-0.3, -0.4, 0.1), False, "falls by 0.300"),
        ((-0.01, -0.02, -0.001), False, "falls by 0.010, beyond chance"),
        ((-0.01, -0.02, 0.0), True, "recall@1 holds"),
    ],
)
@pytest.mark.parametrize("side", ["image", "text"])
def test_recall_may_fall_by_two_hundredths_each_way_but_not_beyond_chance(
    change, eligible, reason, side
):
    found, why = eligibility(scores(**{side: change}), RECALLS)
    assert found is eligible
    assert reason in why
    assert eligible or why.startswith(f"{side} recall@1")


def test_the_lower_bound_is_that_of_the_goals_change():
    assert lower_bound(scores(goal=(0.3, 0.2, 0.4))) == 0.2


def goals(*means, spread=0.01):
    """Resampled goals of several corrections, drawn independently around their means."""
    rng = np.random.default_rng(0)
    return [{"goal": (mean, rng.normal(mean, spread, 1000))} for mean in means]


def order(trials, *means, spread=0.01):
    return [t.method for t in choose(trials, goals(*means, spread=spread))]


def test_eligible_corrections_come_by_the_lower_bound_of_their_gain():
    trials = [trial("A", bound=0.1), trial("B", bound=0.3), trial("C", False, 0.9)]
    assert order(trials, 0.5, 0.6, 0.9) == ["B", "A"]
    assert order([trial("A", False, 0.4)], 0.5) == []
    assert order([trial("A", bound=0.0), trial("B", bound=-0.2)], 0.5, 0.4) == []
    assert order([]) == []


def test_what_keeps_rankings_comes_first_unless_it_is_beaten_beyond_chance():
    keeps = trial("keeps", bound=0.1, keeps_rankings=True)
    others = [trial(f"B{i}", bound=0.2) for i in range(5)]
    trials = [*others, keeps]
    close = order(trials, *[0.51] * 5, 0.5)
    assert close[0] == "keeps"
    assert sorted(close[1:]) == [t.method for t in others]
    assert order(trials, *[0.51] * 4, 0.6, 0.5)[:2] == ["B4", "keeps"]
    # One challenger beyond 1.64 standard errors would pass alone; the best of many must go further.
    gain = 0.5 + 1.9 * 2**0.5 * 0.01
    assert order([others[0], keeps], gain, 0.5)[0] == "B0"
    assert order(trials, *[gain] * 5, 0.5)[0] == "keeps"


def test_what_is_preferred_comes_first_unless_it_is_beaten_beyond_chance():
    merged = trial("merged", bound=0.1)
    keeps = trial("keeps", bound=0.2, keeps_rankings=True)

    def first(*means):
        found = choose([trial("B", bound=0.2), keeps, merged], goals(*means), "merged")
        return [one.method for one in found]

    assert first(0.5, 0.51, 0.5)[0] == "merged"
    assert first(0.51, 0.49, 0.5)[0] == "merged"
    assert first(0.5, 0.6, 0.5)[:2] == ["keeps", "merged"]
    assert first(0.6, 0.5, 0.5)[:2] == ["B", "merged"]
    # One that is not eligible, or does not gain, is not preferred.
    worse = trial("merged", bound=-0.1)
    assert choose([keeps, worse], goals(0.5, 0.5), "merged") == [keeps]


def test_of_several_that_keep_rankings_the_best_is_tried_first():
    trials = [
        trial("A", bound=0.1, keeps_rankings=True), trial("B", bound=0.3, keeps_rankings=True)
    ]  # fmt: skip
    assert order(trials, 0.5, 0.6) == ["B", "A"]


def judged(**outcomes):
    seen = []

    def judge(one):
        seen.append(one.method)
        return outcomes[one.method]

    return judge, seen


GAINS, NO_GAIN, COSTS = (True, "", 0.1), (True, "", -0.1), (False, "recall falls", 0.2)


def test_a_choice_that_is_not_confirmed_gives_way_to_the_next():
    judge, seen = judged(A=NO_GAIN, B=COSTS, C=GAINS, D=GAINS)
    chosen, doubts = confirm([trial(name) for name in "ABCD"], judge)
    assert chosen.method == "C"
    assert seen == ["A", "B", "C"]
    assert doubts == [
        "A looked good, but its gain did not hold on the confirm split",
        "B looked good, but recall falls on the confirm split",
    ]


def test_at_most_three_are_tried():
    judge, seen = judged(A=NO_GAIN, B=NO_GAIN, C=NO_GAIN, D=GAINS)
    chosen, doubts = confirm([trial(name) for name in "ABCD"], judge)
    assert chosen is None
    assert seen == ["A", "B", "C"]
    assert len(doubts) == 3
    assert confirm([], judge) == (None, [])


def test_a_correction_that_keeps_rankings_cannot_fail_on_recall():
    falls = scores(image=(-0.5, -0.6, -0.4))
    assert eligibility(falls, RECALLS) == (False, "image recall@1 falls by 0.500")
    assert eligibility(falls, RECALLS, keeps_rankings=True) == (True, "rankings are kept")


def test_a_bias_that_grows_beyond_chance_is_not_eligible():
    holds, why = eligibility(scores(), RECALLS, bias_growth=Interval(0.2, 0.1, 0.3))
    assert not holds
    assert why == "the bias towards one modality grows by 0.200"
    for harmless in (Interval(0.2, 0.0, 0.3), Interval(-0.4, -0.5, -0.3)):
        assert eligibility(scores(), RECALLS, bias_growth=harmless)[0]


def test_a_bias_towards_the_other_modality_is_a_bias_too(rng):
    shared = rng.normal(size=(200, 12))
    X, Y = (shared + 0.2 * rng.normal(size=shared.shape) for _ in range(2))
    evaluator = Evaluator(Modalities.of(X, Y), queries=("text",), wanted=(OWN_EXCESS,))
    # Images scored up for text queries: the index now returns images only.
    maps = {("image", "document"): Affine(12, scale=50.0), ("text", "document"): Affine(12)}
    favours = Correction(("image", "text"), maps, "inner_product")
    after = evaluator.resampled(favours)
    assert after[OWN_EXCESS][0] < -0.3
    assert evaluator.bias_growth(after).low > 0.2
    as_it_is = evaluator.resampled(Correction.identity(12))
    assert evaluator.bias_growth(as_it_is) == Interval(0.0, 0.0, 0.0)


# --- Splits --------------------------------------------------------------------------------------


def test_the_split_is_by_group_disjoint_and_50_25_25(rng):
    gx = rng.integers(0, 300, 500)
    gy = rng.integers(0, 320, 700)
    X = np.c_[gx, np.arange(500)].astype(float)
    Y = np.c_[gy, np.arange(700)].astype(float)
    found = split(Modalities.of(X, Y, groups=(gx, gy)), seed=1)
    parts = [found.fit, found.choose, found.confirm]
    both = np.intersect1d(gx, gy)
    # The first column holds each row's group.
    labels = [set(part.X[:, 0]) | set(part.Y[:, 0]) for part in parts]
    assert not labels[0] & labels[1]
    assert not labels[0] & labels[2]
    assert not labels[1] & labels[2]
    sizes = [part.n_groups for part in parts]
    assert sum(sizes) == len(both)
    np.testing.assert_allclose(sizes, np.array([0.5, 0.25, 0.25]) * len(both), atol=1)
    for part in parts:
        # Every row of a chosen group is there, and carries its own group.
        coded = dict(zip(part.groups[0], part.X[:, 0], strict=True))
        coded.update(zip(part.groups[1], part.Y[:, 0], strict=True))
        assert [coded[g] for g in part.groups[0]] == part.X[:, 0].tolist()
        assert [coded[g] for g in part.groups[1]] == part.Y[:, 0].tolist()
        assert len(part.X) == np.isin(gx, part.X[:, 0]).sum()
        assert len(part.Y) == np.isin(gy, part.Y[:, 0]).sum()
    # Rows without a match help fitting only.
    single = set(np.setxor1d(gx, gy))
    assert single <= labels[0]
    assert single


def test_the_split_depends_on_the_seed_alone(rng):
    X = rng.normal(size=(40, 2))
    data = Modalities.of(X, X)
    first, again, other = (split(data, seed).fit.X.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_rows_without_pairs_are_split_into_disjoint_halves_that_match_nowhere(rng):
    X, Y = rng.normal(size=(41, 2)), rng.normal(size=(30, 2))
    for sides in ((X, Y), (Embeddings.from_array(X), Embeddings.from_array(Y))):
        splits = split(Modalities.of(*sides, paired=False), seed=0)
        fit, judged = splits.fit, splits.confirm
        assert splits.choose is None
        assert len(judged.X) == len(judged.Y) == 15
        assert (len(fit.X), len(fit.Y)) == (26, 15)
        assert fit.n_groups == judged.n_groups == 0
        rows = {tuple(row) for row in np.vstack([fit.X, judged.X])}
        assert rows == {tuple(row) for row in X}


def test_correctors_are_named_as_they_are_written():
    assert Center().label == "Center()"
    assert Shift().label == "Shift(amount=0.5)"
    names = [corrector.label for corrector in DEFAULT_CORRECTORS]
    assert len(set(names)) == len(names)
    assert "OrthogonalShift(move='y', explained_variance=0.95)" in names
