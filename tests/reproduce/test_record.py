"""The verdicts on record are those that ten seeds give."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from conftest import EMBEDDINGS
from modgap.reproduce import Setting, entries, run_entry
from modgap.reproduce.record import SEEDS, change, recorded

README = Path(__file__).parents[2] / "README.md"
RUN = [entry for entry in entries().values() if entry.run is not None]


@pytest.mark.long
@pytest.mark.published
@pytest.mark.parametrize("entry", RUN, ids=lambda entry: entry.key)
def test_an_entry_comes_out_as_on_record(entry) -> None:
    report, _ = run_entry(entry, Setting(embeddings=EMBEDDINGS, seeds=SEEDS))
    assert report.ran, report.error or report.missing
    before = recorded()[entry.key]
    assert report.data == before.data
    assert change(report, recorded()) == ""


def test_every_verdict_on_record_has_its_seeds_and_what_decided_it() -> None:
    for key, found in recorded().items():
        assert found.seeds in ((0,) if found.finding is None else (1, SEEDS)), key
        if found.evidence not in ("missing", "consistency only"):
            assert found.decided_by, key


def test_the_readme_counts_the_verdicts_on_record() -> None:
    judged = [each for each in recorded().values() if each.evidence != "consistency only"]
    counts = Counter(each.finding for each in judged)
    (row,) = (line for line in README.read_text().splitlines() if "papers put to the test" in line)
    named = [int(number) for number in re.findall(r"\*\*(\d+)\*\*", row)]
    wanted = ("holds", "fails", "depends on the reading", "premise not met")
    assert named == [counts[finding] for finding in wanted]
    assert f"| {len(recorded())} figures and tables" in row
