"""Yaras et al. 2024: what is printed, trained and found in numbers, and how it is measured."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.reproduce import Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, size_of
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.trained_tables import (
    GAP,
    every_setting,
    over_settings,
    trained,
)
from outcomes import outcome_of, published_outcome

pytestmark = pytest.mark.xdist_group("yaras2024")  # every entry is run once


def alone(name: str) -> Outcome:
    """What an entry finds with nothing but what comes with modgap."""
    return outcome_of(f"yaras2024/{name}", published=False)


@pytest.mark.published
@pytest.mark.parametrize("name", ["fig1", "fig3"])
def test_real_pairs_are_judged_where_they_are_at_hand(name) -> None:
    found = published_outcome(f"yaras2024/{name}")
    real, made = (
        [check.statement for check in each.checks if check.about == "claim"]
        for each in (found, alone(name))
    )
    assert any("(CLIP)" in said for said in real)
    assert not any("(digits)" in said for said in real)
    assert any("(digits)" in said for said in made)
    assert "0.005" in alone(name).on
    if name == "fig1":
        assert found.measured["gap, CLIP"] == pytest.approx(0.8514, abs=1e-4)
    assert PAPER.entries[f"yaras2024/{name}"].draw(found)


def test_the_printed_rows_are_findings_about_the_paper() -> None:
    for name, falls in (("fig6", 3), ("fig7", 2)):
        checks = [c for c in alone(name).checks if c.about == "paper"]
        failed = [check for check in checks if check.finding == "fails"]
        assert len(failed) == falls
        assert all(check.statement.startswith("On all rows of tables 2 to 5") for check in failed)


def test_an_interval_over_settings_is_wider_than_over_seeds() -> None:
    seeds = Interval(-0.7, np.tanh(np.arctanh(-0.7) - 0.2), np.tanh(np.arctanh(-0.7) + 0.2))
    few, many = (over_settings(seeds, n) for n in (7, 7_000_000))
    assert few.low < many.low < seeds.low
    assert seeds.high < many.high < few.high
    assert many.high == pytest.approx(seeds.high, abs=1e-4)
    assert few.high > 0
    assert size_of(few) == Interval(0.7, 0.0, -few.low)
    assert size_of(Interval(-0.5, -0.7, -0.3)) == Interval(0.5, 0.3, 0.7)


def test_lemma_31s_ratio_falls_with_the_third_power() -> None:
    measured = alone("fig2").measured
    assert measured["power of β in R (lemma 3.1)"] == pytest.approx(-3, abs=1e-3)
    assert measured["largest relative error of lemma 3.1"] < 1e-6


def test_the_numbers_of_the_theory_are_those_of_the_definitions() -> None:
    measured = alone("fig4").measured
    bound = measured["theorem 3.3's bound (d 3, β₀ 1, γ₀ 0.3, n 8,000)"]
    assert bound == pytest.approx(0.116, abs=5e-4)
    assert measured["2 dγ/dt there"] == pytest.approx(0.343, abs=0.01)
    assert measured["R² of Δ against −1/log(t)²"] > 0.99


def test_the_tables_have_every_printed_cell() -> None:
    tables = [PAPER.table(f"table{k}") for k in range(1, 6)]
    assert [len(table.rows) for table in tables] == [7, 7, 9, 7, 9]
    cells = {
        f"yaras2024/table{k}": n for k, n in zip(range(1, 6), (21, 42, 54, 42, 54), strict=True)
    }
    assert {key: len(PAPER.entries[key].published) for key in cells} == cells
    # Rows that two tables share are the same in both, up to the digits printed.
    for row, other, same in (("FLT", 3, "0.04"), ("TS", 4, "S3"), ("TR", 5, "softplus")):
        assert tables[other - 1].columns == tables[1].columns
        np.testing.assert_allclose(tables[1].rows[row], tables[other - 1].rows[same], atol=0.006)
    assert tables[0].column(GAP, ["TS S2"]) == tables[3].column(GAP, ["S2"])
    gaps = dict(zip(tables[1].rows, tables[1].column(GAP), strict=True))
    published = PAPER.entries["yaras2024/fig5"].published
    assert published == {f"gap, {row}": value for row, value in gaps.items()}


def test_the_trained_cells_are_the_means_of_the_runs() -> None:
    runs = Setting().runs().of("FLT 0.07")
    assert len(runs) == 3
    measured = alone("table3").measured
    expected = np.mean([run["metrics"]["pairs_gap_distance"] for run in runs])
    assert measured["0.07: modality gap"] == pytest.approx(expected)
    expected = 100 * np.mean([run["metrics"]["text_retrieval_recall@1"] for run in runs])
    assert measured["0.07: text retrieval"] == pytest.approx(expected)
    assert measured["0.07: seeds"] == 3


def test_the_gap_falls_with_the_fixed_temperature() -> None:
    measured = alone("table3").measured
    gaps = [measured[f"{name}: modality gap"] for name in ("0.01", "0.02", "0.04", "0.07", "0.1")]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 4 * gaps[-1]


def test_every_printed_setting_was_trained() -> None:
    found = trained(Setting().runs(), every_setting()).rows
    assert len(found) == 26
    assert min(columns[GAP].n for columns in found.values()) >= 2
