"""Hubs: documents that come up for queries which are about something else.

A document's hubness h is its mean score on the k queries of a bank that score it highest; α h is
subtracted from its score. That is one more column: the document stores −α h, the query a 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from modgap.arrays import like, namespace, top_mean
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_finite,
)
from modgap.core.results import Brief, changed
from modgap.corrections.affine import Affine
from modgap.corrections.row_map import RowMap
from modgap.io.group_keys import KEYED_BY, KeyedBy

# A correction carries at most so many queries, and fewer than these say too little.
MAX_BANK, MIN_BANK = 2_000, 20
# What k and α are chosen from.
NEIGHBOURS = (5, 10, 20, 50)
WEIGHTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class Hubs(Brief):
    """A bank of queries as the correction maps them, and how much of the hubness is subtracted.

    ``bank`` (n, d) is held in float16, without the column of ones; None once it was removed, and
    documents cannot be mapped then. A bank row is left out of the hubness of documents that have
    its key in ``keys``; ``keyed_by`` says what keys are made from. ``weight`` is α, ``neighbours``
    k.
    """

    weight: float
    neighbours: int
    bank: np.ndarray | None
    keys: np.ndarray | None = None
    keyed_by: KeyedBy | None = None
    n_bank: int = 0

    def __post_init__(self) -> None:
        if not 0 <= check_finite(self.weight, "hubs") <= 1:
            raise InputValueError(f"hubs must be between 0 and 1, got {self.weight}.")
        check_count(self.neighbours, "neighbours")
        if self.bank is None:
            return
        if np.ndim(self.bank) != 2 or not np.all(np.isfinite(self.bank)):
            raise InputValueError(
                f"A bank must be a matrix of finite numbers, got shape {np.shape(self.bank)}."
            )
        if np.max(np.abs(self.bank), initial=0.0) > np.finfo(np.float16).max:
            raise InputValueError(
                "The queries of the bank are beyond half precision, in which a bank is kept. Fit "
                'with rows="unit", or scale the rows.'
            )
        bank = np.asarray(self.bank, dtype=np.float16)
        object.__setattr__(self, "bank", bank)
        object.__setattr__(self, "n_bank", len(bank))
        if not MIN_BANK <= len(bank) <= MAX_BANK:
            raise InputValueError(
                f"A bank must have {MIN_BANK} to {MAX_BANK:,} queries, got {len(bank)}."
            )
        if 2 * self.neighbours > len(bank):
            raise InputValueError(
                f"neighbours must be at most half of the bank: {len(bank)} queries, got "
                f"{self.neighbours}."
            )
        if self.keys is not None and np.shape(self.keys) != (len(bank),):
            raise InputValueError(
                f"A bank must have one key per query: {len(bank)} queries, got shape "
                f"{np.shape(self.keys)}."
            )
        if self.keys is not None and self.keys.dtype.kind not in "iu":
            kind = self.keys.dtype
            raise InputTypeError(f"The keys of a bank must be whole numbers, got {kind}.")
        if self.keyed_by not in (None, *KEYED_BY):
            check_choice(self.keyed_by, "keyed_by", KEYED_BY)

    def check_fits(self, metric: str, queries: Sequence[str], columns: int) -> None:
        """Refuse a correction of this metric and these queries, mapped to so many columns."""
        if metric != "inner_product":
            raise InputValueError(
                f"Hubs are ranked by inner product, and this correction by {metric}."
            )
        if len(queries) > 1:
            raise InputValueError(
                "Hubs serve one query modality, and this correction serves "
                f"{' and '.join(queries)} queries. Make one for each."
            )
        if self.bank is not None and self.bank.shape[1] != columns:
            raise InputValueError(
                f"The bank must have the {columns} columns of the mapped queries, got "
                f"{self.bank.shape[1]}."
            )

    def without_bank(self) -> Hubs:
        """The same for queries alone: documents that have their column need no bank."""
        return changed(self, bank=None, keys=None, keyed_by=None)

    def header(self) -> dict[str, Any]:
        """What a file says of it, besides its tensors."""
        return {
            "weight": self.weight,
            "neighbours": self.neighbours,
            "n_bank": self.n_bank,
            "keyed_by": self.keyed_by,
            "tensors": list(self.tensors()),
        }

    def tensors(self) -> dict[str, np.ndarray]:
        """The bank and its keys, where it has them."""
        held = {"hubs.bank": self.bank, "hubs.keys": self.keys}
        return {name: value for name, value in held.items() if value is not None}

    @classmethod
    def of(cls, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Hubs:
        """What ``header`` and ``tensors`` gave."""
        held = {name: tensors[name] for name in header["tensors"]}
        return cls(
            float(header["weight"]), int(header["neighbours"]), held.get("hubs.bank"),
            held.get("hubs.keys"), header["keyed_by"], int(header["n_bank"]),
        )  # fmt: skip

    def check_bank(self) -> np.ndarray:
        """The bank; refused where it was removed."""
        if self.bank is None:
            raise InputValueError(
                "The bank of queries was removed from this correction, so it maps queries only. "
                "Use the file that still has its bank to correct documents."
            )
        return self.bank

    @cached_property
    def rows(self) -> np.ndarray:
        """The queries of the bank in float32."""
        bank = self.check_bank() if self.bank is None else self.bank
        return bank.astype(np.float32)

    def column(self, documents: Array, keys: np.ndarray | None = None) -> Array:
        """−α h of documents as the correction maps them, before the column is added."""
        return -self.weight * self.hubness(documents, keys)

    def hubness(
        self, documents: Array, keys: np.ndarray | None = None, neighbours: int | None = None
    ) -> Array:
        """h of documents as the correction maps them: the mean of their k largest scores."""
        bank = like(self.rows, documents)
        return top_mean(documents, bank, neighbours or self.neighbours, keys, self.keys)


@dataclass(frozen=True, eq=False)
class HubMap(RowMap):
    """An affine map, and one more column: −α h for documents, 1 for queries."""

    affine: Affine
    hubs: Hubs
    is_query: bool

    def steps(self) -> list[str]:
        """What is done to a row, in order, in a few letters each."""
        weight = self.hubs.weight
        subtracted = f"−{weight:g} · hubness appended" if weight else "0 appended"
        last = "1 appended" if self.is_query else subtracted
        return [*self.affine.steps(), last]

    @property
    def dim_in(self) -> int:  # type: ignore[override]
        """Number of columns of the rows it takes."""
        return self.affine.dim_in

    @property
    def dim_out(self) -> int:
        """Number of columns of the rows it gives."""
        return self.affine.dim_out + 1

    @property
    def is_identity(self) -> bool:
        """Whether rows come out as they went in: never."""
        return False

    @np.errstate(over="ignore", invalid="ignore")  # what leaves the range is refused after it
    def map_checked(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
    ) -> Array:
        """The mapped rows with their column."""
        mapped = self.affine.map_checked(rows, name, first_row=first_row)
        if self.is_query:
            return with_column(mapped, namespace(mapped).ones_like(mapped[:, 0]))
        return with_column(mapped, self.hubs.column(mapped, keys))


def kept_in_bank(n_queries: int) -> np.ndarray:
    """Which of the queries a bank keeps: at most 2,000, spread over them."""
    spread = np.linspace(0, n_queries - 1, min(n_queries, MAX_BANK))
    return np.unique(np.round(spread).astype(np.int64))


def with_column(mapped: Array, column: Array) -> Array:
    """Mapped rows with one more number each: −α h for documents, 1 for queries."""
    xp = namespace(mapped)
    return xp.concat([mapped, xp.astype(column, mapped.dtype, copy=False)[:, None]], axis=1)
