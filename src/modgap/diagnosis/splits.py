"""Split the data by group: to fit on, to choose on, to confirm on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.core.checks import InputValueError
from modgap.io import Modalities

# Groups used at most: fitting needs moments only, evaluating is quadratic.
MAX_FIT, MAX_EVALUATE = 50_000, 1_000
SHARES = (0.5, 0.25, 0.25)
# Groups of each half on which hubs are tried.
MAX_FOLD = 500
MIN_PAIRS = 8

Counted = Literal["pairs", "groups", "rows of each modality"]


@dataclass(frozen=True, eq=False)
class Splits:
    """The rows to fit on, to choose on and to confirm on; without pairs nothing is chosen.

    Other documents of the index, rows without a match among them, are in each of them, at most
    10,000 of a modality. ``folds`` are halves of what the fit and the choose split hold together,
    for what is cross-fitted.
    """

    fit: Modalities
    choose: Modalities | None
    confirm: Modalities
    folds: tuple[Modalities, Modalities] | None = None

    @property
    def n_confirm(self) -> int:
        """How many groups, or rows of each modality without pairs, confirm a verdict."""
        if self.confirm.paired:
            return self.confirm.n_groups
        return next(iter(self.confirm.sides.values())).n_rows

    @property
    def counted(self) -> Counted:
        """What is split: pairs where each group has a row of both modalities, else groups."""
        if self.choose is None:
            return "rows of each modality"
        return self.confirm.counted

    def sizes(self) -> dict[str, int]:
        """How many groups each split has; without pairs, how many rows."""
        if self.choose is None:
            fit = sum(side.n_rows for side in self.fit.sides.values())
            return {"fit": fit, "confirm": self.n_confirm}
        return {
            "fit": self.fit.n_groups,
            "choose": self.choose.n_groups,
            "confirm": self.confirm.n_groups,
        }


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The confirm split alone, and where its rows come from.

    ``rows`` are the numbers that its documents have in the data, ``queries`` those of its queries:
    of the documents too, where these ask.
    """

    data: Modalities
    rows: Mapping[str, np.ndarray]
    queries: Mapping[str, np.ndarray]


def held_out(data: Modalities, seed: int) -> HeldOut:
    """The rows that ``split`` keeps to confirm on, with the same seed."""
    check_splittable(data)
    rng = np.random.default_rng(seed)
    if data.paired:
        sides, apart = data.rows_of_groups(in_shares(data.matched_groups, rng)[2])
        data = data.with_rows_of(rng.permutation(data.single_groups()), rng)
    else:
        _, (sides, apart) = _rows(data, rng)
        data = data.with_rows_of(np.zeros(0, np.int64), rng)
    rows = dict(zip(data.names, sides, strict=True))
    return HeldOut(data.take(sides, apart), rows, {**rows, **apart})


def split(data: Modalities, seed: int) -> Splits:
    """Fit, choose and confirm splits, 50/25/25 by group. Too little data is refused.

    Rows without a match help fitting, and are other documents of every index that is judged.
    Without pairs, rows are split in two, and the rows to confirm on are as many of each modality,
    so that one half is balanced.
    """
    check_splittable(data)
    rng = np.random.default_rng(seed)
    if not data.paired:
        fitted, held = _rows(data, rng)
        data = data.with_rows_of(np.zeros(0, np.int64), rng)
        return Splits(data.take(*fitted, copied=False), None, data.take(*held))
    fit, choose, confirm = in_shares(data.matched_groups, rng)
    single = rng.permutation(data.single_groups())
    known = np.concatenate([fit, choose])[: 2 * MAX_FOLD]
    every = np.concatenate([fit[:MAX_FIT], single[:MAX_FIT]])
    fitted_on = data.take_groups(every, copied=False)
    data = data.with_rows_of(single, rng)
    return Splits(
        fitted_on,
        data.take_groups(choose[:MAX_EVALUATE]),
        data.take_groups(confirm),
        (data.take_groups(known[::2]), data.take_groups(known[1::2])),
    )


def in_shares(
    groups: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The groups to fit on, to choose on and to confirm on, drawn at random."""
    both = rng.permutation(groups)
    ends = np.round(np.cumsum(SHARES) * len(both)).astype(int)
    fit, choose, confirm = np.split(both, ends[:-1])
    return fit, choose, confirm[:MAX_EVALUATE]


# Row numbers of each side, and of queries apart by name.
_RowNumbers = tuple[list[np.ndarray], dict[str, np.ndarray]]


def _rows(data: Modalities, rng: np.random.Generator) -> tuple[_RowNumbers, _RowNumbers]:
    """Rows of each modality, and queries that are not documents, in two."""
    sides = list(data.sides.values())
    order = [rng.permutation(side.n_rows) for side in sides]
    held = min(MAX_EVALUATE, *(side.n_rows // 2 for side in sides))
    asking = {name: rng.permutation(side.n_rows) for name, side in data.asking.items()}
    half = {name: min(MAX_EVALUATE, len(rows) // 2) for name, rows in asking.items()}
    fit = (
        [rows[held:][:MAX_FIT] for rows in order],
        {name: rows[half[name] :][:MAX_FIT] for name, rows in asking.items()},
    )
    confirm = (
        [rows[:held] for rows in order],
        {name: rows[: half[name]] for name, rows in asking.items()},
    )
    return fit, confirm


def check_splittable(data: Modalities) -> None:
    """Refuse too little data to be split."""
    count, of_what = data.n_groups, "groups with rows on every side"
    if not data.paired:
        count, of_what = min(side.n_rows for side in data.sides.values()), "rows of each modality"
    if count < MIN_PAIRS:
        raise InputValueError(
            f"A diagnosis needs at least {MIN_PAIRS} {of_what}, got {count}. modgap fit makes a "
            "correction from fewer, without metrics."
        )
