"""Tables of results go to pandas and to LaTeX as they are shown."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import modgap
from modgap.core.tables import HasTable
from modgap.search import Hits


class Shown(HasTable):
    def __init__(self, header, *rows):
        self.shown = header, list(rows)

    def table(self):
        return self.shown


@pytest.fixture(scope="module")
def data():
    digits = modgap.load_digits()
    return modgap.Modalities.of(digits.X[:120], digits.Y[:600], groups=(
        digits.groups[0][:120], digits.groups[1][:600]))  # fmt: skip


def test_numbers_keep_their_value_and_kind():
    table = Shown(
        ("", "count", "change", "p", "name"),
        ("one", "1,234", "−0.25", "2.5e-07", "a"),
        ("two", "–", "+0.5*", "", "7"),
        ("three", "3", "0", "1", "→ b"),
    ).to_pandas()
    assert list(table.index) == ["one", "two", "three"]
    np.testing.assert_array_equal(table["count"], [1234, np.nan, 3])
    np.testing.assert_array_equal(table["change"], [-0.25, 0.5, 0])
    np.testing.assert_array_equal(table["p"], [2.5e-7, np.nan, 1])
    assert list(table["name"]) == ["a", "7", "→ b"]
    assert Shown(("query", "n"), ("0", "1,000")).to_pandas()["n"].dtype.kind == "i"


def test_an_interval_becomes_three_columns():
    table = Shown(("", "recall"), ("a", "0.500 [0.400, 0.600]"), ("b", "–")).to_pandas()
    assert list(table.columns) == ["recall", "recall low", "recall high"]
    np.testing.assert_array_equal(table.loc["a"], [0.5, 0.4, 0.6])
    assert table.loc["b"].isna().all()


def test_a_table_without_rows_keeps_its_columns():
    assert list(
        Shown(
            ("", "a"),
        )
        .to_pandas()
        .columns
    ) == ["a"]
    assert Shown(("", "a")).to_latex().count(r"\\") == 1


def test_a_real_result_has_its_metrics_in_the_frame(data):
    found = modgap.retrieval(data, k=(1, 5))
    table = found.to_pandas()
    recall = found.recall()
    assert table.loc["text finds image", "recall@1"] == pytest.approx(
        recall["image_retrieval_recall@1"], abs=5e-4
    )
    assert table.loc["text finds image", "queries"] == 600
    measured = modgap.measure(data).to_pandas()
    assert measured.loc["gap distance", "both"] == pytest.approx(
        modgap.gap_distance(data), abs=1e-4
    )


def test_hits_keep_ids_as_they_are_and_every_digit():
    hits = Hits(
        ids=np.array([["007", "b"], ["c", None]], dtype=object),
        scores=np.array([[1 / 3, 0.25], [0.125, -np.inf]]),
        modalities=np.array([["text", "image"], ["image", ""]], dtype=object),
        expected_wrong=np.array([[0.1, 2.0], [3.0, np.inf]]),
    )
    table = hits.to_pandas()
    assert list(table["id"]) == ["007", "b", "c"]
    assert list(table["query"]) == [0, 0, 1]
    assert list(table["rank"]) == [1, 2, 1]
    assert table["score"][0] == 1 / 3
    assert list(table["expected_wrong"]) == [0.1, 2.0, 3.0]
    assert "source" not in table


def test_latex_is_escaped_and_framed():
    text = Shown(("", "50 %"), ("a_b & {c}", "−1"), ("~^\\", "→ #")).to_latex("Of $", "tab:x")
    assert r"a\_b \& \{c\} & $-$1 \\" in text
    assert r"50 \%" in text
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{} & $\rightarrow$ \#" in text
    assert text.startswith("\\begin{table}\n\\centering\n\\begin{tabular}{lr}")
    assert "\\caption{Of \\$}\n\\label{tab:x}\n\\end{table}" in text


def test_pandas_is_named_where_it_is_missing(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas needs pandas.*pip install pandas"):
        modgap.retrieval(data).to_pandas()
