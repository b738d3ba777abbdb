"""Yaras et al. 2024: every figure and table is there, and comes out as is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import EMBEDDINGS, PUBLISHED
from modgap._results import to_json
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, size_of
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.trained_tables import (
    GAP,
    every_setting,
    over_settings,
    trained,
)

KEYS = [f"yaras2024/{kind}{k}" for kind, n in (("fig", 7), ("table", 5)) for k in range(1, n + 1)]
VERDICTS = {
    "fig1": ("other data", "holds"),
    "fig2": ("own settings", "holds"),
    "fig3": ("other data", "holds"),
    "fig4": ("other data", "fails"),
    "fig5": ("other data", "fails"),
    "fig6": ("other data", "too small to say"),
    "fig7": ("other data", "too small to say"),
    "table1": ("consistency only", "holds"),
    "table2": ("other data", "fails"),
    "table3": ("other data", "holds"),
    "table4": ("other data", "fails"),
    "table5": ("other data", "too small to say"),
}
CHEAP = ("fig1", "fig2", "fig3", "fig6", "fig7", "table1", "table5")


pytestmark = pytest.mark.xdist_group("yaras2024")  # every entry is run once


@pytest.fixture(scope="module")
def outcomes() -> dict:
    """Each entry, run once with nothing but what comes with modgap."""
    return {key: PAPER.entries[key].run(Setting()) for key in KEYS}


def test_there_is_one_entry_per_figure_and_table_in_the_papers_order() -> None:
    assert list(PAPER.entries) == KEYS
    for entry in PAPER:
        assert entry.title
        assert entry.claim.endswith(".")
        assert entry.run is not None
        assert entry.draw is not None
        assert entry.fast
        assert entry.full


@pytest.mark.parametrize("key", KEYS)
def test_an_entry_comes_out_as_said_as_plain_numbers_and_as_a_picture(outcomes, key) -> None:
    import matplotlib.figure

    entry, outcome = PAPER.entries[key], outcomes[key]
    assert (outcome.kind, outcome.finding) == VERDICTS[key.partition("/")[2]]
    assert all(check.otherwise for check in outcome.checks)
    to_json(outcome)
    figure = entry.draw(outcome)
    assert isinstance(figure, matplotlib.figure.Figure)
    figure.savefig("/dev/null", format="png")
    _close()


def _close() -> None:
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("name", CHEAP)
def test_the_same_seed_gives_the_same_numbers(outcomes, name) -> None:
    key = f"yaras2024/{name}"
    assert PAPER.entries[key].run(Setting()).measured == outcomes[key].measured


@pytest.mark.parametrize("name", ["fig2", "fig4"])
def test_what_is_drawn_comes_out_the_same_with_another_seed(outcomes, name) -> None:
    key = f"yaras2024/{name}"
    outcome = PAPER.entries[key].run(Setting(seed=17))
    assert outcome.measured != outcomes[key].measured
    findings = [[check.finding for check in each.checks] for each in (outcome, outcomes[key])]
    assert findings[0] == findings[1]


@pytest.mark.published
@pytest.mark.parametrize("name", ["fig1", "fig3"])
def test_real_pairs_are_judged_where_they_are_at_hand(outcomes, name) -> None:
    if not (PUBLISHED / "features_clip.npy").exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    entry = PAPER.entries[f"yaras2024/{name}"]
    outcome = entry.run(Setting(embeddings=EMBEDDINGS))
    assert (outcome.kind, outcome.finding) == VERDICTS[name]
    claims = [check.statement for check in outcome.checks if check.about == "claim"]
    assert any("(CLIP)" in said for said in claims)
    assert not any("(digits)" in said for said in claims)
    alone = [check.statement for check in outcomes[entry.key].checks if check.about == "claim"]
    assert any("(digits)" in said for said in alone)
    assert "0.005" in outcomes[entry.key].on
    if name == "fig1":
        assert outcome.measured["gap, CLIP"] == pytest.approx(0.8514, abs=1e-4)
    entry.draw(outcome)
    _close()


def test_the_printed_rows_are_findings_about_the_paper(outcomes) -> None:
    for name, falls in (("fig6", 3), ("fig7", 2)):
        checks = [c for c in outcomes[f"yaras2024/{name}"].checks if c.about == "paper"]
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


def test_lemma_31s_ratio_falls_with_the_third_power(outcomes) -> None:
    measured = outcomes["yaras2024/fig2"].measured
    assert measured["power of β in R (lemma 3.1)"] == pytest.approx(-3, abs=1e-3)
    assert measured["largest relative error of lemma 3.1"] < 1e-6


def test_the_numbers_of_the_theory_are_those_of_the_definitions(outcomes) -> None:
    measured = outcomes["yaras2024/fig4"].measured
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


def test_the_trained_cells_are_the_means_of_the_runs(outcomes) -> None:
    runs = Setting().runs().of("FLT 0.07")
    assert len(runs) == 3
    measured = outcomes["yaras2024/table3"].measured
    expected = np.mean([run["metrics"]["pairs_gap_distance"] for run in runs])
    assert measured["0.07: modality gap"] == pytest.approx(expected)
    expected = 100 * np.mean([run["metrics"]["text_retrieval_recall@1"] for run in runs])
    assert measured["0.07: text retrieval"] == pytest.approx(expected)
    assert measured["0.07: seeds"] == 3


def test_the_gap_falls_with_the_fixed_temperature(outcomes) -> None:
    measured = outcomes["yaras2024/table3"].measured
    gaps = [measured[f"{name}: modality gap"] for name in ("0.01", "0.02", "0.04", "0.07", "0.1")]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 4 * gaps[-1]


def test_every_printed_setting_was_trained() -> None:
    found = trained(Setting(), every_setting()).rows
    assert len(found) == 26
    assert min(columns[GAP].n for columns in found.values()) >= 2


@pytest.mark.long
@pytest.mark.parametrize("key", KEYS)
def test_the_full_setting_comes_out_the_same(key) -> None:
    outcome = PAPER.entries[key].run(Setting(full=True))
    assert (outcome.kind, outcome.finding) == VERDICTS[key.partition("/")[2]]
