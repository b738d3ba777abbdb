"""Matching of pairs: every choice of a set must be right, by pattern and after corrections."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.core.checks import InputError
from modgap.corrections import METRICS, Calibrate, Center
from modgap.reproduce.yaras2024 import PAPER
from modgap.tasks import pair_matching_task, sweep_task
from modgap.tasks.pair_matching import PUBLISHED
from task_rows import score

PATTERNS = np.repeat(["colour", "count", "text"], [6, 6, 8])


@pytest.fixture
def sets(rng):
    content = rng.normal(size=(20, 12))
    return content + rng.normal(size=(20, 12)), content + rng.normal(size=(20, 12))


def slow_hits(X, Y, metric, asking):
    queries, documents = (Y, X) if asking == "text" else (X, Y)
    hits = []
    for i in range(0, len(X), 2):
        (q, r), (d, e) = queries[i : i + 2], documents[i : i + 2]
        right = score(q, d, metric) > score(q, e, metric)
        hits.append(right and score(r, e, metric) > score(r, d, metric))
    return np.array(hits)


@pytest.mark.parametrize("asking", ["text", "image"])
@pytest.mark.parametrize("metric", METRICS)
def test_sets_and_patterns_equal_brute_force(sets, metric, asking, library):
    X, Y = sets
    expected = slow_hits(X, Y, metric, asking)
    task = pair_matching_task(library(X), library(Y), PATTERNS, asking=asking, metric=metric)
    found = task.score()
    np.testing.assert_array_equal(found.outcomes, expected)
    by_pattern = [expected[:3].mean(), expected[3:6].mean(), expected[6:].mean()]
    assert found.parts == pytest.approx(
        dict(zip(("colour", "count", "text"), by_pattern, strict=True))
    )
    assert found.mean == expected.mean()
    assert found.chance == 1 / 4
    assert found.n == 10


def test_guessing_matches_a_quarter_of_the_sets():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(2, 40_000, 16))
    for asking in ("text", "image"):
        found = pair_matching_task(X, Y, asking=asking).score()
        assert found.mean == pytest.approx(found.chance, abs=0.03)
        assert found.parts == {}


def test_a_tie_is_no_match():
    same = np.ones((2, 3))
    assert pair_matching_task(same, np.eye(3)[:2], asking="text").score().mean == 0
    assert pair_matching_task(np.eye(3)[:2], np.eye(3)[:2]).score().mean == 1


@pytest.mark.parametrize("asking", ["text", "image"])
def test_corrections_map_who_asks_as_queries(sets, asking):
    X, Y = sets
    correction = Calibrate().fit(X, Y, queries=asking).correction_
    task = pair_matching_task(X, Y, asking=asking)
    found = task.score(correction)
    if asking == "text":
        mapped = correction.x(X), correction.y(Y, "query")
    else:
        mapped = correction.x(X, "query"), correction.y(Y)
    np.testing.assert_array_equal(found.outcomes, slow_hits(*mapped, correction.metric, asking))
    assert task.names == (("text", "image") if asking == "text" else ("image", "text"))


def test_a_sweep_reports_patterns_and_the_published_table(sets):
    X, Y = sets
    task = pair_matching_task(X, Y, PATTERNS)
    swept = sweep_task(task, resamples=100)
    assert dict(swept.raw.parts) == task.score().parts
    centred = task.score(Center().fit(X, Y).correction_)
    np.testing.assert_array_equal(swept.outcomes_at("Center", 1.0), centred.outcomes)
    assert swept.published == PUBLISHED


def test_a_planted_gap_is_found():
    # Each image leans toward or away from the texts; with a gap the one that leans toward wins.
    rng = np.random.default_rng(2)
    shared = np.repeat(rng.normal(size=(200, 32)), 2, axis=0)
    content = (shared + 0.5 * rng.normal(size=(400, 32))) / 32**0.5
    Y = np.column_stack([np.full(400, 1.0), content + rng.normal(size=(400, 32)) * 0.05])
    X = np.column_stack(
        [-1.0 + rng.normal(size=400) * 0.4, content + rng.normal(size=(400, 32)) * 0.05]
    )
    swept = sweep_task(pair_matching_task(X, Y), resamples=200)
    assert swept.chosen.helps
    assert swept.chosen.result.difference.value > 0.1


def test_the_published_numbers_are_means_of_three_trainings_on_135_sets():
    found, table = PUBLISHED, PAPER.table("table1")
    printed = [row[table.columns.index("MMVP-VLM")] / 100 for row in table.rows.values()]
    assert [one.value for one in found] == printed
    assert found[0].value == pytest.approx(0.14321)
    assert "baseline (modality gap 0.294)" in found[0].what
    sums = [one.value * 3 * 135 for one in found]
    assert len(sums) == 7
    assert sums == pytest.approx(np.round(sums), abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.eye(3), "Y": np.eye(3), "patterns": None}, "sets of two rows, got 3 rows"),
        ({"Y": np.eye(4)[:2]}, "same pairs row by row"),
        ({"patterns": ["a", "b", "c", "c"]}, "rows 0 and 1 are of 'a' and 'b'"),
        ({"patterns": ["a"]}, "patterns must give one label per row"),
        ({"asking": "texts"}, "asking must be one of .* Did you mean 'text'"),
    ],
)
def test_bad_sets_are_refused_in_one_sentence(change, message):
    given = {"X": np.eye(4), "Y": np.eye(4), "patterns": [*"aabb"]} | change
    with pytest.raises(InputError, match=message):
        pair_matching_task(**given)
