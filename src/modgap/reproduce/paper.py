"""A paper: what its ``paper.toml`` declares, joined with the functions that run its entries."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.reproduce.checks import About, Check, above, below, check
from modgap.reproduce.drawing import draw_panels
from modgap.reproduce.entry import Entry, Evidence, Number, Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Sentences that entries of several papers share.
SENTENCES = Path(__file__).with_name("sentences.toml")
# What a paper's file declares beside its entries.
_NO_ENTRY = ("title", "sentences", "claims", "premises", "printed", "consistency", "panels")
# Where it declares what checks state → what they are about.
ABOUT: Mapping[str, About] = {
    "claims": "claim",
    "premises": "premise",
    "printed": "paper",
    "consistency": "consistency",
}
# What parts a statement from what would be seen if it did not hold.
_OTHERWISE = " Otherwise: "
# Words of an entry, in which {name} stands for a sentence.
_WORDS = ("title", "claim", "how", "fast", "full", "on", "note")

Run = Callable[[Setting], Outcome]


@dataclass(frozen=True)
class PrintedTable:
    """A table of numbers as a paper prints it."""

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Any, ...]]

    def column(self, name: str, rows: Iterable[str] | None = None) -> np.ndarray:
        """One column from top to bottom, of some rows or of all."""
        place = self.columns.index(name)
        return np.array([self.rows[row][place] for row in (self.rows if rows is None else rows)])

    def points(self, x: str, y: str, rows: Iterable[str] | None = None) -> np.ndarray:
        """Two columns as points (n, 2)."""
        return np.column_stack([self.column(name, rows) for name in (x, y)])

    def cells(self, name: str = "{row}: {column}") -> dict[str, Number]:
        """Every cell, row by row, under a name made of its row and column."""
        return {
            name.format(row=row, column=column): value
            for row, values in self.rows.items()
            for column, value in zip(self.columns, values, strict=True)
        }


class Paper:
    """The entries of one paper, in its own order.

    ``folder`` holds ``paper.toml``, which declares them and their pictures, and the modules whose
    functions ``run`` registers. Neither is read before it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, folder.name
        self._runs: dict[str, Run] = {}
        self._runs_on_model: dict[str, Run] = {}

    def run(self, name: str) -> Callable[[Run], Run]:
        """Register the function below as what runs an entry."""
        return partial(_register, self._runs, name)

    def run_on_model(self, name: str) -> Callable[[Run], Run]:
        """Register the function below as what runs an entry where a model and data are given."""
        return partial(_register, self._runs_on_model, name)

    @cached_property
    def sentences(self) -> dict[str, str]:
        """Sentences that entries share, by name; one may use those before it."""
        shared = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
        found: dict[str, str] = {}
        for name, text in {**shared, **self.declared.get("sentences", {})}.items():
            found[name] = one_line(text).format_map(found)
        return found

    def rows_words(self, name: str) -> str:
        """What is said of rows by their name, such as CLIP's; yours have no other words."""
        return self.sentences.get(f"rows of {name}", name)

    @cached_property
    def statements(self) -> dict[str, tuple[str, str, About]]:
        """What checks state, by name: the statement, what else would be seen, and about what."""
        found: dict[str, tuple[str, str, About]] = {}
        for table, about in ABOUT.items():
            for name, text in self.declared.get(table, {}).items():
                statement, _, otherwise = one_line(text).partition(_OTHERWISE)
                if about == "consistency" and not otherwise:
                    otherwise = "A mistake of ours."
                found[name] = statement, otherwise, about
        return found

    def above(
        self, name: str, value: float | Interval, bound: float = 0.0, /, **words: object
    ) -> Check:
        """That a number is above a bound, in the declared words; ``words`` are put for {word}."""
        statement, otherwise, about = self._stated(name, words)
        return above(statement, value, bound, otherwise, about)

    def below(
        self, name: str, value: float | Interval, bound: float = 0.0, /, **words: object
    ) -> Check:
        """That a number is below a bound, in the declared words."""
        statement, otherwise, about = self._stated(name, words)
        return below(statement, value, bound, otherwise, about)

    def check(self, name: str, holds: object, /, **words: object) -> Check:
        """Whether a statement held, in the declared words."""
        statement, otherwise, about = self._stated(name, words)
        return check(statement, holds, otherwise, about)

    def _stated(self, name: str, words: Mapping[str, object]) -> tuple[str, str, About]:
        statement, otherwise, about = self.statements[name]
        return statement.format_map(words), otherwise.format_map(words), about

    @property
    def title(self) -> str:
        """Its title and authors."""
        return one_line(self.declared["title"])

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry by its key."""
        for module in pkgutil.iter_modules([str(self.folder)]):
            importlib.import_module(f"{__package__}.{self.key}.{module.name}")
        names = [name for name in self.declared if name not in _NO_ENTRY]
        unknown = {*self._runs, *self._runs_on_model}.difference(names)
        if unknown:
            raise AssertionError(f"{self.folder}/paper.toml declares no {sorted(unknown)}.")
        made = [self._entry(name, self.declared[name]) for name in names]
        return {entry.key: entry for entry in made}

    def table(self, name: str) -> PrintedTable:
        """The printed table of an entry."""
        declared = self.declared[name]["table"]
        rows = {row: tuple(values) for row, values in declared["rows"].items()}
        return PrintedTable(tuple(declared["columns"]), rows)

    def panels(self, name: str) -> list[Mapping[str, Any]]:
        """The panels of an entry's picture; ``use`` stands for panels that entries share."""
        shared = self.declared.get("panels", {})
        return [
            found
            for panel in self.declared[name].get("panels", ())
            for found in (shared[panel["use"]] if "use" in panel else [panel])
        ]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def declared(self) -> dict[str, Any]:
        """What ``paper.toml`` says, as it is."""
        return tomllib.loads((self.folder / "paper.toml").read_text(encoding="utf-8"))

    def _entry(self, name: str, declared: Mapping[str, Any]) -> Entry:
        words = {word: self._words(declared.get(word, "")) for word in _WORDS}
        declared_words = words.pop("on"), words.pop("note"), declared.get("evidence")
        if words["fast"] and not words["full"]:
            words["full"] = "the same"
        published: dict[str, Number] = {}
        if "table" in declared:
            published |= self.table(name).cells(declared["table"].get("cells", "{row}: {column}"))
        runs = [
            None if run is None else partial(_run_with_words, run, declared_words)
            for run in (self._runs.get(name), self._runs_on_model.get(name))
        ]
        panels, options = self.panels(name), declared.get("figure", {})

        def draw(outcome: Outcome) -> Figure:
            return draw_panels(panels, outcome.data, **options)

        return Entry(
            key=f"{self.key}/{name}",
            **words,
            needs=declared.get("needs", "nothing"),
            published=published | declared.get("published", {}),
            slips=tuple(self._words(slip) for slip in declared.get("slips", ())),
            run=runs[0],
            run_on_model=runs[1],
            draw=draw if panels else None,
        )

    def _words(self, text: str) -> str:
        return one_line(text).format_map(self.sentences)


def one_line(text: str) -> str:
    """Words with single spaces between them."""
    return " ".join(text.split())


def _register(functions: dict[str, Run], name: str, function: Run) -> Run:
    if name in functions:
        raise AssertionError(f"{name} is registered twice.")
    functions[name] = function
    return function


def _run_with_words(
    run: Run, declared: tuple[str, str, Evidence | None], setting: Setting
) -> Outcome:
    """What a run found, with the declared words where it has none of its own."""
    outcome, (on, note, evidence) = run(setting), declared
    if setting.rows is not None:
        # What is declared speaks of other rows.
        consistent = (outcome.evidence or evidence) == "consistency only"
        return dataclasses.replace(
            outcome,
            on=setting.rows.words,
            evidence="consistency only" if consistent else "other data",
        )
    return dataclasses.replace(
        outcome,
        on=outcome.on or on,
        note=outcome.note or note,
        evidence=outcome.evidence or evidence,
    )
