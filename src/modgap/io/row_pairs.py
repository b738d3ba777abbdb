"""Decides which rows of several modalities match: by group, by id, or row by row."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.door import check_group_labels, check_groups, encode_groups
from modgap.core.results import spoken
from modgap.io.embeddings import Embeddings
from modgap.io.group_keys import KeyedBy
from modgap.io.id_matches import PairingWarning, match_ids, refuse_repeated

_HOW_TO_PAIR = (
    "Say which rows match with groups (--groups), or that none do with paired=False (--unpaired)."
)


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Which rows match, and how that is known: the fields of `Modalities` that say it."""

    paired: bool
    pairing: str
    keyed_by: KeyedBy
    group_codes: tuple[np.ndarray, ...] | None = None
    group_labels: tuple[Any, ...] | None = None
    undecided: str = ""


def row_pairs(
    sides: Mapping[str, Embeddings], groups: Any, paired: bool | None, *, by_place: bool
) -> RowPairs:
    """Which rows of these sides match, see `Modalities.of`; ``by_place`` lets row i match row i."""
    names, sizes = tuple(sides), [side.n_rows for side in sides.values()]
    if groups is not None:
        if paired is False:
            raise InputValueError(
                "groups say which rows match, so they cannot be unpaired as well."
            )
        labels = tuple(check_group_labels(groups, names))
        codes = encode_groups(labels, sizes, names)
        return RowPairs(True, "by group", "group", codes, labels)
    if paired is False:
        return RowPairs(False, "not paired", "own row")
    have_ids = all("ids" in side.columns for side in sides.values())
    by_id = match_ids(*sides.values()) if have_ids else None
    if by_id is not None and all(by_id.matched):
        if paired is None and not by_place:
            refuse_repeated(sides)
        pairing = f"by id: {by_id.words(names)}"
        if by_id.few:
            _warn(f"Few ids match, so few rows have a pair {pairing}. {_HOW_TO_PAIR}")
        elif by_id.codes is None:
            pairing = "row by row, the ids agree"
        return RowPairs(True, pairing, "id", by_id.codes)
    said = paired is not None
    if paired is None:
        paired = by_place and len({*sizes}) == 1
    if paired and len({*sizes}) > 1:
        check_groups(None, sizes[0], next(n for n in sizes if n != sizes[0]), names)
    pairing = "row by row" if paired else "not paired"
    undecided = "" if said or by_id is not None or len({*sizes}) == 1 else _undecided(sides)
    if by_id is not None:
        _warn(
            f"No id of {names[0]} is an id of {' and '.join(names[1:])} ({by_id.examples()}; "
            "texts are compared in Unicode's NFC), "
            f"so rows are taken as {'pairs row by row' if paired else pairing}. {_HOW_TO_PAIR}"
        )
    keyed_by: KeyedBy = "row" if paired else "own row"
    return RowPairs(paired, pairing, keyed_by, undecided=undecided)


def _undecided(sides: Mapping[str, Embeddings]) -> str:
    """That sides of different sizes hold nothing that says which rows match, and what to do."""
    counts = spoken([f"{side.n_rows:,} {name} rows" for name, side in sides.items()])
    return (
        f"{counts} cannot be paired: their numbers differ, and they have no ids or groups. Give "
        "ids on all sides or groups (--groups), or use no pairs with paired=False (--unpaired)."
    )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, PairingWarning, stacklevel=4)
