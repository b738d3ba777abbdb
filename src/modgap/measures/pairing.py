"""Do the pairs look like pairs? Matched rows against the others, on a sample."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_count, check_same_space
from modgap.core.results import Result
from modgap.io import Modalities, PairingWarning

# Fewer pairs than these cannot tell a weak model from shuffled rows.
MIN_PAIRS = 30
# Shuffled rows exceed this less than once in a thousand times, whatever the rows; see
# docs/evidence/mix-ups.md for how often they do, and how far honest pairs are above it.
MIN_Z = 4.0
# Another encoder of the same texts makes z grow with the number of pairs, either way, but leaves
# recall at chance and the matched cosines within their spread. Few pairs of a weak model may miss
# one of these, hardly both.
MIN_RECALL = 4.0  # times chance
MIN_EXCESS = 0.9  # standard deviations of the cosines

# Of unit rows in float32; photos and their captions are never that near.
SAME_ROWS = 1 - 1e-6

MAX_SAMPLE = 1_000

_CAUSES = (
    "Either the rows of the two sides are not in the same order, or one side was not embedded by "
    "the same model (another model, a text-only encoder, random weights, wrong preprocessing)."
)


@dataclass(frozen=True)
class PairingSignal(Result):
    """Whether matched rows are nearer to each other than to the others.

    ``z`` counts how many standard deviations the mean cosine of matched rows is above its mean
    over all ways to pair the same rows; ``excess`` is how many standard deviations of a single
    cosine that is. ``recall`` is recall@1, the mean of both ways, where the first of equal scores
    are all found, and ``chance`` what rows paired at random have. ``looks_paired`` is None where
    ``n_pairs`` are too few, or too much alike, to tell.
    """

    names: tuple[str, ...]
    n_pairs: int
    cosine_matched: float
    cosine_others: float
    z: float
    excess: float
    recall: float
    chance: float
    looks_paired: bool | None

    @property
    def sentence(self) -> str:
        """What was found, with numbers."""
        numbers = (
            f"on {self.n_pairs:,} pairs the mean cosine of matched rows is "
            f"{self.cosine_matched:.3f}, of other rows {self.cosine_others:.3f} "
            f"(z = {self.z:.1f}), and recall@1 is {self.recall:.3f}, by chance {self.chance:.3f}"
        )
        if self.looks_paired is None:
            return f"Whether rows are pairs cannot be decided from {self.n_pairs:,} of them."
        if self.looks_paired:
            return f"Rows look paired: {numbers}."
        x, y = self.names
        return f"The {x} and {y} rows look unpaired: {numbers}. {_CAUSES}"


def pairing_signal(
    data: Modalities, *, seed: int = 0, at_most: int = MAX_SAMPLE
) -> PairingSignal | None:
    """Whether rows that are said to match do, on a sample of groups; None without pairs.

    One match of each group, at unit length. z is the sum of the matched cosines against its mean
    and variance over all permutations, in closed form: Σ dᵢᵢ / sqrt(Σ dᵢⱼ² / (n − 1)), d the
    cosines less the means of their row and column (Hoeffding 1951), so rows that are near to all
    others count for nothing. Pairs are believed where z is at least 4, and recall@1 at least four
    times chance or the mean matched cosine at least 0.9 of their spread above the others.

    Of more than two modalities, every two are looked at, and the weakest signal is given.

    Parameters
    ----------
    data : Modalities
        Two modalities or more.
    seed : int
        Seed of the sample.
    at_most : int
        How many groups to look at.
    """
    check_count(at_most, "at_most", at_least=MIN_PAIRS)
    if not data.paired:
        return None
    found = [
        _signal(two, seed, at_most)
        for two in (data.pair(*names) for names in combinations(data.names, 2))
        if two.n_groups
    ]
    return min(found, key=lambda one: (one.looks_paired is not False, one.excess), default=None)


def _signal(data: Modalities, seed: int, at_most: int) -> PairingSignal:
    x, y = data.two()
    rng = np.random.default_rng(seed)
    some = np.arange(data.n_groups)
    if len(some) > at_most:
        some = np.sort(rng.choice(len(some), at_most, replace=False))
    of_x, of_y = data.matches(some)
    X, Y = x.take(of_x), y.take(of_y)
    check_same_space(X, Y, data.names)
    return signal_of_rows(X, Y, data.names)


def signal_of_rows(X: Array, Y: Array, names: Sequence[str] = ("image", "text")) -> PairingSignal:
    """The same for row i of X and row i of Y, all of them; rows without direction are left out.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 8))
    >>> signal_of_rows(X, X + 3).looks_paired, signal_of_rows(X, X[::-1] + 3).looks_paired
    (True, False)
    """
    U, V = (np.asarray(to_numpy(rows), dtype=np.float64) for rows in (X, Y))
    largest = np.stack([np.max(np.abs(rows), axis=1) for rows in (U, V)])
    usable = np.all(np.isfinite(largest) & (largest > 0), axis=0)
    U, V = (unit(rows[usable]) for rows in (U, V))
    n = len(U)
    if n < 2:
        nan = float("nan")
        return PairingSignal(tuple(names), n, nan, nan, nan, nan, nan, nan, None)
    cosines = U @ V.T
    matched = np.diagonal(cosines)
    d = cosines - cosines.mean(axis=0) - cosines.mean(axis=1)[:, None] + cosines.mean()
    spread = float(np.sqrt(np.sum(d**2) / (n - 1)))
    # Rows that are all alike have no spread but that of rounding.
    z = float(np.trace(d)) / spread if spread > 1e-6 else float("nan")
    firsts = [cosines >= cosines.max(axis=axis, keepdims=True) - 1e-9 for axis in (0, 1)]
    recall = float(np.mean([np.diagonal(first) for first in firsts]))
    chance = float(np.mean(firsts))
    excess = z / float(np.sqrt(n))
    found = recall >= MIN_RECALL * chance or excess >= MIN_EXCESS
    return PairingSignal(
        names=tuple(names),
        n_pairs=n,
        cosine_matched=float(matched.mean()),
        cosine_others=float((cosines.sum() - matched.sum()) / (n * (n - 1))),
        z=z,
        excess=excess,
        recall=recall,
        chance=chance,
        looks_paired=None if n < MIN_PAIRS or np.isnan(z) else z >= MIN_Z and found,
    )


def warn_if_unpaired(signal: PairingSignal | None) -> None:
    """Warn where pairs do not look like pairs."""
    if signal is not None and signal.looks_paired is False:
        warnings.warn(
            f"{signal.sentence} If they are no pairs, say so with paired=False (--unpaired).",
            PairingWarning,
            stacklevel=3,
        )


def check_pairing(data: Modalities, *, trust_pairs: bool = False, seed: int = 0) -> None:
    """Refuse pairs that do not look like pairs, and two sides with the same rows.

    Parameters
    ----------
    data : Modalities
        Two modalities or more; without pairs there is nothing to check.
    trust_pairs : bool
        Do not look.
    seed : int
        Seed of the sample.
    """
    signal = None if trust_pairs else pairing_signal(data, seed=seed)
    if signal is not None and signal.cosine_matched >= SAME_ROWS:
        x, y = signal.names
        raise InputValueError(
            f"The {x} and {y} rows are the same: was one file given twice? Give a file for each "
            "modality; to go on with these, use diagnose or fix with --trust-pairs "
            "(trust_pairs=True)."
        )
    if signal is not None and signal.looks_paired is False:
        raise InputValueError(
            f"{signal.sentence} If the rows are no pairs, say so with --unpaired (in Python, "
            "paired=False); to go on with these pairs, use diagnose or fix with --trust-pairs "
            "(trust_pairs=True)."
        )
