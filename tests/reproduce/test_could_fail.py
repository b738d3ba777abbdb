"""Every check could fail: a violation planted in the rows it reads makes it fail."""

from __future__ import annotations

import importlib

import pytest

from conftest import EMBEDDINGS
from modgap.reproduce import Setting, entries
from modgap.reproduce.registry import PAPERS
from outcomes import outcome_of

MODULES = {paper: importlib.import_module(f"planted.{paper}") for paper in PAPERS}
RUN = [entry for entry in entries().values() if entry.run is not None]


def marked(entry):
    name, plants = entry.key.partition("/")[2], MODULES[entry.paper]
    marks = [pytest.mark.xdist_group(entry.paper)]  # shares the honest run with the paper's tests
    marks += (name in plants.SLOW) * [pytest.mark.long]
    marks += (name in plants.PUBLISHED) * [pytest.mark.published]
    return pytest.param(entry, id=entry.key, marks=marks)


@pytest.mark.parametrize("entry", list(map(marked, RUN)))
def test_a_planted_violation_makes_every_check_of_the_claim_fail(entry) -> None:
    plants = MODULES[entry.paper].PLANTS.get(entry.key.partition("/")[2], ())
    honest = outcome_of(entry.key)
    wanted = {check.statement for check in honest.checks if check.about == "claim"}
    failed: set[str] = set()
    for plant in plants:
        found = entry.run(Setting(embeddings=EMBEDDINGS, planted=plant.change))
        came = {check.statement for check in found.checks if check.finding == "fails"}
        for start in plant.fails:
            assert any(said.startswith(start) for said in came), (start, sorted(came))
        failed |= came
    assert wanted <= failed, sorted(wanted - failed)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_plants_are_those_of_entries_that_there_are(paper) -> None:
    names = {entry.key.partition("/")[2] for entry in RUN if entry.paper == paper}
    module = MODULES[paper]
    assert {*module.PLANTS, *module.SLOW, *module.PUBLISHED} <= names
