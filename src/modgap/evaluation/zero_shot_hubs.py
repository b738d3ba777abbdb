"""Zero-shot classification with hubs: class texts that are near to all images count for less."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from modgap._arrays import like, to_numpy
from modgap._results import Result
from modgap._validate import Array, InputValueError, check_rows
from modgap.corrections import Calibrate, Correction, RecognitionWarning
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.hubs import MAX_BANK, MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.evaluation.significance import DEFAULT_RESAMPLES, Comparison, compare
from modgap.evaluation.zero_shot import (
    ZeroShot,
    check_class_numbers,
    one_row_per_class,
    zero_shot,
)
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES


@dataclass(frozen=True, eq=False)
class ZeroShotHubs(Result):
    """What subtracting the hubness of class texts gains, on rows that chose nothing.

    ``weight`` (α) and ``neighbours`` (k) were chosen on one half of the rows; ``weight`` is 0 where
    nothing was better than the rows as they are. ``raw`` and ``corrected`` are the accuracies on
    the other half, ``gain`` compares them item by item. ``correction`` is the one to use from now
    on, with the whole bank; None where ``weight`` is 0.
    """

    weight: float
    neighbours: int
    n_bank: int
    raw: ZeroShot
    corrected: ZeroShot
    gain: Comparison
    correction: Correction | None

    def to_dict(self) -> dict[str, Any]:
        """The metrics and the choice, without the correction."""
        found = {name: getattr(self, name) for name in ("weight", "neighbours", "n_bank")}
        results = {name: getattr(self, name).to_dict() for name in ("raw", "corrected", "gain")}
        return {**found, **results}


def zero_shot_hubs(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    bank: Array | None = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    weights: Sequence[float] = WEIGHTS,
    neighbours: Sequence[int] = NEIGHBOURS,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> ZeroShotHubs:
    """Accuracy of ``zero_shot`` with the hubness of the class texts subtracted.

    A class text's hubness is its mean score on the k images of a bank that score it highest. The
    bank needs no labels. α and k are chosen on a random half of the rows and measured on the
    other; no row is in the bank that it is scored with.

    Parameters
    ----------
    X, class_texts, labels
        As for ``zero_shot``.
    bank : (n, d) array, optional
        Unlabelled images of the kind that will be classified, none of them in X. By default each
        half of X is the bank of the other. At most 2,000 rows are kept.
    names : pair of str
        What the modalities of X and of the class texts are called.
    weights, neighbours : several numbers
        α and k to choose from; k beyond half of the bank is left out.
    resamples, seed : int
        Resamples of the gain's interval, and the seed of the halves.

    >>> X = np.repeat([[1.0, 0, 2], [0, 1, 2]], 20, axis=0)  # near to the first text, all of them
    >>> found = zero_shot_hubs(X, np.array([[1.0, 0, 2], [0, 1, 0]]), np.repeat([0, 1], 20))
    >>> found.raw.class_accuracy, found.corrected.class_accuracy, found.weight
    (array([1., 0.]), array([1., 1.]), 0.75)
    """
    task = _Halves.of(X, class_texts, labels, bank, names, seed)
    weight, k = task.choose(weights, neighbours)
    raw, corrected = task.classify(1), task.classify(1, weight, k)
    return ZeroShotHubs(
        weight=weight,
        neighbours=k,
        n_bank=min(task.banks[1].shape[0], MAX_BANK),
        raw=raw,
        corrected=corrected,
        gain=compare(raw.hits, corrected.hits, resamples=resamples, seed=seed),
        correction=task.correction(weight, k, bank) if weight else None,
    )


@dataclass(frozen=True, eq=False)
class _Halves:
    """Labelled rows in two halves, and the bank of each: the first chooses, the second measures."""

    data: Modalities
    texts: Array
    rows: tuple[Array, Array]
    labels: tuple[np.ndarray, np.ndarray]
    banks: tuple[Array, Array]

    @classmethod
    def of(
        cls, X: Array, class_texts: Any, labels: Any, bank: Any, names: Sequence[str], seed: int
    ) -> _Halves:
        X, texts = check_rows(X, nonzero=True), one_row_per_class(class_texts)
        labels = check_class_numbers(labels, X.shape[0], texts.shape[0])
        data = Modalities.of(X, texts, names, paired=False).check(nonzero=True)
        order = np.random.default_rng(seed).permutation(X.shape[0])
        first, second = (np.sort(half) for half in np.array_split(order, 2))
        rows = X[like(first, X)], X[like(second, X)]
        banks = rows[::-1] if bank is None else (without_rows_of(X, bank),) * 2
        halves = cls(data, texts, rows, (labels[first], labels[second]), banks)
        if bank is not None:
            check_bank(halves.plain, bank, data)
        elif len(second) < MIN_BANK:
            raise InputValueError(
                f"X must have at least {2 * MIN_BANK} rows for each half to be the bank of the "
                f"other, got {len(order)}. Give unlabelled rows of their kind as bank."
            )
        return halves

    @cached_property
    def plain(self) -> Correction:
        """Calibrated without hubs. All class texts have one mean and one spread, so no prediction
        changes; it is what hubness is counted in."""
        return Calibrate().fit(self.data, queries=self.data.names[0]).correction_

    def classify(self, half: int, weight: float = 0.0, k: int = 0) -> ZeroShot:
        """One half against the class texts; raw where ``weight`` is 0."""
        used = None
        if weight:
            used = with_hubs(self.plain, self.data, weight, k, self.banks[half])
        return zero_shot(self.rows[half], self.texts, self.labels[half], correction=used)

    def choose(self, weights: Sequence[float], neighbours: Sequence[int]) -> tuple[float, int]:
        """The α and k of the highest accuracy on the first half; zeros where raw is as good."""
        most = min(bank.shape[0] for bank in self.banks) // 2
        best, chosen = self.classify(0).accuracy, (0.0, 0)
        for k in neighbours:
            for weight in weights if k <= most else ():
                if (found := self.classify(0, weight, k).accuracy) > best:
                    best, chosen = found, (float(weight), int(k))
        return chosen

    def correction(self, weight: float, k: int, bank: Array | None) -> Correction:
        """The correction to use: all unlabelled rows are its bank."""
        asking = self.data.names[0]
        rows = self.data.X if bank is None else bank
        corrector = Calibrate(hubs=weight, neighbours=k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecognitionWarning)  # said before
            return corrector.fit(self.data, queries=asking, bank=rows).correction_


def without_rows_of(X: Array, bank: Any) -> Array:
    """The bank; refused where it holds rows that are to be classified."""
    bank = check_rows(bank, "bank", nonzero=True)
    rows = {row.tobytes() for row in to_numpy(X)}
    shared = sum(row.tobytes() in rows for row in to_numpy(bank).astype(to_numpy(X).dtype))
    if shared:
        raise InputValueError(
            f"The bank has {shared} rows of X, which it is to classify. Leave them out; without a "
            "bank, each half of X is the bank of the other."
        )
    return bank
