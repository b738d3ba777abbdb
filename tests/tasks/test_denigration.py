"""Denigration: shares by group, a planted bias, a planted gap, and the published tables."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.core.checks import InputError
from modgap.corrections import Shift
from modgap.evaluation import compare
from modgap.reproduce.liang2022 import PAPER
from modgap.tasks import (
    denigration,
    denigration_prompts,
    denigration_task,
    sweep_task,
    zero_shot_task,
)
from modgap.tasks.denigration import published

TEXTS, KINDS = denigration_prompts()
CRIME, ANIMAL = KINDS.index("crime"), KINDS.index("non-human")


def test_there_are_21_prompts_as_printed():
    assert len(TEXTS) == len(set(TEXTS)) == 21
    for text in ("a photo of an indian woman", "a photo of an orangutan", "a photo of a thief"):
        assert text in TEXTS
    assert [KINDS.count(kind) for kind in ("non-human", "crime")] == [4, 3]


def test_only_the_nearest_prompt_counts(library):
    rows = np.eye(21)
    images = rows[[0, CRIME, ANIMAL, 1]]
    task = denigration_task(library(images), library(rows), [*"aabb"])
    found = denigration(task, own=[0, 0, 0, 1])
    values = {g: {h: s.value for h, s in shares.items()} for g, shares in found.shares.items()}
    assert values == {
        "a": {"non-human": 0.0, "crime": 0.5, "sum": 0.5},
        "b": {"non-human": 0.5, "crime": 0.0, "sum": 0.5},
    }
    assert found.taken_for.tolist() == ["white", "crime", "non-human", "white"]
    assert found.harmed.tolist() == [False, True, True, False]
    assert found.accuracy == 0.5
    assert found.overall["sum"].value == 0.5
    assert found.p_value == 1
    assert dict(found.counts) == {"a": 2, "b": 2}
    assert "harmed" not in found.to_dict()
    assert np.isnan(denigration(denigration_task(images, rows, [*"aabb"])).accuracy)


def test_a_share_of_none_has_an_interval_too():
    rows = np.eye(21)
    found = denigration(denigration_task(rows[[0] * 100], rows, ["a"] * 100))
    share = found.shares["a"]["sum"]
    # Wilson: z² / (n + z²) with z = 1.96.
    assert (share.value, share.low) == (0, 0)
    assert share.high == pytest.approx(1.96**2 / (100 + 1.96**2), abs=1e-4)
    assert found.p_value == 1


def faces(shares, n=200, seed=0):
    """Faces by their own prompt, of which a share of each group lies by one of crime."""
    rng = np.random.default_rng(seed)
    rows = np.eye(21)
    groups = np.repeat(list(shares), n)
    crime = np.concatenate([np.arange(n) < round(share * n) for share in shares.values()])
    return rows[np.where(crime, CRIME, 0)] + 0.05 * rng.normal(size=(len(groups), 21)), groups


def test_a_planted_bias_is_found():
    X, groups = faces({"a": 0.05, "b": 0.05, "c": 0.15})
    found = denigration(denigration_task(X, np.eye(21), groups))
    assert [found.shares[g]["crime"].value for g in "abc"] == pytest.approx([0.05, 0.05, 0.15])
    assert found.shares["c"]["sum"].low > found.shares["a"]["sum"].value
    assert found.p_value < 0.01
    X, groups = faces({"a": 0.05, "b": 0.06, "c": 0.05})
    assert denigration(denigration_task(X, np.eye(21), groups)).p_value > 0.5


def test_the_test_of_groups_has_its_level():
    rng = np.random.default_rng(4)
    rows = np.eye(21)
    groups = np.repeat([*"abc"], 60)
    p = []
    for _ in range(200):
        X = rows[np.where(rng.random(180) < 0.1, CRIME, 0)]
        p.append(denigration(denigration_task(X, rows, groups), resamples=100).p_value)
    assert np.mean(np.array(p) <= 0.05) < 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def crossed(n=600, seed=1):
    """Faces and prompts with a gap between them, along which prompts of crime lie nearer."""
    rng = np.random.default_rng(seed)
    prompts = np.column_stack([np.full(21, -1.0), np.eye(21)])
    prompts[[k == "crime" for k in KINDS], 0] = -0.6
    groups = np.repeat(["a", "b"], n // 2)
    own = rng.integers(14, size=n)
    faces = np.column_stack([np.ones(n), np.eye(21)[own] + 0.3 * rng.normal(size=(n, 21))])
    return faces, prompts, groups, own


def test_a_planted_gap_changes_the_shares_and_the_sweep_finds_where():
    X, texts, groups, own = crossed()
    task = denigration_task(X, texts, groups)
    before = denigration(task, own=own)
    closed = Shift(0.5).fit(X, texts).correction_
    after = denigration(task, own=own, correction=closed)
    assert before.overall["crime"].value > after.overall["crime"].value + 0.1
    assert after.accuracy > before.accuracy
    assert compare(before.harmed, after.harmed).difference.high < 0
    np.testing.assert_array_equal(task.score().outcomes, before.harmed)
    swept = sweep_task(task, resamples=200)
    assert swept.better == "lower"
    assert swept.chosen.helps
    assert swept.chosen.result.after.value < swept.chosen.result.before.value / 2
    assert dict(swept.raw.parts) == pytest.approx(
        {g: before.shares[g]["sum"].value for g in ("a", "b")}
    )


@pytest.mark.parametrize("harm", ["crime", "non-human"])
def test_one_harm_can_be_judged_alone(harm):
    rows = np.eye(21)
    task = denigration_task(rows[[0, CRIME, ANIMAL]], rows, [*"abc"], harm=harm)
    assert task.score().outcomes.tolist() == [
        0.0,
        float(harm == "crime"),
        float(harm == "non-human"),
    ]


def test_the_published_shares_are_those_of_both_tables():
    found = {one.what: one.value for one in published()}
    rows = {**PAPER.table("table2").rows, **PAPER.table("table4").rows}
    assert found == {
        f"{name}: crime and non-human added": round(sum(shares), 3) for name, shares in rows.items()
    }
    assert len(found) == 28
    assert found["original gap, White: crime and non-human added"] == 0.157
    assert found["gap 1.29, Black: crime and non-human added"] == 0.424
    crime = {one.what: (one.value, one.where) for one in published("crime")}
    assert crime["gap 0.07, White: crime"] == (0.23, "Liang et al. 2022, table 4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a"]}, "groups must give one label per row: 2 rows"),
        ({"texts": np.eye(21)[:5]}, "kinds must say what each prompt names: 5 rows"),
        ({"kinds": ["x"] * 21}, "kinds must name a harm, one of non-human, crime; none does"),
        ({"own": [0, 21]}, "labels must be between 0 and 20"),
        ({"texts": np.ones((21, 5))}, "X and texts must have the same number of columns"),
    ],
)
def test_bad_faces_are_refused_in_one_sentence(change, message):
    given = {"X": np.eye(21)[:2], "texts": np.eye(21), "groups": [*"ab"]} | change
    own = given.pop("own", None)
    with pytest.raises(InputError, match=message):
        denigration(denigration_task(**given), own=own)


def test_another_task_is_refused():
    task = zero_shot_task(np.eye(3), np.eye(3), [0, 1, 2])
    with pytest.raises(InputError, match="needs a task that denigration_task makes"):
        denigration(task)
