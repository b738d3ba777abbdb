"""Checks: statements with an alternative, intervals, and several seeds as one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modgap.reproduce import Entry, Outcome, Setting
from modgap.reproduce.checks import (
    above,
    below,
    by_reading,
    check,
    finding_of,
    pooled_check,
    read_as,
    resting_on,
)
from modgap.reproduce.run import pooled, run_seeds
from modgap.reproduce.statistics import Interval

NUMBERS = st.floats(-10, 10)


@given(NUMBERS, NUMBERS)
def test_a_number_is_beyond_its_bound_or_not(value, bound) -> None:
    assert above("It is.", value, bound).holds == (value > bound)
    assert below("It is.", value, bound).holds == (value < bound)


@given(st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), NUMBERS)
def test_an_interval_that_covers_the_bound_is_too_small_to_say(ends, bound) -> None:
    low, value, high = ends
    found = above("It is.", Interval(value, low, high), bound).finding
    assert found == ("holds" if low > bound else "fails" if high <= bound else "too small to say")
    mirrored = below("It is.", Interval(-value, -high, -low), -bound).finding
    assert mirrored == found


def test_what_was_not_measured_does_not_hold() -> None:
    for value in (np.nan, np.inf):
        assert above("It is.", value, 0.0).finding == "fails"
    assert below("It is.", 0.5, np.nan).finding == "fails"


def test_a_number_of_several_seeds_has_the_interval_of_its_mean() -> None:
    sure = pooled_check([above("It is.", value, 0.0) for value in (0.9, 1.0, 1.1)])
    assert (sure.finding, sure.value) == ("holds", pytest.approx(1.0))
    assert sure.low < 1 < sure.high
    unsure = pooled_check([above("It is.", value, 0.0) for value in (-0.5, 1.0, 0.6)])
    assert unsure.finding == "too small to say"
    not_so = pooled_check([above("It is.", value, 0.0) for value in (-0.5, -0.6, -0.4)])
    assert not_so.finding == "fails"


def test_a_null_that_is_drawn_with_the_number_is_taken_off_seed_by_seed() -> None:
    nulls = (0.0, 5.0, 10.0)
    found = pooled_check(
        [above("It is.", null + 0.1 + k / 100, null) for k, null in enumerate(nulls)]
    )
    assert (found.finding, found.bound) == ("holds", pytest.approx(5.0))


def test_a_number_with_an_interval_of_its_own_keeps_it() -> None:
    wide = [above("It is.", Interval(1.0, -1.0, 3.0), 0.0) for _ in range(10)]
    assert pooled_check(wide).finding == "too small to say"


def test_a_statement_without_a_number_must_come_out_the_same_with_every_seed() -> None:
    assert pooled_check([check("So.", True)] * 3).finding == "holds"
    assert pooled_check([check("So.", False)] * 3).finding == "fails"
    assert pooled_check([check("So.", True), check("So.", False)]).finding == "too small to say"


def test_one_statement_that_fails_decides_and_then_one_that_is_not_sure() -> None:
    so, not_so = check("So.", True), check("Not so.", False)
    unsure = above("It is.", Interval(0.1, -1.0, 1.0), 0.0)
    assert finding_of([so, unsure, not_so]) == "fails"
    assert finding_of([so, unsure]) == "too small to say"
    assert finding_of([so, so]) == "holds"


def test_only_statements_of_the_claim_decide() -> None:
    about_the_paper = check("The printed rows differ.", False, about="paper")
    found = Outcome({}, [check("So.", True), about_the_paper])
    assert found.finding == "holds"
    arithmetic = check("The sum is right.", False, about="consistency")
    assert Outcome({}, [check("So.", True), arithmetic]).finding == "holds"
    assert Outcome({}, [arithmetic, about_the_paper]).finding == "fails"


def entry(run) -> Entry:
    return Entry("paper/a", "T", "C.", "nothing", run=run)


def test_what_draws_is_run_with_every_seed_and_pooled() -> None:
    def run(setting: Setting) -> Outcome:
        value = np.random.default_rng(setting.seed).normal(1.0, 0.1)
        return Outcome({"value": value, "name": "x"}, [above("It is.", value, 0.0)], {"of": value})

    found, seeds = run_seeds(entry(run), Setting(seed=3, seeds=5))
    assert seeds == (3, 4, 5, 6, 7)
    each = [run(Setting(seed=seed)).measured["value"] for seed in seeds]
    assert found.measured == {"value": pytest.approx(np.mean(each)), "name": "x"}
    assert found.data == {"of": each[0]}
    assert found.finding == "holds"


def test_what_draws_nothing_is_run_twice_only() -> None:
    ran = []

    def run(setting: Setting) -> Outcome:
        ran.append(setting.seed)
        return Outcome({"value": 1.0}, [check("So.", True)])

    _, seeds = run_seeds(entry(run), Setting(seeds=10))
    assert (ran, seeds) == ([0, 1], (0,))


def test_statements_must_not_depend_on_the_seed() -> None:
    outcomes = [Outcome({}, [check(f"With seed {seed}.", True)]) for seed in (0, 1)]
    with pytest.raises(AssertionError, match="the same with every seed"):
        pooled(outcomes)


def test_what_a_check_reads_can_be_planted() -> None:
    seen = []

    def plant(name, value):
        seen.append(name)
        return value + 1

    assert Setting().read("rows", 1) == 1
    assert Setting(planted=plant).read("rows", 1) == 2
    assert seen == ["rows"]


SO, NOT_SO = check("So.", True), check("Not so.", False)
UNSURE = above("It is.", Interval(0.1, -1.0, 1.0), 0.0)


def readings(*findings):
    """A statement for each reading, which came out so."""
    return [one for k, found in enumerate(findings) for one in read_as(f"reading {k}", [found])]


@pytest.mark.parametrize(
    ("checks", "finding"),
    [
        (readings(SO, SO), "holds"),
        (readings(NOT_SO, NOT_SO), "fails"),
        (readings(SO, NOT_SO), "depends on the reading"),
        (readings(SO, NOT_SO, UNSURE), "depends on the reading"),
        (readings(SO, UNSURE), "too small to say"),
        (readings(NOT_SO, UNSURE), "too small to say"),
        ([NOT_SO, *readings(SO, NOT_SO)], "fails"),  # what fails in every reading fails
        ([UNSURE, *readings(SO, NOT_SO)], "too small to say"),
    ],
)
def test_a_claim_depends_on_the_reading_where_it_holds_in_one_and_fails_in_another(checks, finding):
    assert Outcome({}, checks).finding == finding
    assert Outcome({}, checks[::-1]).finding == finding


def test_each_reading_has_the_statements_that_all_share() -> None:
    found = by_reading([UNSURE, *readings(SO, NOT_SO)])
    assert found == {"reading 0": "too small to say", "reading 1": "fails"}


def premise(found):
    return above("It starts there.", found, 0.0, about="premise")


@pytest.mark.parametrize("claim", [SO, NOT_SO])
def test_a_claim_whose_premise_is_not_met_is_not_put_to_the_test(claim) -> None:
    met, unmet = premise(1.0), premise(-1.0)
    assert Outcome({}, resting_on(unmet, [claim])).finding == "premise not met"
    assert Outcome({}, resting_on(met, [claim])).finding == claim.finding
    assert Outcome({}, resting_on(premise(Interval(0, -1, 1)), [claim])).finding == UNSURE.finding
    # What rests on nothing decides before it.
    assert Outcome({}, [NOT_SO, *resting_on(unmet, [claim])]).finding == "fails"
    assert Outcome({}, [SO, *resting_on(unmet, [claim])]).finding == "premise not met"


def test_a_premise_over_seeds_is_one_and_the_statements_still_rest_on_it() -> None:
    runs = [Outcome({}, resting_on(premise(v), [check("So.", True)])) for v in (-1.0, -1.1, -0.9)]
    assert pooled(runs).finding == "premise not met"
    assert [each.premise for each in pooled(runs).checks] == ["", "It starts there."]


def test_a_premise_alone_is_no_claim() -> None:
    arithmetic = check("The sum is right.", True, about="consistency")
    assert Outcome({}, [premise(-1.0), arithmetic]).finding == "holds"
