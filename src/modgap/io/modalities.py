"""Two or more modalities in one space: the one value that modgap measures, corrects and draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from modgap._arrays import unit
from modgap._results import Progress, silent
from modgap._validate import (
    Array,
    InputTypeError,
    InputValueError,
    already_checked,
    check_groups,
    check_modalities,
    check_names,
    check_same_space,
    check_values,
    encode_groups,
)
from modgap.io._matrix import HeldMatrix
from modgap.io.embeddings import Embeddings
from modgap.io.pairing import PairingWarning, match_ids
from modgap.moments import PairMoments

# The picture of a row as PNG or JPEG, or None where it has none.
Thumbnail = Callable[[int], bytes | None]

DEFAULT_NAMES = ("image", "text")

_HOW_TO_PAIR = (
    "Say which rows match with groups (--groups), or that none do with paired=False (--unpaired)."
)


@dataclass(frozen=True, eq=False)
class Modalities:
    """Two or more named sets of rows, and which of them match.

    ``sides`` holds the rows of each modality by name, with their ids and captions. ``paired``
    says whether it is known which rows match: those of equal ``group_codes``, or row i of every
    side where there are none. ``pairing`` says in words how that is known. ``thumbnails`` gives
    the picture of a row, where there are any.

    >>> data = Modalities.of(np.eye(3), -np.eye(3))
    >>> data.names, data.paired, data.n_groups
    (('image', 'text'), True, 3)
    >>> ids = [["a", "b", "c"], ["c", "a", "d"]]
    >>> data = Modalities.of(*(Embeddings.from_array(np.eye(3), ids=one) for one in ids))
    >>> data.pairing, data.n_groups
    ('by id: 2 of 3 image rows and 2 of 3 text rows match', 2)
    """

    sides: Mapping[str, Embeddings]
    paired: bool
    group_codes: tuple[np.ndarray, ...] | None = None
    thumbnails: Mapping[str, Thumbnail] = field(default_factory=dict)
    pairing: str = ""

    @classmethod
    def of(
        cls,
        X: Array | Embeddings | Modalities,
        Y: Array | Embeddings | None = None,
        names: Sequence[str] = DEFAULT_NAMES,
        *,
        groups: tuple[Any, Any] | None = None,
        paired: bool | None = None,
    ) -> Modalities:
        """The modalities that a public function was given, as one value.

        This is where it is decided whether rows are pairs. ``paired=False`` says that they are
        not, ``groups=(gx, gy)`` which of them are. Without either, rows of the same id are pairs
        where both sides have ids; else row i of both sides, where there are as many. Values are
        not looked at.
        """
        if isinstance(X, Modalities):
            others = (Y, groups, paired)
            if any(one is not None for one in others) or tuple(names) not in (
                X.names,
                DEFAULT_NAMES,
            ):
                raise InputTypeError(
                    "Modalities hold both sides, their names and groups; pass nothing beside them."
                )
            return X
        first, second = check_names(names)
        if Y is None:
            raise InputTypeError(f"The rows of {second} are missing: give both modalities.")
        x, y = Embeddings.of(X, first), Embeddings.of(Y, second)
        if groups is not None and paired is False:
            raise InputValueError(
                "groups say which rows match, so they cannot be unpaired as well."
            )
        by_id = match_ids(x, y) if groups is None and paired is not False else None
        if by_id is not None and any(by_id.matched):
            codes, pairing = by_id.codes, f"by id: {by_id.words((first, second))}"
            if by_id.few:
                _warn(f"Few ids match, so few rows have a pair {pairing}. {_HOW_TO_PAIR}")
            elif codes is None:
                pairing = "row by row, the ids agree"
            return cls({first: x, second: y}, True, codes, pairing=pairing)
        if paired is None:
            paired = groups is not None or x.n_rows == y.n_rows
        codes = check_groups(groups, x.n_rows, y.n_rows, names) if paired else None
        pairing = "by group" if groups is not None else "row by row" if paired else "not paired"
        if by_id is not None:
            _warn(
                f"No id of {first} is an id of {second} ({by_id.examples()}), so rows are taken as "
                f"{pairing if not paired else 'pairs row by row'}. {_HOW_TO_PAIR}"
            )
        return cls(
            {first: x, second: y}, paired, None if groups is None else codes, pairing=pairing
        )

    @classmethod
    def named(cls, rows: Mapping[str, Array], groups: Mapping[str, Any]) -> Modalities:
        """Any number of modalities by name; ``groups`` has one label per row of each."""
        names = check_modalities(tuple(rows))
        sides = {name: Embeddings.of(rows[name], name) for name in names}
        sizes = [side.n_rows for side in sides.values()]
        codes = encode_groups([groups[name] for name in names], sizes, names)
        return cls(sides, True, codes, pairing="by group")

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities, in order."""
        return tuple(self.sides)

    @property
    def x(self) -> Embeddings:
        """The first modality."""
        return self.sides[self.names[0]]

    @property
    def y(self) -> Embeddings:
        """The second modality."""
        return self.sides[self.names[1]]

    @property
    def X(self) -> Array:
        """The rows of the first modality, whole."""
        return self.x.rows()

    @property
    def Y(self) -> Array:
        """The rows of the second modality, whole."""
        return self.y.rows()

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.x.dim

    @cached_property
    def groups(self) -> tuple[np.ndarray, ...]:
        """The group of every row of each side as a number; rows that match have the same.

        Where it is not known which rows match, every row is a group of its own.
        """
        if self.group_codes is not None:
            return self.group_codes
        sizes = [side.n_rows for side in self.sides.values()]
        if self.paired:
            return tuple(np.arange(n) for n in sizes)
        ends = np.cumsum([0, *sizes])
        return tuple(np.arange(ends[i], ends[i + 1]) for i in range(len(sizes)))

    @cached_property
    def matched_groups(self) -> np.ndarray:
        """Groups that have rows of every modality, in order."""
        common = np.unique(self.groups[0])
        for codes in self.groups[1:]:
            common = np.intersect1d(common, codes)
        return common

    @property
    def n_groups(self) -> int:
        """How many groups have rows of every modality."""
        return len(self.matched_groups)

    def two(self) -> tuple[Embeddings, Embeddings]:
        """Both sides, for what works on two modalities only."""
        if len(self.sides) != 2:
            raise InputValueError(
                f"This works on two modalities, got {len(self.sides)}: {', '.join(self.names)}."
            )
        return self.x, self.y

    def matches(self) -> tuple[np.ndarray, ...]:
        """One match per group that has rows on every side: the first row of each."""
        first = [np.unique(codes, return_index=True) for codes in self.groups]
        return tuple(rows[np.searchsorted(codes, self.matched_groups)] for codes, rows in first)

    def pairs(self) -> Modalities:
        """The matches alone, row by row, in memory; the group of each is kept."""
        if self.paired and self.group_codes is None:
            return self
        return self.take(self.matches())

    def take(self, rows: Sequence[np.ndarray]) -> Modalities:
        """These rows of each side, in memory, with all that belongs to them."""
        chosen_by = dict(zip(self.names, rows, strict=True))
        sides = {name: side.subset(chosen_by[name]) for name, side in self.sides.items()}
        thumbnails: dict[str, Thumbnail] = {
            name: partial(_picture_of, picture, chosen_by[name])
            for name, picture in self.thumbnails.items()
        }
        if not self.paired:
            return Modalities(sides, False, thumbnails=thumbnails, pairing=self.pairing)
        codes = [c[chosen] for c, chosen in zip(self.groups, rows, strict=True)]
        # Numbered anew: what counts by group must not be as long as the whole data has groups.
        dense = np.unique(np.concatenate(codes), return_inverse=True)[1]
        ends = np.cumsum([len(c) for c in codes])[:-1]
        return Modalities(
            sides, self.paired, tuple(np.split(dense, ends)), thumbnails, self.pairing
        )

    def take_groups(self, chosen: np.ndarray) -> Modalities:
        """The rows of these groups, in memory."""
        return self.take([np.flatnonzero(np.isin(codes, chosen)) for codes in self.groups])

    def at_unit_length(self) -> Modalities:
        """The same rows in memory, each brought to unit length."""
        sides = {
            name: replace(side, matrix=HeldMatrix(unit(side.rows())))
            for name, side in self.sides.items()
        }
        return replace(self, sides=sides)

    def moments(self, progress: Progress = silent, **options: Any) -> PairMoments:
        """Moments of both sides; every row is checked on the way."""
        self.two()
        x, y = (side.moments(name, progress, **options) for name, side in self.sides.items())
        return PairMoments(x, y)

    def pair_moments(self, progress: Progress = silent) -> PairMoments:
        """Moments of both sides and across them; row i of every side must be a pair."""
        x, y = self.two()
        names = (self.names[0], self.names[1])
        if x.in_memory and y.in_memory:
            return PairMoments.from_batch(x.rows(), y.rows(), names=names, paired=True)
        batches = x.batches_with_progress(progress, "reading pairs"), y.batches()
        return PairMoments.from_batches(*batches, names=names, paired=True)

    def check(self, *, nonzero: bool = False) -> Modalities:
        """The same, once every value was looked at: no NaN, no infinity, one space."""
        for name, side in self.sides.items():
            check_values(side.rows(), name, nonzero=nonzero)
        for name in self.names[1:]:
            check_same_space(self.x.rows(), self.sides[name].rows(), (self.names[0], name))
        return self

    def trusted(self, *, nonzero: bool = False) -> AbstractContextManager[None]:
        """While it lasts, rows in memory are not checked again: they were."""
        return already_checked(*(side.rows() for side in self.sides.values()), nonzero=nonzero)


def _picture_of(picture: Thumbnail, rows: np.ndarray, row: int) -> bytes | None:
    """The picture of a row by its place among the rows that were taken."""
    return picture(int(rows[row]))


def _warn(sentence: str) -> None:
    warnings.warn(sentence, PairingWarning, stacklevel=3)
