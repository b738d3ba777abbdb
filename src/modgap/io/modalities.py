"""Two or more modalities in one space: the one value that modgap measures, corrects and draws."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from modgap.arrays import namespace, unit
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_modalities,
    check_names,
    check_same_space,
    check_values,
)
from modgap.core.door import is_model_output, what_to_call
from modgap.core.files import folder_to_write
from modgap.io._matrices import ArrayMatrix
from modgap.io.duplicates import with_copies_grouped
from modgap.io.embeddings import Embeddings
from modgap.io.formats.tables import is_opened, is_table
from modgap.io.group_keys import row_keys
from modgap.io.grouped_rows import GroupedRows
from modgap.io.images import Thumbnail
from modgap.io.row_pairs import row_pairs

DEFAULT_NAMES = ("image", "text")
# Other documents of each modality that an index which is judged holds, at most.
MAX_OTHERS = 10_000


@dataclass(frozen=True, eq=False)
class Modalities(GroupedRows):
    """Two or more named sets of rows, and which of them match.

    ``sides`` holds the rows of each modality by name, with their ids and captions. ``paired``
    says whether it is known which rows match: those of equal ``group_codes``, or row i of every
    side where there are none. ``pairing`` says in words how that is known, and ``undecided`` that
    neither the user nor the rows say it. ``thumbnails`` gives
    the picture of a row, where there are any.

    ``asking`` holds query rows, of modalities whose queries are not their documents; see
    ``with_queries``. ``group_keys`` tell the groups wherever their rows go, see
    `modgap.io.group_keys`; ``keyed_by`` says what they are made from.

    ``others`` are the other documents of the index, by modality; see ``with_documents``.
    ``duplicates`` counts the rows that occur several times, once checked; see
    ``with_duplicates_grouped``.

    >>> data = Modalities.of(np.eye(3), -np.eye(3))
    >>> data.names, data.paired, data.n_groups
    (('image', 'text'), True, 3)
    >>> ids = [["a", "b", "c"], ["c", "a", "d"]]
    >>> data = Modalities.of(*(Embeddings.from_array(np.eye(3), ids=one) for one in ids))
    >>> data.pairing, data.n_groups
    ('by id: 2 of 3 image rows and 2 of 3 text rows match', 2)
    """

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Any = None,
        names: Sequence[str] = DEFAULT_NAMES,
        *,
        groups: Any = None,
        paired: bool | None = None,
    ) -> Modalities:
        """The modalities that a public function was given, as one value.

        Two are given as ``X`` and ``Y``, any number as one mapping of names to rows, with
        ``groups`` by name as well. Rows are arrays, tensors or Embeddings, or paths and tables
        (see inputs.md), of which one may hold all modalities; ``groups`` may then name a
        column.

        `row_pairs` decides whether rows are pairs. ``paired=False`` says that they are
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
                    "Modalities hold all sides, their names and groups; pass nothing beside them."
                )
            return X
        if is_model_output(X):  # a mapping, but not one of names to rows
            raise InputTypeError(f"X must be rows by name, got {what_to_call(X)}")
        named = isinstance(X, Mapping) and not is_table(X)
        if named and Y is not None:
            raise InputTypeError("Modalities by name come as one mapping; pass no Y beside it.")
        if any(is_opened(one) for one in (X.values() if named else (X, Y))):
            from modgap.io.opening import open_modalities, open_pair

            if named:
                return open_modalities(X, groups=groups, paired=paired)
            return open_pair(X, Y, names=names, groups=groups, paired=paired)
        if named:
            names, rows = check_modalities(tuple(X)), tuple(X.values())
        else:
            names = check_names(names)
            if Y is None:
                X, Y = _stacked(X, names)
            rows = (X, Y)
        sides = {n: Embeddings.of(one, n) for n, one in zip(names, rows, strict=True)}
        return cls.of_sides(sides, groups, paired)

    @classmethod
    def of_sides(
        cls,
        sides: Mapping[str, Embeddings],
        groups: Any,
        paired: bool | None,
        *,
        by_place: bool = True,
    ) -> Modalities:
        """Rows that were opened and named; decides which of them match, as ``of`` says.

        Without ``by_place`` rows are no pairs because there are as many of each: those of a long
        table stand one below the other.
        """
        return cls(sides, **vars(row_pairs(sides, groups, paired, by_place=by_place)))

    def __repr__(self) -> str:
        sides = ", ".join(f"{name} {one.n_rows:,} × {one.dim}" for name, one in self.sides.items())
        asking = "".join(
            f", {name} queries {one.n_rows:,} × {one.dim}" for name, one in self.asking.items()
        )
        how = self.pairing if self.pairing.startswith("not") else f"paired {self.pairing}"
        return f"Modalities({sides}{asking}; {how.strip()})"

    def with_queries(
        self, rows: Mapping[str, Array | Embeddings], groups: Mapping[str, Any] | None = None
    ) -> Modalities:
        """The same documents, asked by queries of their own.

        Short queries beside long captions, or a model with a prompt for queries, have another mean
        and spread than the documents of their modality.

        Parameters
        ----------
        rows : mapping of str to (n, d) arrays
            The queries of a modality, by its name.
        groups : mapping of str to labels, optional
            Which documents each query matches: the label of their group, their id or their row
            number, as the documents are paired. Queries without labels match nothing; corrections
            are fitted on them, and nothing is judged by them.
        """
        documents, labels = self.group_keys, groups or {}
        asking: dict[str, Embeddings] = {}
        keys: dict[str, np.ndarray] = {}
        for name, given in rows.items():
            check_choice(name, "modality", self.names)
            side = asking[name] = Embeddings.of(given, f"{name} queries", modality=name)
            if side.dim != self.dim:
                raise InputValueError(
                    f"The {name} queries must have the {self.dim} columns of the documents, got "
                    f"{side.dim}. Embed both with the same model."
                )
            keys[name] = row_keys(side.n_rows, f"{name} queries")
            if name in labels:
                keys[name] = self._query_keys(labels[name], side.n_rows, name)
                if self.paired and not np.any(np.isin(keys[name], documents)):
                    raise InputValueError(
                        f"No label of the {name} queries is one of the documents, which are "
                        f"paired {self.pairing}."
                    )
        # Queries of no known group get codes that no document has.
        new = np.setdiff1d(np.concatenate([*keys.values(), documents[:0]]), documents)
        every = np.concatenate([documents, new])
        order = np.argsort(every)
        codes = {n: order[np.searchsorted(every, own, sorter=order)] for n, own in keys.items()}
        return replace(self, asking=asking, asking_codes=codes, code_keys=every)

    def with_documents(self, rows: Mapping[str, Any]) -> Modalities:
        """The same rows, in an index that holds other documents as well.

        They are searched wherever an index is judged. They match nothing, never ask, and no
        correction is fitted on them.

        Parameters
        ----------
        rows : mapping of str to (n, d) arrays
            The other documents of a modality, by its name: arrays, Embeddings, paths or tables.
        """
        from modgap.io.opening import open_embeddings

        others = dict(self.others)
        for name, given in rows.items():
            check_choice(name, "documents", self.names)
            what = f"other {name} documents"
            if is_opened(given):
                side = open_embeddings(given)
            else:
                side = Embeddings.of(given, what, modality=name)
            if side.dim != self.dim:
                raise InputValueError(
                    f"The {what} must have the {self.dim} columns of the {name} rows, got "
                    f"{side.dim}. Embed both with the same model."
                )
            others[name] = side
        return replace(self, others=others)

    def with_duplicates_grouped(self) -> Modalities:
        """The same with groups that hold copies of one row as one group.

        Copies have a cosine of at least 1 − 1e-6 with the first of them; what is merely alike
        stays apart, and near copies of near copies are not chained. Groups are: an image of two
        captions, of which another image has one, makes both images one group, because a split by
        group has no row on both sides only then. It matters little where few rows are shared, and
        ``duplicates`` says how large the largest group has become. Add queries of their own before.

        Rows that are not paired stay as they are, and so do all rows of a side that are equal, and
        modalities of more than 2,000,000 rows.

        >>> data = Modalities.of(np.eye(4)[[0, 0, 1, 1]], np.eye(4)).with_duplicates_grouped()
        >>> [codes.tolist() for codes in data.groups]
        [[0, 0, 2, 2], [0, 0, 2, 2]]
        >>> data.duplicates.partition(",")[0]
        '2 image rows occur 2 times each. With copies in one group'
        """
        return with_copies_grouped(self)

    def with_rows_of(self, groups: np.ndarray, rng: np.random.Generator) -> Modalities:
        """The same with the rows of these groups as other documents, beside those it has.

        At most 10,000 of each modality are kept, drawn at random, in memory.
        """
        own, _ = self.rows_of_groups(groups[:MAX_OTHERS]) if len(groups) else ([], {})
        others = dict(self.others)
        for (name, side), rows in zip(self.sides.items(), own, strict=False):
            if len(rows) and name in others:
                both = side.subset(rows).rows(), others[name].rows()
                others[name] = Embeddings.from_array(namespace(both[0]).concat(both))
            elif len(rows):
                others[name] = side.subset(rows)
        few = {
            name: side.subset(np.sort(rng.permutation(side.n_rows)[:MAX_OTHERS]))
            for name, side in others.items()
        }
        return replace(self, others=few)

    def with_partial(self, folder: str | os.PathLike[str]) -> Modalities:
        """The same rows; the moments of each shard are kept in a folder once they are gathered.

        What is run again on the same shards, after it was stopped for instance, reads only those
        that are not there yet or have changed, and gives the same numbers to the last bit.
        """
        place = folder_to_write(folder)
        return self._changed(lambda side: replace(side, partial=place))

    def _changed(self, change: Callable[[Embeddings], Embeddings]) -> Modalities:
        sides, asking, others = (
            {name: change(side) for name, side in some.items()}
            for some in (self.sides, self.asking, self.others)
        )
        return replace(self, sides=sides, asking=asking, others=others)

    def to(self, device: str) -> Modalities:
        """The same with all rows held as tensors on a device; see ``Embeddings.to``."""
        return self._changed(lambda side: side.to(device))

    def pair(self, first: str, second: str) -> Modalities:
        """Two of the modalities, their rows as they are."""
        chosen = check_names((first, second))
        for name in chosen:
            check_choice(name, "modality", self.names)
        if chosen == self.names:
            return self
        places = [self.names.index(name) for name in chosen]
        return replace(
            self,
            sides={name: self.sides[name] for name in chosen},
            group_codes=None if self.row_by_row else tuple(self.groups[i] for i in places),
            thumbnails={n: t for n, t in self.thumbnails.items() if n in chosen},
            asking={n: rows for n, rows in self.asking.items() if n in chosen},
            asking_codes={n: codes for n, codes in self.asking_codes.items() if n in chosen},
            others={n: rows for n, rows in self.others.items() if n in chosen},
            code_keys=self.code_keys if self.row_by_row else self.group_keys,
        )

    def pairs(self, *, copied: bool = True) -> Modalities:
        """The matches alone, row by row, in memory; the group of each is kept. See ``take``."""
        return self if self.row_by_row else self.take(self.matches(), copied=copied)

    def take(
        self,
        rows: Sequence[np.ndarray],
        queries: Mapping[str, np.ndarray] | None = None,
        *,
        copied: bool = True,
    ) -> Modalities:
        """These rows of each side, in memory, with all that belongs to them.

        Of queries apart, those are taken whose group is, unless ``queries`` says which. With
        ``copied=False`` many rows are picked anew from those in memory as often as they are read.
        """
        chosen_by = dict(zip(self.names, rows, strict=True))
        sides = {
            name: side.subset(chosen_by[name], copied=copied) for name, side in self.sides.items()
        }
        thumbnails: dict[str, Thumbnail] = {
            name: partial(_picture_of, picture, chosen_by[name])
            for name, picture in self.thumbnails.items()
        }
        codes = [
            np.asarray(chosen) if self.row_by_row else self.groups[place][chosen]
            for place, chosen in enumerate(rows)
        ]
        asked = queries or {
            name: np.flatnonzero(np.isin(own, np.concatenate(codes)))
            for name, own in self.asking_codes.items()
        }
        asking = {n: side.subset(asked[n], copied=copied) for n, side in self.asking.items()}
        codes += [own[asked[name]] for name, own in self.asking_codes.items()]
        # Numbered anew: what counts by group must not be as long as the whole data has groups.
        kept, dense = np.unique(np.concatenate(codes), return_inverse=True)
        parts = np.split(dense, np.cumsum([len(c) for c in codes])[:-1])
        return replace(
            self,
            sides=sides,
            group_codes=tuple(parts[: len(sides)]),
            thumbnails=thumbnails,
            asking=asking,
            asking_codes=dict(zip(asking, parts[len(sides) :], strict=True)),
            code_keys=self._keys_of(kept),
        )

    def take_groups(self, chosen: np.ndarray, *, copied: bool = True) -> Modalities:
        """The rows of these groups, in memory; see ``take``."""
        return self.take(*self.rows_of_groups(chosen), copied=copied)

    def at_unit_length(self) -> Modalities:
        """The same rows in memory, each brought to unit length."""
        return self._changed(lambda side: replace(side, matrix=ArrayMatrix(unit(side.rows()))))

    def check(self, *, nonzero: bool = False) -> Modalities:
        """The same, once every value was looked at: no NaN, no infinity, one space."""
        rows = {name: side.rows() for name, side in self.sides.items()}
        rows |= {f"{name} queries": side.rows() for name, side in self.asking.items()}
        rows |= {f"other {name} documents": side.rows() for name, side in self.others.items()}
        for name, one in rows.items():
            check_values(one, name, nonzero=nonzero)
        for name in list(rows)[1:]:
            check_same_space(rows[self.names[0]], rows[name], (self.names[0], name))
        return self


def _stacked(X: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    """Two modalities in one array of shape (2, n, d)."""
    if getattr(X, "ndim", 0) == 3 and X.shape[0] == 2:
        return X[0], X[1]
    if (
        isinstance(X, (list, tuple))
        and len(X) == 2
        # Rows of one modality each, no row or number of them.
        and all(is_opened(s) or isinstance(s, Embeddings) or getattr(s, "ndim", 0) == 2 for s in X)
    ):
        raise InputTypeError(
            f"{names[0]} and {names[1]} must be given one after the other, got a "
            f"{type(X).__name__} of both. Pass (X, Y), or {{{names[0]!r}: X, {names[1]!r}: Y}}."
        )
    Embeddings.of(X, names[0])  # which says what to call where X is no rows at all
    raise InputTypeError(
        f"The rows of {names[1]} are missing: give both modalities, or one path, table or array of "
        "shape (2, n, d) that holds both."
    )


def _picture_of(picture: Thumbnail, rows: np.ndarray, row: int) -> bytes | None:
    """The picture of a row by its place among the rows that were taken."""
    return picture(int(rows[row]))
