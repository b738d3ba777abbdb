"""Zero-shot classification with hubs: class texts that are near to all images count for less."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modgap.arrays import like
from modgap.core.checks import Array, InputValueError
from modgap.core.door import check_rows
from modgap.core.results import NOT_IN_JSON, Result
from modgap.corrections import Calibrate, Correction, RecognitionWarning
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.hubs import MAX_BANK, MIN_BANK, NEIGHBOURS, WEIGHTS
from modgap.evaluation.significance import DEFAULT_RESAMPLES, Comparison, compare
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.tasks.sweep import halves_of, without_rows_of
from modgap.tasks.task import TaskScore
from modgap.tasks.zero_shot import check_class_numbers, one_row_per_class, zero_shot_task


@dataclass(frozen=True, eq=False)
class ZeroShotHubs(Result):
    """What subtracting the hubness of class texts gains, on rows that chose nothing.

    ``weight`` (α) and ``neighbours`` (k) were chosen on one half of the rows; ``weight`` is 0 where
    nothing was better than uncorrected rows. ``raw`` and ``corrected`` are the accuracies on the
    other half, ``gain`` compares them item by item. ``correction`` is the one to use from now on,
    with the whole bank; None where ``weight`` is 0.
    """

    weight: float
    neighbours: int
    n_bank: int
    raw: TaskScore
    corrected: TaskScore
    gain: Comparison
    correction: Correction | None = field(metadata=NOT_IN_JSON)


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
    """Accuracy of ``zero_shot_task`` with the hubness of the class texts subtracted.

    A class text's hubness is its mean score on the k images of a bank that score it highest. The
    bank needs no labels. α and k are chosen on a random half of the rows and measured on the
    other; no row is in the bank that it is scored with.

    Parameters
    ----------
    X, class_texts, labels
        As for ``zero_shot_task``.
    bank : (n, d) array, optional
        Unlabelled images of the kind that will be classified, none of them in X. By default each
        half of X is the bank of the other. At most 2,000 rows are kept.
    names : pair of str
        The names of the modalities of X and of the class texts.
    weights, neighbours : several numbers
        α and k to choose from; k beyond half of the bank is left out.
    resamples, seed : int
        Resamples of the gain's interval, and the seed of the halves.

    >>> X = np.repeat([[1.0, 0, 2], [0, 1, 2]], 20, axis=0)  # near to the first text, all of them
    >>> found = zero_shot_hubs(X, np.array([[1.0, 0, 2], [0, 1, 0]]), np.repeat([0, 1], 20))
    >>> found.raw.mean < found.corrected.mean, found.corrected.mean, found.weight
    (True, 1.0, 0.75)
    """
    X, texts = check_rows(X, nonzero=True), one_row_per_class(class_texts)
    labels = check_class_numbers(labels, X.shape[0], texts.shape[0])
    data = Modalities.of(X, texts, names, paired=False).check(nonzero=True)
    halves = halves_of(np.arange(X.shape[0]), seed)
    rows = [X[like(half, X)] for half in halves]
    banks = rows[::-1] if bank is None else [without_rows_of(X, bank)] * 2
    # All class texts have one mean and one spread, so that this changes no prediction by itself: it
    # is what hubness is counted in.
    plain = Calibrate().fit(data, queries=data.names[0]).correction_
    if bank is not None:
        check_bank(plain, bank, data)
    elif len(halves[1]) < MIN_BANK:
        raise InputValueError(
            f"X must have at least {2 * MIN_BANK} rows for each half to be the bank of the other, "
            f"got {X.shape[0]}. Give unlabelled rows of their kind as bank."
        )

    tasks = [
        zero_shot_task(own, texts, labels[half], names=data.names)
        for own, half in zip(rows, halves, strict=True)
    ]

    def classify(half: int, weight: float = 0.0, k: int = 0) -> TaskScore:
        used = with_hubs(plain, data, weight, k, banks[half]) if weight else None
        return tasks[half].score(used)

    most = min(one.shape[0] for one in banks) // 2
    best, weight, neighbour = classify(0).mean, 0.0, 0
    for k in neighbours:
        for alpha in weights if k <= most else ():
            if (found := classify(0, alpha, k).mean) > best:
                best, weight, neighbour = found, float(alpha), int(k)
    raw, corrected = classify(1), classify(1, weight, neighbour)
    correction = None
    if weight:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecognitionWarning)  # said before
            corrector = Calibrate(hubs=weight, neighbours=neighbour)
            everything = data.X if bank is None else bank
            corrector.fit(data, queries=data.names[0], bank=everything)
        correction = corrector.correction_
    return ZeroShotHubs(
        weight=weight,
        neighbours=neighbour,
        n_bank=min(banks[1].shape[0], MAX_BANK),
        raw=raw,
        corrected=corrected,
        gain=compare(raw.outcomes, corrected.outcomes, resamples=resamples, seed=seed),
        correction=correction,
    )
