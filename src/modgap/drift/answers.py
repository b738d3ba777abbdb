"""What searches answer: how many find nothing, and which modalities are among the first ten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from threading import Lock
from typing import Any

from modgap.core.results import Result, spoken
from modgap.drift.window import Slice, Window

# So many of the best results of a query are counted.
FIRST = 10
# What is counted whose name the reference does not know.
OTHER = "other"


@dataclass(frozen=True)
class SearchAnswers(Result):
    """How many queries there were, how many found nothing, and how often each modality came first.

    ``first_ten`` counts the first ten results of all queries by modality. SearchAnswers add.
    """

    n: int
    n_without_result: int
    first_ten: dict[str, int]

    @classmethod
    def of(cls, results: Any, known: Collection[str]) -> SearchAnswers:
        """The answers in `Hits`, or in the modalities of the results of each query, best first.

        >>> SearchAnswers.of([["image", "text"], ["text"], []], ("image", "text"))
        SearchAnswers(3 queries, 33% found nothing; first ten results: 33% image and 67% text)
        """
        lines: Iterable[Any] = getattr(results, "modalities", results)
        found = [[str(name) for name in line if name][:FIRST] for line in lines]
        first = Counter(name if name in known else OTHER for line in found for name in line)
        return cls(len(found), sum(not line for line in found), dict(sorted(first.items())))

    def __add__(self, more: SearchAnswers) -> SearchAnswers:
        first = Counter(self.first_ten) + Counter(more.first_ten)
        return SearchAnswers(
            self.n + more.n,
            self.n_without_result + more.n_without_result,
            dict(sorted(first.items())),
        )

    @property
    def nothing_found(self) -> float:
        """Share of the queries that found nothing."""
        return self.n_without_result / self.n if self.n else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Share of each modality among the first ten results."""
        total = sum(self.first_ten.values())
        return {name: count / total for name, count in self.first_ten.items()}

    def _brief(self) -> str:
        return f"{self.n:,} queries, {self.words()}"

    def words(self) -> str:
        """The shares."""
        shares = spoken([f"{share:.0%} {name}" for name, share in self.shares.items()] or ["none"])
        return f"{self.nothing_found:.0%} found nothing; first ten results: {shares}"


class Searches:
    """SearchAnswers by the name of their queries: of all searches, and of those in a window."""

    def __init__(self, known: Collection[str], window: Callable[[], Window[SearchAnswers]]) -> None:
        self._known, self._window = known, window
        self._all: dict[str, SearchAnswers] = {}
        self._windows: dict[str, Window[SearchAnswers]] = {}
        self._lock = Lock()

    def add(self, name: str, results: Any, now: float) -> None:
        """Count what queries of this name found; see `SearchAnswers.of`."""
        fresh = SearchAnswers.of(results, self._known)
        if not fresh.n:
            return
        with self._lock:
            window = self._windows.setdefault(name, self._window())
            window.keep(now, lambda last: fresh if last is None else last + fresh)
            window.forget(now)
            self._all[name] = self._all[name] + fresh if name in self._all else fresh

    def all(self) -> dict[str, SearchAnswers]:
        """The answers of all searches."""
        with self._lock:
            return dict(self._all)

    def live(self, now: float) -> dict[str, SearchAnswers]:
        """The answers in the window."""
        with self._lock:
            for window in self._windows.values():
                window.forget(now)
            return {
                name: reduce(add, [one.seen for one in window.slices])
                for name, window in self._windows.items()
            }

    def state(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        with self._lock:
            return {
                name: {"all": asdict(one), "slices": list(map(asdict, self._windows[name].slices))}
                for name, one in self._all.items()
            }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Take in what ``state`` gave."""
        for name, held in state.items():
            self._all[name], self._windows[name] = SearchAnswers(**held["all"]), self._window()
            self._windows[name].slices.extend(
                Slice(one["began"], one["ended"], SearchAnswers(**one["seen"]))
                for one in held["slices"]
            )
