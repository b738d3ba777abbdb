"""Named sets of rows, and the groups that say which of them match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np

from modgap.core.checks import Array, InputTypeError, InputValueError, check_same_space
from modgap.core.results import Progress, silent, spoken
from modgap.io.embeddings import Embeddings
from modgap.io.group_keys import KeyedBy, id_keys, label_keys, row_keys
from modgap.io.images import Thumbnail
from modgap.moments import Moments, PairMoments
from modgap.moments.pair import pair_moments_of


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The fields of `Modalities`, and what they say of the rows and of their groups."""

    sides: Mapping[str, Embeddings]
    paired: bool
    group_codes: tuple[np.ndarray, ...] | None = None
    thumbnails: Mapping[str, Thumbnail] = field(default_factory=dict)
    pairing: str = ""
    asking: Mapping[str, Embeddings] = field(default_factory=dict)
    asking_codes: Mapping[str, np.ndarray] = field(default_factory=dict)
    keyed_by: KeyedBy = "row"
    code_keys: np.ndarray | None = None
    group_labels: tuple[Any, ...] | None = None
    others: Mapping[str, Embeddings] = field(default_factory=dict)
    undecided: str = ""
    duplicates: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities, in order."""
        return tuple(self.sides)

    def where(self) -> str:
        """Which file each modality is in."""
        files = {name: side.source for name, side in self.sides.items()}
        if len(set(files.values())) == 1:
            return f"{spoken(files)} are in {next(iter(files.values()))}"
        return ", ".join(f"{name} is {file}" for name, file in files.items())

    @property
    def dim(self) -> int:
        """Number of columns."""
        return next(iter(self.sides.values())).dim

    def two(self) -> tuple[Embeddings, Embeddings]:
        """Both sides, for what works on two modalities only."""
        if len(self.sides) != 2:
            raise InputValueError(
                f"This works on two modalities, got {len(self.sides)}: {', '.join(self.names)}. "
                f"Take two of them: modgap.Modalities.of(…).pair{self.names[:2]!r}."
            )
        first, second = self.sides.values()
        return first, second

    @property
    def x(self) -> Embeddings:
        """The first of two modalities."""
        return self.two()[0]

    @property
    def y(self) -> Embeddings:
        """The second of two modalities."""
        return self.two()[1]

    @property
    def X(self) -> Array:
        """The rows of the first of two modalities, whole."""
        return self.x.rows()

    @property
    def Y(self) -> Array:
        """The rows of the second of two modalities, whole."""
        return self.y.rows()

    def asks_apart(self, name: str) -> bool:
        """Whether the queries of a modality are not its documents."""
        return name in self.asking

    def queries_of(self, name: str) -> Embeddings:
        """The query rows: queries of their own where there are any, else the documents."""
        return self.asking.get(name, self.sides[name])

    def query_groups(self, name: str) -> np.ndarray:
        """The group of every row that asks."""
        return self.asking_codes.get(name, self.groups[self.names.index(name)])

    @cached_property
    def group_keys(self) -> np.ndarray:
        """The key of each group, by its code."""
        if self.code_keys is not None:
            return self.code_keys
        if self.keyed_by == "row":
            return row_keys(max(side.n_rows for side in self.sides.values()))
        if self.group_labels is not None:
            keys = [label_keys(labels) for labels in self.group_labels]
        elif self.keyed_by == "id":
            keys = [id_keys(np.asarray(side.ids), name) for name, side in self.sides.items()]
        else:
            keys = [row_keys(side.n_rows, name) for name, side in self.sides.items()]
        first = np.unique(np.concatenate(self.groups), return_index=True)[1]
        return np.concatenate(keys)[first]

    def keys_of(self, name: str) -> np.ndarray:
        """The key of the group of every document of a modality."""
        return self.group_keys[self.groups[self.names.index(name)]]

    def query_keys(self, name: str) -> np.ndarray:
        """The key of the group of every row that asks."""
        return self.group_keys[self.query_groups(name)]

    def _keys_of(self, codes: np.ndarray) -> np.ndarray:
        """The keys of some groups; row by row, those of the others are not made for it."""
        if self.code_keys is not None or not self.row_by_row:
            return self.group_keys[codes]
        if self.keyed_by == "row":
            return codes.astype(np.int64)
        name, side = next(iter(self.sides.items()))
        return id_keys(np.asarray(side.columns["ids"].take(codes)), name, codes)

    def _query_keys(self, labels: Any, n: int, name: str) -> np.ndarray:
        """The keys of the labels of queries, as those of the documents are made."""
        found = np.asarray(labels)
        if found.shape != (n,):
            raise InputValueError(
                f"groups must give one label per {name} query: {n} queries, got shape "
                f"{found.shape}."
            )
        if self.keyed_by != "row":
            return label_keys(found)
        if found.dtype.kind not in "iu":
            raise InputTypeError(
                f"Documents are paired row by row, so the groups of {name} queries must be row "
                f"numbers, got {found.dtype}."
            )
        return found.astype(np.int64)

    @cached_property
    def groups(self) -> tuple[np.ndarray, ...]:
        """The group of every row of each side as a number; rows that match have the same.

        Where it is not known which rows match, every row is a group of its own.
        """
        if self.group_codes is not None:
            return self.group_codes
        sizes = [side.n_rows for side in self.sides.values()]
        if self.row_by_row:
            return (np.arange(sizes[0]),) * len(sizes)
        ends = np.cumsum([0, *sizes])
        return tuple(np.arange(ends[i], ends[i + 1]) for i in range(len(sizes)))

    @property
    def row_by_row(self) -> bool:
        """Whether row i of every side is a group; its number is then i, and none is kept."""
        return self.paired and self.group_codes is None

    @property
    def matched_groups(self) -> np.ndarray:
        """Groups that have rows of every modality, in order."""
        return np.arange(self.n_groups) if self.row_by_row else self._matched

    @cached_property
    def _matched(self) -> np.ndarray:
        return reduce(np.intersect1d, self.groups[1:], np.unique(self.groups[0]))

    @property
    def n_groups(self) -> int:
        """How many groups have rows of every modality."""
        return next(iter(self.sides.values())).n_rows if self.row_by_row else len(self._matched)

    @property
    def counted(self) -> Literal["pairs", "groups"]:
        """What groups are called: pairs where each is a row of both modalities and no query."""
        single = all(side.n_rows == self.n_groups for side in self.sides.values())
        return "pairs" if single and len(self.sides) == 2 and not self.asking else "groups"

    def single_groups(self) -> np.ndarray:
        """Groups that do not have rows of every modality."""
        asking = self.asking_codes.values()
        if self.row_by_row:  # without a look at every row's group
            codes = np.unique(np.concatenate([np.empty(0, np.int64), *asking]))
            return codes[codes >= self.n_groups]
        return np.setdiff1d(np.concatenate([*self.groups, *asking]), self.matched_groups)

    def matches(self, some: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """One match per group that has rows on every side: the first row of each.

        ``some`` are places among these groups, where not all of them are wanted.
        """
        if self.row_by_row:
            return (self.matched_groups if some is None else some,) * len(self.sides)
        first = [np.unique(codes, return_index=True) for codes in self.groups]
        wanted = self.matched_groups if some is None else self.matched_groups[some]
        return tuple(rows[np.searchsorted(codes, wanted)] for codes, rows in first)

    def rows_of_groups(self, chosen: np.ndarray) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """The row numbers of these groups on each side, and those of queries apart by name."""
        if self.row_by_row:
            sides = [np.unique(chosen[chosen < self.n_groups])] * len(self.sides)
        else:
            sides = [np.flatnonzero(np.isin(codes, chosen)) for codes in self.groups]
        return (
            sides,
            {n: np.flatnonzero(np.isin(own, chosen)) for n, own in self.asking_codes.items()},
        )

    def moments(self, progress: Progress = silent, **options: Any) -> PairMoments:
        """Moments of both sides; every row is checked on the way."""
        self.two()
        x, y = self.side_moments(progress, **options).values()
        return PairMoments(x, y)

    def side_moments(self, progress: Progress = silent, **options: Any) -> dict[str, Moments]:
        """Moments of every side by name; every row is checked on the way."""
        return {name: side.moments(name, progress, **options) for name, side in self.sides.items()}

    def pair_moments(self, progress: Progress = silent) -> PairMoments:
        """Moments of both sides and across them; row i of every side must be a pair."""
        x, y = self.two()
        names = (self.names[0], self.names[1])
        if x.in_memory and y.in_memory:
            check_same_space(x.rows(), y.rows(), names)
            return pair_moments_of(x.rows(), y.rows(), names, paired=True)
        if x.matrix.spread_pair_moments is not None:
            found: PairMoments = x.matrix.spread_pair_moments(y.matrix, names, progress)
            return found
        batches = x.batches_with_progress(progress, "reading pairs"), y.batches()
        return PairMoments.from_stream(*batches, names=names)
