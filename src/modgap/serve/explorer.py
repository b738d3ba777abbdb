"""What the live explorer knows and can do, without any web: rows, search, corrections."""

from __future__ import annotations

import re
import secrets
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from modgap._results import Progress
from modgap._validate import InputError, InputValueError, check_choice, check_count
from modgap.corrections import METRICS, Corrector, Metric
from modgap.diagnosis import Diagnosis
from modgap.evaluation import GOAL_METRICS, Goal
from modgap.io import Embeddings, Modalities
from modgap.serve.bench import STEPS, Bench, Fitted
from modgap.serve.index import Hit, MixedIndex, check_vector

DEFAULT_ROWS = 200_000
RECOMMENDED = "recommended"
Index = Literal["all", "one_side"]
_LONGEST_TEXT = 2_000


class Unknown(InputError):
    """Something was asked for by a name that nothing has."""


@dataclass(frozen=True)
class Item:
    """A row as people know it."""

    modality: str
    row: int
    caption: str | None
    id: str | None


@dataclass(frozen=True)
class Found:
    """One hit of a search: the row, its score, and whether it is of the query's group."""

    item: Item
    score: float
    match: bool | None


@dataclass(frozen=True)
class Answer:
    """A search of the rows as they are and, where asked for, of the corrected ones."""

    query: Item | None
    metric: Metric
    raw: tuple[Found, ...]
    corrected_metric: Metric | None
    corrected: tuple[Found, ...] | None


class Explorer:
    """Two modalities, one live index, and the corrections fitted so far.

    The index holds at most ``rows`` rows of each modality, a sample by ``seed`` if there are more.
    At most ``kept`` corrections are remembered; the oldest goes first, the recommended one never.
    All methods may be called from any thread.
    """

    def __init__(
        self,
        data: Modalities,
        *,
        metric: Metric = "cosine",
        goal: Goal = "mixed",
        model: str | None = None,
        seed: int = 0,
        rows: int = DEFAULT_ROWS,
        kept: int = 12,
    ) -> None:
        check_choice(metric, "metric", METRICS)
        check_choice(goal, "goal", tuple(GOAL_METRICS))
        check_count(rows, "rows")
        self.data, self.metric, self.model, self.seed = data, metric, model, seed
        self.bench = Bench(data, metric=metric, goal=goal, model=model, seed=seed)
        self.index = MixedIndex(data, metric=metric, at_most=rows, seed=seed)
        self._groups = dict(zip(data.names, data.groups, strict=True)) if data.paired else None
        self._halves = None if self._groups is None else self._make_halves(self._groups)
        self._kept = kept
        self._corrections: OrderedDict[str, Fitted] = OrderedDict()
        self._texts: dict[str, list[str]] = {}
        self._lock, self._reading = threading.Lock(), threading.Lock()

    def has_thumbnails(self, modality: str) -> bool:
        """Whether rows of a modality may have images."""
        return modality in self.data.thumbnails

    def side(self, modality: str) -> Embeddings:
        """The rows of a modality."""
        return self.data.sides[check_choice(modality, "modality", self.data.names)]

    # -- rows -------------------------------------------------------------------------------------

    def item(self, modality: str, row: int) -> Item:
        """One row by its number in the data."""
        side = self.side(modality)
        if not 0 <= row < side.n_rows:
            raise InputValueError(
                f"row must be a row number of {modality}, from 0 to {side.n_rows - 1}, got {row}."
            )
        captions, ids = self._columns(side)
        return Item(modality, row, _text(captions, row), _text(ids, row))

    def items(
        self, modality: str, contains: str = "", offset: int = 0, limit: int = 20
    ) -> tuple[int, list[Item]]:
        """Rows of the index whose caption or id contains a text, and how many there are in all."""
        self.side(modality)
        numbers = self.index.live[modality].numbers
        if contains:
            wanted = contains.casefold()
            texts = self._searchable(modality)
            places = [place for place, text in enumerate(texts) if wanted in text]
            shown = [int(numbers[place]) for place in places[offset : offset + limit]]
            return len(places), [self.item(modality, row) for row in shown]
        return len(numbers), [
            self.item(modality, int(row)) for row in numbers[offset : offset + limit]
        ]

    def thumbnail(self, modality: str, row: int) -> bytes | None:
        """The image of a row, where there is one."""
        rows = self.side(modality).n_rows
        picture = self.data.thumbnails.get(modality)
        return picture(row) if picture is not None and 0 <= row < rows else None

    # -- search -----------------------------------------------------------------------------------

    def search(
        self,
        modality: str,
        *,
        row: int | None = None,
        vector: Any = None,
        k: int = 10,
        correction: str | None = None,
        index: Index = "all",
    ) -> Answer:
        """The rows nearest to a row of the data or to a vector, raw beside corrected.

        In the index "all" every row is looked at. In "one_side" every group is there as one of its
        modalities only, half of the groups as each, and that of the query as the other one: the
        index that ``mixed_retrieval`` searches.
        """
        if (row is None) == (vector is None):
            raise InputValueError("A search takes a row or a vector, and not both.")
        check_count(k, "k")
        check_choice(index, "index", get_args(Index))
        fix = None if correction is None else (correction, self.fitted(correction).correction)
        query = None
        if row is not None:
            query = self.item(modality, row)
            asked = self.index.row(modality, row)
        else:
            asked = check_vector(vector, self.side(modality).dim)
        among = self._one_side(modality, row) if index == "one_side" else None
        raw = self.index.search(asked, modality, k, without=row, among=among)
        corrected = None
        if fix is not None:
            corrected = self.index.search(
                asked, modality, k, without=row, among=among, correction=fix
            )
        return Answer(
            query=query,
            metric=self.metric,
            raw=self._described(raw, query),
            corrected_metric=None if fix is None else fix[1].metric,
            corrected=None if corrected is None else self._described(corrected, query),
        )

    def _one_side(self, modality: str, row: int | None) -> dict[str, np.ndarray]:
        """The live rows of either modality that are there when every group is there once."""
        if self._groups is None or self._halves is None:
            raise InputValueError(
                "An index of one side per group needs pairs, and it is not known which rows match. "
                "Search all rows instead."
            )
        as_first, half, complement = self._halves
        first = self.data.names[0]
        own = row is not None and as_first[self._groups[modality][row]] == (modality == first)
        return complement if own else half

    def _described(self, hits: list[Hit], query: Item | None) -> tuple[Found, ...]:
        group = None
        if query is not None and self._groups is not None:
            group = self._groups[query.modality][query.row]
        found = []
        for hit in hits:
            match = None
            if group is not None and self._groups is not None:
                match = bool(self._groups[hit.modality][hit.row] == group)
            found.append(Found(self.item(hit.modality, hit.row), hit.score, match))
        return tuple(found)

    # -- corrections ------------------------------------------------------------------------------

    def fit(self, corrector: Corrector, progress: Progress) -> str:
        """Fit and evaluate a correction and remember it; the identifier it has from now on."""
        fitted = self.bench.fit(corrector, progress)
        identifier = secrets.token_hex(6)
        progress("placing the rows in the index", STEPS - 1, STEPS)
        self.index.prepare(identifier, fitted.correction)
        self.remember(identifier, fitted)
        progress("done", STEPS, STEPS)
        return identifier

    def remember(self, identifier: str, fitted: Fitted) -> str:
        """Keep a correction; one of the same name gives way, or the oldest when there are many."""
        with self._lock:
            same = [
                key
                for key, other in self._corrections.items()
                if other.name == fitted.name and key not in (RECOMMENDED, identifier)
            ]
            same = [] if identifier == RECOMMENDED else same
            self._corrections[identifier] = fitted
            others = [key for key in self._corrections if key not in (RECOMMENDED, *same)]
            gone = [*same, *others[: -self._kept]]
            for key in gone:
                del self._corrections[key]
        for key in gone:
            self.index.forget(key)
        return identifier

    def corrections(self) -> dict[str, Fitted]:
        """The corrections at hand: the recommended one first, then the others by age."""
        with self._lock:
            listed = dict(self._corrections)
        first = {RECOMMENDED: listed.pop(RECOMMENDED)} if RECOMMENDED in listed else {}
        return {**first, **listed}

    def fitted(self, identifier: str) -> Fitted:
        """A correction by its identifier."""
        with self._lock:
            found = self._corrections.get(identifier)
        if found is None:
            raise Unknown(
                f"There is no correction {identifier!r}. It may have given way to newer ones; "
                "fit it again."
            )
        return found

    def file(self, identifier: str) -> tuple[str, bytes]:
        """A correction as a file: a plain name for it, and its bytes."""
        fitted = self.fitted(identifier)
        with tempfile.TemporaryDirectory(prefix="modgap-") as folder:
            path = Path(folder) / "correction.safetensors"
            fitted.correction.save(path)
            data = path.read_bytes()
        word = re.sub(r"[^A-Za-z0-9_.=-]+", "-", fitted.name).strip("-")
        return f"correction-{word}.safetensors", data

    def recommend(self, diagnosis: Diagnosis) -> None:
        """List the correction that a diagnosis recommends, with the metrics it has there."""
        if diagnosis.correction is None or diagnosis.recommended is None:
            return
        trials = {trial.method: trial.confirm for trial in diagnosis.trials}
        self.remember(
            RECOMMENDED,
            Fitted(
                name=diagnosis.recommended,
                correction=diagnosis.correction,
                n_groups=diagnosis.n_groups["confirm"],
                raw=diagnosis.raw,
                corrected=trials[diagnosis.recommended],
            ),
        )

    # -- what rows are called ---------------------------------------------------------------------

    def _columns(self, side: Embeddings) -> tuple[np.ndarray | None, np.ndarray | None]:
        # Read when first asked for: two threads at once need not both read them.
        with self._reading:
            return side.captions, side.ids

    def _searchable(self, modality: str) -> list[str]:
        """Captions and ids of the index, in one case."""
        captions, ids = self._columns(self.side(modality))
        with self._reading:
            if modality not in self._texts:
                numbers = self.index.live[modality].numbers
                self._texts[modality] = [
                    "\n".join(filter(None, (_text(captions, row), _text(ids, row)))).casefold()
                    for row in numbers
                ]
            return self._texts[modality]

    def _make_halves(
        self, groups: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Which groups are there as the first modality, and the live rows of that and its mirror.

        A group that has rows on one side only is there in both.
        """
        first, second = self.data.names
        n_groups = 1 + int(max(groups[first].max(), groups[second].max()))
        as_first = np.random.default_rng(self.seed).permutation(n_groups) < n_groups // 2
        single = np.ones(n_groups, dtype=bool)
        single[self.data.matched_groups] = False
        halves = [
            {
                name: (there | single)[groups[name][self.index.live[name].numbers]]
                for name, there in ((first, chosen), (second, ~chosen))
            }
            for chosen in (as_first, ~as_first)
        ]
        return as_first, halves[0], halves[1]


def _text(column: np.ndarray | None, row: int) -> str | None:
    """An entry of a column as text that JSON can carry."""
    if column is None or column[row] is None:
        return None
    value = column[row]
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT - 1] + "…"
    # A lone surrogate is text to Python and cannot be sent.
    return text.encode("utf-8", "replace").decode("utf-8")
