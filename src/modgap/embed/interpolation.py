"""Rows along the way between two rows (vertical SLERP), and the images of a bank nearest to them.

Levi and Gilboa 2025, eq. 12; the formula itself is `modgap.measures.vslerp`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import Result, plain
from modgap._validate import InputValueError, check_numbers, check_same_space
from modgap.embed.bank import Bank
from modgap.measures import vslerp_path
from modgap.search import search

# A cosine above this is that of a row with itself.
_SAME = 1 - 1e-5


@dataclass(frozen=True, eq=False)
class Interpolation(Result):
    """The way from one row to another, by several α.

    Attributes
    ----------
    ends : pair of str
        What the way goes between.
    alphas, thetas : (a,) and (s,) arrays
        How far the mean is taken off, and how far along the way each step is.
    rows : (a, s, d) array
        The rows, left out of ``to_dict``.
    radii : (a, s) array
        Their distance from the mean, over that of the ends, on average.
    nearest, cosines : (a, s) arrays or None
        The row of the bank nearest to each, by cosine.
    names : tuple of tuples of str, or None
        What these rows of the bank are called.
    """

    ends: tuple[str, str]
    alphas: np.ndarray
    thetas: np.ndarray
    rows: np.ndarray
    radii: np.ndarray
    nearest: np.ndarray | None = None
    cosines: np.ndarray | None = None
    names: tuple[tuple[str, ...], ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """All but the rows, as plain Python values."""
        fields = (field.name for field in dataclasses.fields(self) if field.name != "rows")
        return {name: plain(getattr(self, name)) for name in fields}

    @property
    def flat(self) -> np.ndarray:
        """The rows one below the other: every step of the first α, then of the next."""
        return self.rows.reshape(-1, self.rows.shape[-1])

    @property
    def labels(self) -> list[str]:
        """What each of these rows is.

        >>> way = interpolate(np.eye(2)[0], np.eye(2)[1], thetas=[0, 1], alphas=[0])
        >>> way.labels
        ['α = 0, θ = 0', 'α = 0, θ = 1']
        """
        return [
            f"α = {alpha:.3g}, θ = {theta:.3g}" for alpha in self.alphas for theta in self.thetas
        ]


def interpolate(
    a: np.ndarray,
    b: np.ndarray,
    *,
    thetas: Sequence[float],
    alphas: Sequence[float],
    mean: np.ndarray | None = None,
    bank: Bank | None = None,
    with_ends: bool = False,
    ends: tuple[str, str] = ("A", "B"),
) -> Interpolation:
    """Rows along the way from ``a`` to ``b``, around the mean of their modality.

    Parameters
    ----------
    a, b : (d,) arrays
        The ends, as they are: raw rows stay raw.
    thetas : sequence of float
        How far along the way: 0 is ``a``, 1 is ``b``.
    alphas : sequence of float
        0 is SLERP around the origin, 1 goes around the mean.
    mean : (d,) array, optional
        The mean of the modality; may be left out where every α is 0.
    bank : Bank, optional
        Where the row nearest to each is looked for.
    with_ends : bool
        Whether a step between the ends may find the ends themselves, which are often nearest.
    ends : pair of str
        What to call the ends.
    """
    steps, amounts = check_numbers(thetas, "thetas"), check_numbers(alphas, "alphas")
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    check_same_space(a[None], b[None], ends)
    if mean is None and np.any(amounts):
        raise InputValueError(
            "An α other than 0 takes off a mean: name the rows that it is of with --mean, or a "
            "bank with --bank."
        )
    centre = np.zeros_like(a) if mean is None else np.asarray(mean, dtype=np.float64)
    check_same_space(a[None], centre[None], (ends[0], "the mean"))
    rows = vslerp_path(a, b, steps.tolist(), amounts.tolist(), centre)
    of_ends = (np.linalg.norm(a - centre) + np.linalg.norm(b - centre)) / 2
    radii = np.linalg.norm(rows - centre, axis=-1) / of_ends
    found = Interpolation(ends, amounts, steps, rows, radii)
    return found if bank is None else _with_nearest(found, bank, with_ends)


def _with_nearest(found: Interpolation, bank: Bank, with_ends: bool) -> Interpolation:
    documents = bank.rows.rows()
    check_same_space(found.flat, documents, (found.ends[0], bank.rows.source))
    queries = found.flat.astype(np.float32)
    near, cosines = search(queries, documents, 3)
    chosen = np.zeros(len(near), dtype=np.int64)
    if not with_ends:
        at = np.tile(found.thetas, len(found.alphas))
        # Never all three: two rows at the most are those of the ends.
        is_end = np.isin(near, near[:, 0][((at == 0) | (at == 1)) & (cosines[:, 0] > _SAME)])
        between = (at > 0) & (at < 1) & ~is_end.all(axis=1)
        chosen[between] = np.argmin(is_end[between], axis=1)
    shape = found.radii.shape
    nearest, values = (
        np.take_along_axis(of, chosen[:, None], axis=1).reshape(shape) for of in (near, cosines)
    )
    names = tuple(tuple(bank.name(int(row)) for row in steps) for steps in nearest)
    return dataclasses.replace(found, nearest=nearest, cosines=values, names=names)
