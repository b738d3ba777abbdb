"""The benchmark of expected wrong results, small: rivals against loops, and its tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

import asked_and_got
import list_rivals as rivals
import make_expected_wrong
from conftest import unit
from expected_wrong import Rows, number_within, of_both_kinds, of_one_kind, scored


@pytest.fixture
def data(rng):
    """Sixty items with an image and two texts each, one of which asks."""
    topics = rng.normal(size=(60, 12))
    images, texts, others = (
        unit(topics + 0.4 * rng.normal(size=topics.shape) + side).astype(np.float32)
        for side in (1.0, -1.0, -1.0)
    )
    groups = np.arange(60)
    return Rows((images, texts), (groups, groups), (others, groups))


def test_score_fusions_are_those_of_loops(rng):
    line = np.sort(rng.normal(size=40))[::-1]
    found = [one(line[None])[0] for one in (rivals.rrf, rivals.min_max, rivals.dbsf)]
    mean = sum(line) / 40
    deviation = math.sqrt(sum((s - mean) ** 2 for s in line) / 39)
    for place, s in enumerate(line):
        assert found[0][place] == pytest.approx(1 / (60 + place + 1))
        assert found[1][place] == pytest.approx((s - line[-1]) / (line[0] - line[-1]))
        assert found[2][place] == pytest.approx((s - mean + 3 * deviation) / (6 * deviation))


def test_the_best_columns_are_the_first_of_a_sort(rng):
    scores = rng.normal(size=(7, 50))
    for k in (3, 50, 80):
        found = rivals.best_columns(scores, k)
        np.testing.assert_array_equal(found, np.argsort(-scores, axis=1)[:, :k])


def test_rows_of_a_group_are_numbered_in_their_order():
    assert number_within(np.array([3, 1, 3, 1, 1, 2])).tolist() == [0, 0, 1, 1, 2, 0]


def test_an_item_is_there_once_and_asked_for_in_the_other_modality(data, rng):
    others = unit(rng.normal(size=(25, 12))).astype(np.float32)
    asked = of_one_kind(data, 1, 0.5, rng, (others, None))
    images, texts = asked.list_groups.values()
    assert set(asked.groups) == set(images) - {-1}
    assert not set(images) & set(texts)
    assert np.sum(images == -1) == 25
    both = of_both_kinds(data, 0.5, rng)
    assert all(set(both.groups) == set(own) for own in both.list_groups.values())


def test_every_rival_beats_chance_and_scores_as_the_library_does(data, rng):
    found = scored(of_both_kinds(data, 0.5, rng), rng)
    assert [*found] == [*rivals.RIVALS]
    for name, (gain, _) in found.items():
        assert 0.3 < gain <= 1, name


def test_a_threshold_lets_as_many_wrong_ones_pass_as_asked(rng):
    known = rng.normal(size=(200, 30))
    wrong = rng.random(known.shape) < 0.8
    passed = asked_and_got.by_threshold(known, known, wrong)
    for asked, passes in zip(asked_and_got.ASKED, passed, strict=True):
        assert np.sum(passes & wrong) == asked * 200


def test_half_of_the_queries_have_a_match(data, rng):
    one = asked_and_got.one_list(data, 1, rng, None)
    assert np.mean(one.has_match) == 0.5
    assert set(one.owners) <= set(one.groups)


def test_the_page_shows_what_was_saved():
    page = make_expected_wrong.PAGE.read_text(encoding="utf-8")
    for name, content in make_expected_wrong.tables().items():
        assert f"<!-- {name}: start -->\n{content}\n<!-- {name}: end -->" in page
