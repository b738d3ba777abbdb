"""Tasks swept over corrections: by hand, with a planted gap, on noise, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import unit
from modgap.core.results import to_json
from modgap.corrections import Calibrate, Center, OrthogonalShift, Shift
from modgap.evaluation.significance import compare
from modgap.io import Modalities
from modgap.reproduce.liang2022.zero_shot import Classification as ShiftedTask
from modgap.reproduce.liang2022.zero_shot import shift_sweep as shifted
from modgap.tasks import (
    CorrectionWay,
    HubWay,
    Published,
    Task,
    default_ways,
    sweep_task,
    zero_shot_hubs,
    zero_shot_task,
)
from modgap.tasks.sweep import halves_of
from task_rows import CLASSES, DIM, N, planted

SHIFT = CorrectionWay("Shift", (-1.0, -0.5, 0.25, 0.5, 1.0, 1.25), Shift(0.5))


def noise(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X, texts = rng.normal(size=(n, DIM)) + 1, rng.normal(size=(CLASSES, DIM)) - 1
    return X, texts, rng.integers(0, CLASSES, n)


def by_hand(X, texts, labels, share):
    """Liang et al., sec. 4.2, item by item."""
    X, texts = unit(X), unit(texts)
    gap = X.mean(axis=0) - texts.mean(axis=0)
    hits = []
    for x, label in zip(X, labels, strict=True):
        moved = x - share / 2 * gap
        scores = []
        for text in texts:
            other = text + share / 2 * gap
            scores.append(moved @ other / np.linalg.norm(moved) / np.linalg.norm(other))
        hits.append(int(np.argmax(scores)) == label)
    return np.array(hits, dtype=float)


def test_every_point_of_a_shift_equals_the_formula_item_by_item() -> None:
    X, texts, labels = planted(60)
    found = sweep_task(zero_shot_task(X, texts, labels), [SHIFT])
    np.testing.assert_array_equal(found.outcomes[0], by_hand(X, texts, labels, 0.0))
    for point in found.points:
        expected = by_hand(X, texts, labels, point.amount)
        np.testing.assert_array_equal(found.outcomes_at(point.way, point.amount), expected)
        assert point.value.value == pytest.approx(expected.mean())
        assert point.change.value == pytest.approx(expected.mean() - found.outcomes[0].mean())
        assert point.value.low <= point.value.value <= point.value.high


def test_a_shift_agrees_with_the_paper_s_reproduction_and_leaves_the_same_gap() -> None:
    X, texts, labels = planted(100)
    found = sweep_task(zero_shot_task(X, texts, labels), [SHIFT])
    # There an amount is what each side moves: half of the share of the gap.
    other = shifted(ShiftedTask(X, texts, labels), np.array(SHIFT.amounts) / 2)
    np.testing.assert_array_equal(found.outcomes[1:], other.hits)
    np.testing.assert_allclose([point.gap for point in found.points], other.gaps, atol=1e-12)
    assert found.points[-1].gap < 0 < found.raw.gap


def test_a_planted_gap_is_found_chosen_on_one_half_and_confirmed_on_the_other() -> None:
    X, texts, labels = planted()
    found = sweep_task(zero_shot_task(X, texts, labels), [SHIFT])
    chosen = found.chosen
    assert (chosen.way, chosen.helps) == ("Shift", True)
    assert 0.5 <= chosen.amount <= 1.25
    assert chosen.result.difference.value > 0.1
    assert chosen.result.p_value < 0.001
    assert chosen.result.n_groups == N // 2
    assert "it helps" in found.sentence
    # By hand: the other half, at the amount that is best on the first.
    first, second = halves_of(np.arange(N), 0)
    means = [found.outcomes[1 + k][first].mean() for k in range(len(SHIFT.amounts))]
    assert chosen.amount in np.array(SHIFT.amounts)[np.isclose(means, max(means))]
    after = found.outcomes_at("Shift", chosen.amount)[second]
    expected = compare(found.outcomes[0][second], after, seed=0)
    assert chosen.result == expected
    assert expected.test == "mcnemar"


def test_no_gain_is_claimed_on_noise() -> None:
    ways = [SHIFT, CorrectionWay("Center", (0.5, 1.0), Center())]
    claimed = [
        sweep_task(zero_shot_task(*noise(seed=seed)), ways, resamples=200, seed=seed).chosen.helps
        for seed in range(40)
    ]
    # One in forty by chance, as the intervals say: five is beyond the 99.8th percentile.
    assert sum(claimed) < 5


def test_where_nothing_is_better_the_rows_are_left_as_they_are() -> None:
    X = np.repeat(np.eye(6), 10, axis=0)
    found = sweep_task(zero_shot_task(X, np.eye(6), np.repeat(np.arange(6), 10)), [SHIFT])
    assert found.raw.value.value == 1
    assert (found.chosen.way, found.chosen.amount) == ("as they are", 0.0)
    assert not found.chosen.helps
    assert found.chosen.result.difference.value == 0
    assert found.sentence.startswith("Nothing was better")


def test_a_wish_for_less_turns_every_choice_round() -> None:
    X, texts, labels = planted()
    right = zero_shot_task(X, texts, labels)
    missed = lambda X, Y, metric: right.judge(X, Y, metric) != labels  # noqa: E731
    wrong = replace(right, right=None, judge=missed, better="lower")
    a, b = sweep_task(right, [SHIFT]), sweep_task(wrong, [SHIFT])
    assert (a.chosen.way, a.chosen.amount) == (b.chosen.way, b.chosen.amount)
    assert b.chosen.helps
    assert b.chosen.result.difference.value == pytest.approx(-a.chosen.result.difference.value)


def test_hubs_are_those_of_zero_shot_hubs_and_no_item_is_in_its_own_bank() -> None:
    every, texts, every_label = planted(400, seed=3)
    X, labels, bank = every[:300], every_label[:300], every[300:]
    ways = [HubWay(f"hubs {k}", (0.25, 0.5, 0.75), k) for k in (5, 10, 20, 50)]
    found = sweep_task(zero_shot_task(X, texts, labels), ways, seed=4)
    expected = zero_shot_hubs(X, texts, labels, seed=4)
    assert (found.chosen.way, found.chosen.amount) == (
        f"hubs {expected.neighbours}", expected.weight,
    )  # fmt: skip
    assert found.chosen.result == expected.gain
    given = sweep_task(zero_shot_task(X, texts, labels), ways[:1], bank=bank)
    correction = Calibrate(hubs=0.5, neighbours=5).fit(
        Modalities.of(X, texts, paired=False), queries="image", bank=bank
    )
    hits = zero_shot_task(X, texts, labels).score(correction.correction_).outcomes
    np.testing.assert_array_equal(given.outcomes_at("hubs 5", 0.5), hits)


def test_the_exact_orthogonal_shift_closes_gap_and_changes_no_outcome() -> None:
    X, texts, labels = planted()
    way = CorrectionWay("orthogonal", (0.5, 1.0), OrthogonalShift("y"))
    found = sweep_task(zero_shot_task(X, texts, labels), [way])
    assert found.points[1].gap < found.points[0].gap < found.raw.gap
    assert np.all(found.outcomes == found.outcomes[0])


def test_turning_scaling_and_reordering_items_changes_nothing() -> None:
    X, texts, labels = planted()
    found = sweep_task(zero_shot_task(X, texts, labels))
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    turned = sweep_task(zero_shot_task(3 * X @ turn, 0.2 * texts @ turn, labels))
    assert np.mean(found.outcomes != turned.outcomes) < 1e-3  # ties of rounding
    order = rng.permutation(N)
    task = zero_shot_task(X[order], texts, labels[order], groups=order)
    shuffled = sweep_task(task)
    np.testing.assert_array_equal(shuffled.outcomes[:, np.argsort(order)], found.outcomes)
    assert shuffled.chosen.way == found.chosen.way


def test_groups_stay_together_and_are_resampled_together() -> None:
    X, texts, labels = planted()
    groups = np.repeat(np.arange(N // 4), 4)
    found = sweep_task(zero_shot_task(X, texts, labels, groups=groups), [SHIFT])
    assert found.n_groups == N // 4
    assert found.chosen.result.test == "bootstrap"
    assert found.chosen.result.n_groups == N // 8
    first, second = halves_of(groups, 0)
    assert not set(first) & set(second)
    assert len(first) + len(second) == N // 4


def test_corrections_can_be_fitted_on_reference_rows() -> None:
    X, texts, labels = planted()
    task = zero_shot_task(X, texts, labels)
    own = sweep_task(task, [SHIFT])
    same = sweep_task(task, [SHIFT], fit_on=Modalities.of(X, texts, paired=False))
    np.testing.assert_array_equal(own.outcomes, same.outcomes)
    other = planted(80, seed=5, gap=0.5)
    elsewhere = sweep_task(task, [SHIFT], fit_on=other[:2])
    assert np.any(elsewhere.outcomes != own.outcomes)
    assert elsewhere.fitted_on == "80 image and 12 text reference rows"


def test_what_needs_pairs_is_tried_on_paired_reference_rows_alone(rng) -> None:
    X, texts, labels = planted()
    task = zero_shot_task(X, texts, labels)
    assert sweep_task(task, resamples=100).failures["Procrustes"] == "it needs pairs"
    pairs = X, X @ np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    assert "Procrustes" in sweep_task(task, fit_on=pairs, resamples=100).ways


def test_the_rows_of_a_task_are_never_taken_for_pairs() -> None:
    X, texts, _ = planted(CLASSES)
    found = sweep_task(zero_shot_task(X, texts, np.arange(CLASSES)), resamples=100)
    assert found.failures["Procrustes"] == "it needs pairs"
    assert "needs 20 rows in each half" in found.failures["hubs, k = 5"]


def test_parts_are_reported_apart() -> None:
    X, texts, labels = planted()
    parts = {"even": labels % 2 == 0, "odd": labels % 2 == 1}
    task = replace(zero_shot_task(X, texts, labels), parts=parts)
    found = sweep_task(task, [SHIFT])
    for name, mask in parts.items():
        assert found.raw.parts[name] == found.outcomes[0][mask].mean()
        _, second = halves_of(task.groups, 0)
        tested = np.isin(np.arange(N), second) & mask
        assert found.chosen.parts[name].n_groups == tested.sum()
    assert [row[0] for row in found.parts_table()[1]] == ["even", "odd"]


def test_results_are_tables_and_json_and_say_what_is_published() -> None:
    published = (Published(0.9081, "CIFAR10", "Liang et al. 2022, table 1"),)
    task = replace(zero_shot_task(*planted()), published=published)
    found = sweep_task(task)
    read = json.loads(to_json(found))
    assert read["published"] == [published[0].to_dict()]
    assert "outcomes" not in read
    assert len(read["points"]) == len(found.points) == sum(len(found.of(w)) - (len(found.of(w)) > 1)
                                                           for w in found.ways)  # fmt: skip
    header, rows = found.table()
    assert [row[0] for row in rows] == ["as they are", *found.ways]
    assert all(len(row) == len(header) for row in rows)
    assert {test.way for test in found.tests} == set(found.ways)
    calibrated = found.at("Calibrate", 1.0)
    assert np.isnan(calibrated.gap)
    assert calibrated.change.value == 0  # one modality: no ranking changes


def test_progress_counts_every_point() -> None:
    said = []
    task = zero_shot_task(*planted())
    sweep_task(task, progress=lambda *step: said.append(step), resamples=100)
    total = 1 + sum(len(way.amounts) for way in default_ways(task))
    assert {step[2] for step in said} == {total}
    assert [step[1] for step in said] == sorted(step[1] for step in said)
    assert said[-1][1] == total - 1


def test_torch_rows_give_the_same() -> None:
    torch = pytest.importorskip("torch")
    X, texts, labels = planted()
    a = sweep_task(zero_shot_task(X, texts, labels))
    b = sweep_task(zero_shot_task(torch.tensor(X), torch.tensor(texts), labels))
    assert np.mean(a.outcomes != b.outcomes) < 1e-3


def a_task(**changes) -> Task:
    X, texts, _ = planted(20)
    given = {
        "name": "any", "names": ("image", "text"), "X": X, "Y": texts,
        "judge": lambda X, Y, metric: np.ones(20), "groups": np.arange(20),
    }  # fmt: skip
    return Task(**{**given, **changes})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"groups": np.zeros((20, 1))}, "groups must give one label per item, got shape"),
        ({"x_groups": np.zeros(3)}, "x_groups must give one label per row: 20 rows, got shape"),
        ({"better": "best"}, "better must be"),
        ({"metric": "cosinus"}, "metric must be"),
        ({"roles": ("query", "answer")}, "role must be"),
        ({"names": ("image", "image")}, "names"),
        ({"Y": np.ones((4, 3))}, "image has 24 columns|same"),
        ({"X": np.zeros((20, 24))}, "zero"),
        ({"parts": {"a": np.arange(20)}}, "a Boolean for each of 20 items"),
        ({"parts": {"a": np.ones(3, bool)}}, "a Boolean for each of 20 items"),
    ],
)
def test_a_task_that_cannot_be_judged_is_refused(wrong, said) -> None:
    with pytest.raises(ValueError, match=said):
        a_task(**wrong)


@pytest.mark.parametrize("outcomes", [np.ones(3), np.full(20, np.nan)])
def test_a_judge_must_give_a_number_for_each_item(outcomes) -> None:
    with pytest.raises(ValueError, match="a finite outcome for each of 20 items"):
        sweep_task(a_task(judge=lambda X, Y, metric: outcomes))


def test_a_sweep_refuses_what_it_cannot_use() -> None:
    task = zero_shot_task(*planted(60))
    with pytest.raises(ValueError, match="at least two groups"):
        sweep_task(replace(task, groups=np.zeros(60)))
    with pytest.raises(ValueError, match="names of their own"):
        sweep_task(task, [SHIFT, SHIFT])
    with pytest.raises(ValueError, match="must have the modalities of the task"):
        sweep_task(task, fit_on=Modalities.of(task.X, task.X, ("a", "b")))
    with pytest.raises(ValueError, match="The bank has 5 rows of X"):
        sweep_task(task, bank=task.X[:5])
    with pytest.raises(ValueError, match="at least 20 queries"):
        sweep_task(task, bank=task.X[:5] + 0.001)
    with pytest.raises(ValueError, match="amounts"):
        CorrectionWay("Shift", (np.nan,), Shift())
    part = sweep_task(task, [CorrectionWay("more", (1.5,), Calibrate())])
    assert "does more than move rows" in part.failures["more"]
    with pytest.raises(ValueError, match="fit_on must have the 24 columns"):
        sweep_task(task, fit_on=(np.ones((5, 3)), np.eye(3)))


def test_the_task_of_your_own_in_the_docs_runs(pairs) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "research" / "tasks.md").read_text(
        encoding="utf-8"
    )
    code = page.split("```python")[-1].split("```")[0]
    given = {"X": pairs[0], "Y": pairs[1]}
    exec(compile(code, "tasks.md", "exec"), given)
    found = given["sweep"]
    nearest = np.argmax(unit(pairs[0]) @ unit(pairs[1]).T, axis=1)
    np.testing.assert_array_equal(found.outcomes[0], nearest == np.arange(len(nearest)))
    assert found.ways == ("Shift",)
