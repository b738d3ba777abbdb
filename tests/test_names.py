"""A public name is defined once; each exception has its reason here."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import modgap

_COMMAND = "a command has the name of the function it runs"
_PROGRAM = "the way into a program, as everywhere in Python"

REASONS = {
    "diagnose": _COMMAND,
    "embed": _COMMAND,
    "fix": _COMMAND,
    "main": _PROGRAM,
    "measure": _COMMAND,
    "migrate": _COMMAND,
    "open_by_name": "every kind of encoder has one, called by the same line",
    "report": _COMMAND,
    "reproduce": _COMMAND,
    "train": _COMMAND,
    "vslerp": _COMMAND,
}
# Functions that make the figures and tables of a paper have the paper's numbers.
_PAPERS = "reproduce"
_NUMBERED = ("fig", "table")


def public_names() -> Counter[str]:
    """Every public class and function at the top of a module, and how often it is defined."""
    source = Path(modgap.__file__).parent
    names: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        in_papers = path.relative_to(source).parts[0] == _PAPERS
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            numbered = node.name.rstrip("0123456789") in _NUMBERED
            if not node.name.startswith("_") and not (in_papers and numbered):
                names[node.name] += 1
    return names


def test_every_public_name_is_defined_once_or_has_a_reason():
    repeated = {name for name, count in public_names().items() if count > 1}
    new = sorted(repeated - set(REASONS))
    assert not new, f"defined twice: {new}. Rename one, or give the reason in REASONS."
    stale = sorted(set(REASONS) - repeated)
    assert not stale, f"defined once by now: {stale}. Drop them from REASONS."
