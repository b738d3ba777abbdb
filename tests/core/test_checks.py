"""What is said about other libraries' errors, near names and missing libraries."""

from __future__ import annotations

import json

import pytest

from modgap.core.checks import did_you_mean, first_line, require


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("No room.\nTried 80 GiB."), "No room"),
        (ValueError("\n  late  \nmore"), "late"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_an_error_is_one_line(error, line):
    assert first_line(error) == line


def test_a_near_name_is_named_and_a_far_one_is_not():
    assert did_you_mean("trian", ["data", "train"]) == " Did you mean 'train'?"
    assert did_you_mean("xyz", ["data", "train"]) == ""


def test_the_first_module_that_is_there_is_taken():
    assert require(("modgap.not_there", "json"), "", "Reading") is json


@pytest.mark.parametrize(
    ("package", "sentence"),
    [
        ("", r"Reading needs not_there, .*pip install 'modgap\[train\]'$"),
        ("not-there", "Reading needs not-there, .*pip install not-there$"),
    ],
)
def test_a_missing_library_says_how_to_get_it(package, sentence):
    with pytest.raises(ImportError, match=sentence):
        require("not_there", "train", "Reading", package=package)
