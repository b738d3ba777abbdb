"""What a release needs: one version everywhere, and a page that works from the wheel alone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import modgap
from modgap.reports import assemble

ROOT = Path(__file__).parents[1]


@pytest.fixture
def check_words():
    return runpy.run_path(str(ROOT / "tools" / "check_release.py"))["check_words"]


def test_source_changelog_and_citation_name_one_version(check_words):
    check_words(None)


def test_a_release_of_another_version_or_without_a_date_is_refused(check_words, tmp_path):
    with pytest.raises(SystemExit, match=r"Name the tag v\d+\.\d+\.\d+"):
        check_words("v99.0.0")
    (tmp_path / "CHANGELOG.md").write_text("## 1.0.0 — 2020-02-02\n", encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text("version: 1.0.0\n", encoding="utf-8")
    check_words.__globals__["ROOT"] = tmp_path
    with pytest.raises(SystemExit, match="Write the same version in all three"):
        check_words(None)
    check_words.__globals__["VERSION"] = "1.0.0"
    check_words("v1.0.0")
    (tmp_path / "CHANGELOG.md").write_text("## 1.0.0 — unreleased\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="write the day of the release"):
        check_words("v1.0.0")


def test_the_script_in_the_wheel_is_taken_before_the_package_of_plotly(tmp_path, monkeypatch):
    monkeypatch.setattr(assemble, "_PAGE", tmp_path)
    (tmp_path / "plotly.min.js").write_text("// built in", encoding="utf-8")
    assert assemble.plotly_script() == "// built in"


def test_the_version_is_that_of_the_file():
    said = runpy.run_path(str(ROOT / "src" / "modgap" / "_version.py"))["__version__"]
    assert modgap.__version__ == said
