"""The vectors that a document is stored as: one, or one for each query modality."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, check_choice
from modgap.corrections import Affine, Correction, check_mapped, load_corrections
from modgap.index.equal_lengths import lengths_with_hubs, lift_documents, lift_queries, longest_row

# What an index may be given: a correction or its path, or several that serve different queries.
Corrections = Correction | str | os.PathLike[str] | Mapping[str, Correction] | Sequence[Correction]

# How wide a graph is searched unless told. Hubs are what a graph finds most easily, so without
# them it takes more to find as much.
EF_SEARCH, HUBS_EF_SEARCH = 64, 96
# Products of rows up to this length stay within float32.
MAX_LENGTH = 1e19


@dataclass(frozen=True)
class StoredVector:
    """One vector of every document: its column, the correction that makes it, and lengths.

    ``lengths`` has, for each modality, the length that documents are lifted to (see
    `modgap.index.equal_lengths`); None where they are stored as the correction gives them.
    """

    name: str
    correction: Correction
    lengths: Mapping[str, float] | None = None

    @property
    def dim(self) -> int:
        """How many columns are stored."""
        return self.correction.dim_out + (self.lengths is not None)

    @property
    def ef_search(self) -> int:
        """How wide a graph of these vectors is searched unless told."""
        return default_ef_search(self.correction)

    def document(
        self,
        rows: np.ndarray,
        modality: str,
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
    ) -> np.ndarray:
        """Checked raw rows as they are stored; ``keys`` as for ``Correction.apply``."""
        row_map = self.correction.map(modality, "document")
        mapped = row_map.map_checked(rows, modality, first_row=first_row, keys=keys)
        stored = self._float32(mapped, modality, first_row)
        if not self.correction.unit_rows and self.correction.metric != "cosine":
            check_products(stored, f"corrected {modality}", first_row=first_row)
        return stored if self.lengths is None else lift_documents(stored, self.lengths[modality])

    def query(self, rows: Any, modality: str) -> np.ndarray:
        """Raw queries as the store compares them."""
        mapped = self.correction.map(modality, "query")(rows, "queries")
        asked = self._float32(mapped, "queries")
        return asked if self.lengths is None else lift_queries(asked)

    def may_refuse(self, modality: str, smallest: float, largest: float) -> bool:
        """Whether a document may turn out impossible to store; no is certain.

        Of the largest number of each row in absolute terms, ``smallest`` is the least and
        ``largest`` the greatest.
        """
        affine = self.correction.affine(modality)
        if (affine.normalise or affine.is_identity) and smallest < 1e-30:
            return True
        needs_direction = self.correction.metric == "cosine" or affine.renormalise
        if needs_direction and not (affine.is_identity or _misses_origin(affine)):
            return True
        length = longest_row(affine, largest * affine.dim_in**0.5) or 0.0
        if self.correction.hubs is not None:
            length = lengths_with_hubs({modality: length}, self.correction.hubs)[modality]
        return not length < MAX_LENGTH

    def _float32(self, mapped: np.ndarray, name: str, first_row: int = 0) -> np.ndarray:
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(mapped, dtype=np.float32)
        nonzero = self.correction.metric == "cosine"
        check_mapped(rows, name, first_row=first_row, nonzero=nonzero)
        return rows


def check_products(rows: np.ndarray, name: str, *, first_row: int = 0) -> None:
    """Refuse rows so long that the products of two leave the range of float32."""
    sizes = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    if float(sizes.max()) * rows.shape[1] ** 0.5 > MAX_LENGTH:
        row = int(np.argmax(sizes))
        raise InputValueError(
            f"Row {first_row + row} of {name} holds {sizes[row]:.3g}, and products of such rows "
            "leave the range of float32, in which an index scores. Scale the rows, or use a "
            "correction that brings them to unit length."
        )


def _misses_origin(affine: Affine) -> bool:
    """Whether no row of unit length comes near the origin, as the map sees it."""
    if not affine.normalise:
        return False
    before = Affine(affine.dim_in, affine.matrix, affine.scale, normalise=True)
    if affine.matrix is not None and not before.gives_unit_rows:
        return False
    length = 1.0 if affine.matrix is not None else abs(affine.scale)
    moved = 0.0 if affine.offset is None else float(np.linalg.norm(affine.offset))
    return abs(length - moved) > 1e-3 * max(length, moved)


def as_corrections(given: Corrections) -> tuple[Correction, ...]:
    """One correction, or several of the same modalities that serve different queries."""
    if isinstance(given, str | os.PathLike):
        given = load_corrections(given)
    if isinstance(given, Correction):
        given = [given]
    every = given.values() if isinstance(given, Mapping) else given
    # One that serves several modalities is listed under each.
    found = tuple({id(correction): correction for correction in every}.values())
    if not found or not all(isinstance(correction, Correction) for correction in found):
        raise InputTypeError(
            "An index takes a Correction, the path of one, or several of them, got "
            f"{type(given).__name__}."
        )
    check_storable(found[0].names, "The name of a modality")
    for one in found[1:]:
        for what in ("names", "metric", "dim_in"):
            if getattr(one, what) != getattr(found[0], what):
                raise InputValueError(
                    f"The corrections of an index must have the same {what}, got "
                    f"{getattr(found[0], what)} and {getattr(one, what)}."
                )
    served = [name for correction in found for name in correction.queries]
    twice = sorted({name for name in served if served.count(name) > 1})
    if twice:
        raise InputValueError(
            "The corrections of an index must serve different queries, but more than one serves "
            f"{' and '.join(twice)} queries. Give one for each."
        )
    return found


def check_storable(texts: Iterable[str], what: str) -> None:
    """Text that every database can keep: of Unicode, without zero bytes."""
    for text in texts:
        if "\0" in text or text != text.encode(errors="ignore").decode():
            raise InputValueError(
                f"{what} must be text of Unicode without zero bytes, got {text!r}."
            )


def default_ef_search(correction: Correction) -> int:
    """How wide a graph of its documents is searched unless told."""
    return EF_SEARCH if correction.hubs is None else HUBS_EF_SEARCH


def check_banks(corrections: Sequence[Correction]) -> None:
    """Refuse to store documents with a correction whose bank of queries was removed."""
    for correction in corrections:
        if correction.hubs is not None:
            correction.hubs.check_bank()


def vector_names(corrections: Sequence[Correction], prefix: str = "embedding") -> list[str]:
    """What the columns are called: ``embedding``, or ``embedding_text`` and so on for several."""
    if len(corrections) == 1:
        return [prefix]
    return ["_".join((prefix, *correction.queries)) for correction in corrections]


def query_modality(corrections: Mapping[str, Correction], modality: str | None) -> str:
    """The modality of queries: one that is served, or the only one where none is named.

    ``corrections`` are keyed by the modality whose queries they serve.
    """
    if modality is None:
        if len(corrections) == 1:
            return next(iter(corrections))
        raise InputValueError(
            f"A query needs its modality, {' or '.join(map(repr, corrections))} (modality=…, "
            "--modality …): it says which map is applied to it."
        )
    first = next(iter(corrections.values()))
    modality = str(check_choice(modality, "modality", first.names))
    if modality not in corrections:
        first.check_serves(modality)
    return modality
