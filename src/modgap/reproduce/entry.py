"""An entry: one figure or table of a paper, its claim, what it needs, and what came out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from modgap._results import Result
from modgap._validate import InputValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modgap.io import Modalities
    from modgap.reproduce.flickr8k.results import Runs

# "other data": the claim is shown, and holds or not, on data that is not the paper's.
Verdict = Literal["agrees", "disagrees", "other data", "missing"]
# "trained": figures of models trained on Flickr8k, which come with the package.
Need = Literal["nothing", "embeddings", "digits", "trained", "model"]
Progress = Callable[[str, int, int], None]
Number = float | int | str | None


class NotAtHand(InputValueError):
    """What an entry needs is not there; the sentence says what, and how to provide it."""


@dataclass(frozen=True)
class Setting:
    """How to run an entry: quickly or as published, and where what it may need lies.

    ``embeddings`` is the folder of the authors' embeddings, ``trained`` a file of results of
    training runs in place of the one that comes with the package.
    """

    full: bool = False
    embeddings: Path | None = None
    trained: Path | None = None
    seed: int = 0
    progress: Progress | None = None

    def say(self, step: str, done: int = 0, total: int = 1) -> None:
        """Report progress to whoever listens."""
        if self.progress is not None:
            self.progress(step, done, total)

    def runs(self) -> Runs:
        """Figures of models trained on Flickr8k."""
        from modgap.reproduce.flickr8k.results import RESULTS, read_runs

        return read_runs(self.trained or RESULTS)

    def pair(self, system: str) -> Modalities:
        """The authors' embeddings of one system: clip, clip_random, videoclip, videoclip_random."""
        from modgap.io import open_pair

        path = None if self.embeddings is None else self.embeddings / f"features_{system}.npy"
        if path is None or not path.exists():
            raise NotAtHand(
                f"The authors' embeddings features_{system}.npy are not at hand. Download them "
                "from the repository of Liang et al. 2022 and name their folder with "
                "--embeddings DIR."
            )
        return open_pair(path)

    def arrays(self, system: str) -> tuple[np.ndarray, np.ndarray]:
        """The same as two arrays."""
        pair = self.pair(system)
        return np.asarray(pair.x.rows()), np.asarray(pair.y.rows())


@dataclass(frozen=True)
class Check(Result):
    """A statement of the claim, and whether it held."""

    statement: str
    holds: bool


@dataclass(frozen=True, eq=False)
class Outcome(Result):
    """What a run found.

    ``measured`` stands beside the entry's published values, by the same names where there is a
    published one. ``data`` is what the figure draws, as plain values or results. ``on`` says what
    was used where it is not what the paper used. ``note`` names slips and caveats.
    """

    measured: Mapping[str, Number]
    checks: tuple[Check, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    on: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether every statement held."""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """In one word; on other data the checks say whether the claim holds there."""
        if self.on:
            return "other data"
        return "agrees" if self.holds else "disagrees"


@dataclass(frozen=True, eq=False)
class Entry:
    """One figure or table.

    ``run`` is None where a model or a data set is needed that this package does not have; ``how``
    then says exactly what is missing and how it would be provided. ``draw`` makes the picture of
    an outcome.
    """

    key: str
    title: str
    claim: str
    needs: Need
    published: Mapping[str, Number] = field(default_factory=dict)
    how: str = ""
    fast: str = ""
    full: str = ""
    run: Callable[[Setting], Outcome] | None = None
    draw: Callable[[Outcome], Figure] | None = None
    slips: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.key.partition("/")[0]

    @property
    def synthetic(self) -> bool:
        """Whether it needs nothing but this package."""
        return self.needs in ("nothing", "digits") and self.run is not None


class Paper:
    """The entries of one paper, in its own order."""

    def __init__(self, key: str, title: str) -> None:
        self.key, self.title = key, title
        self.entries: dict[str, Entry] = {}

    def add(self, name: str, title: str, claim: str, needs: Need, **more: Any) -> Entry:
        """Register an entry that is not run here, or whose functions are given."""
        entry = Entry(f"{self.key}/{name}", title, claim, needs, **more)
        if entry.key in self.entries:
            raise AssertionError(f"{entry.key} is there twice")
        self.entries[entry.key] = entry
        return entry

    def entry(
        self, name: str, title: str, claim: str, needs: Need = "nothing", **more: Any
    ) -> Callable[[Callable[[Setting], Outcome]], Callable[[Setting], Outcome]]:
        """Register the function below as the run of an entry."""

        def register(run: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
            self.add(name, title, claim, needs, run=run, **more)
            return run

        return register

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)
