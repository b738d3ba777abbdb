"""Yaras et al. 2024: every figure and table is there, and comes out as on record."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import PUBLISHED
from modgap._results import to_json
from modgap.reproduce.record import recorded
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.yaras2024 import PAPER
from modgap.reproduce.yaras2024.measured import GAP, every_setting, trained

KEYS = [f"yaras2024/{kind}{k}" for kind, n in (("fig", 7), ("table", 5)) for k in range(1, n + 1)]
HERE = [key for key in KEYS if PAPER.entries[key].needs != "embeddings"]
CHEAP = ("fig2", "fig3", "fig6", "fig7", "table1", "table5")


@pytest.fixture(scope="module")
def outcomes() -> dict:
    """Each entry that needs no file, run once."""
    return {key: PAPER.entries[key].run(Setting()) for key in HERE}


def test_there_is_one_entry_per_figure_and_table_in_the_papers_order() -> None:
    assert list(PAPER.entries) == KEYS
    for entry in PAPER:
        assert entry.title
        assert entry.claim.endswith(".")
        assert entry.run is not None
        assert entry.draw is not None
        assert entry.fast
        assert entry.full


@pytest.mark.parametrize("key", HERE)
def test_an_entry_comes_out_as_on_record_as_plain_numbers_and_as_a_picture(outcomes, key) -> None:
    import matplotlib.figure

    entry, outcome = PAPER.entries[key], outcomes[key]
    on_record = recorded()[key]
    assert (outcome.verdict, outcome.holds) == (on_record.verdict, on_record.holds)
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
def test_the_synthetic_claims_hold_at_another_seed(name) -> None:
    outcome = PAPER.entries[f"yaras2024/{name}"].run(Setting(seed=7))
    # What training does is on record and has seeds of its own.
    synthetic = [check for check in outcome.checks if "train" not in check.statement]
    assert len(synthetic) >= 3
    assert all(check.holds for check in synthetic), synthetic


def test_fig1_needs_the_authors_embeddings_and_says_so() -> None:
    with pytest.raises(NotAtHand, match=r"features_clip.npy are not at hand.*--embeddings DIR"):
        PAPER.entries["yaras2024/fig1"].run(Setting())


@pytest.mark.published
def test_fig1_shows_the_gap_of_clip() -> None:
    if not (PUBLISHED / "features_clip.npy").exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    entry = PAPER.entries["yaras2024/fig1"]
    outcome = entry.run(Setting(embeddings=EMBEDDINGS))
    assert outcome.verdict == "other data"
    assert outcome.holds
    assert outcome.measured["gap after training"] == pytest.approx(0.8514, abs=1e-4)
    entry.draw(outcome)
    _close()


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
@pytest.mark.parametrize("key", HERE)
def test_the_full_setting_comes_out_as_on_record(key) -> None:
    outcome = PAPER.entries[key].run(Setting(full=True))
    assert (outcome.verdict, outcome.holds) == (
        recorded()[key].verdict,
        recorded()[key].holds,
    )
