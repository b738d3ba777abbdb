"""The benchmark of mix-ups, small: honest rows raise no alarm, and mix-ups are noticed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mixups
from conftest import PUBLISHED

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "search" / "mix-ups.md"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> list[mixups.Set]:
    """The sets that are there (the digits and Flickr8k always are), and fewer rotations."""
    monkeypatch.setattr(mixups, "ROTATIONS", 2)
    mixups.rotations.cache_clear()
    return list(mixups.real_sets(PUBLISHED.parent))


def test_a_few_runs_raise_no_alarm_on_pairs_and_notice_what_is_wrong(
    sets: list[mixups.Set],
) -> None:
    for title, rates in mixups.run_pairs(sets, runs=10, seed=1).items():
        assert rates.cell("honest pairs") == "0.0 %", title
        assert rates.cell("shuffled") == "100.0 %", title


def test_a_few_runs_refuse_no_honest_rows_and_notice_what_is_wrong(
    sets: list[mixups.Set],
) -> None:
    for title, rates in mixups.run_rows(sets, runs=5, seed=1).items():
        for honest in ("random batch", "one topic", "other data"):
            assert not any(refused for refused, _ in rates.counts.get(honest, [])), title
        assert all(said for _, said in rates.counts["swapped"]), title
        if title == "Flickr8k":  # its gap is too small to refuse, its means to tell other models
            continue
        assert rates.cell("swapped") == "100.0 %", title
        for wrong in ("other model", "rotated"):
            assert all(said for _, said in rates.counts.get(wrong, [])), title


def test_sets_that_are_absent_are_left_out(tmp_path: Path) -> None:
    assert [one.title for one in mixups.real_sets(tmp_path)] == ["digits", "Flickr8k"]


def test_the_example_of_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "mix-ups.md", "exec"), names)
    assert f"data.pairing  # {names['data'].pairing}\n" in code
