"""Are generated images or captions more common than real ones? Conformity, with a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import to_numpy, unit
from modgap._results import Result
from modgap._validate import (
    Array,
    InputValueError,
    check_count,
    check_groups,
    check_rows,
    check_same_space,
)
from modgap.evaluation.significance import DEFAULT_RESAMPLES, GroupBootstrap, Interval
from modgap.measures.conformity import conformity


@dataclass(frozen=True)
class ConformityTest(Result):
    """Mean conformity of generated rows and of real ones, and whether they differ.

    ``difference`` is generated minus real: above 0 the generated ones are more common, below 0 more
    unusual. ``p_value`` is two-sided. ``generated_values`` and ``real_values`` are those of each
    row that was compared.
    """

    generated: Interval
    real: Interval
    difference: Interval
    p_value: float
    test: str
    n_generated: int
    n_real: int
    level: float
    generated_values: np.ndarray
    real_values: np.ndarray

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        change = self.difference
        bounds = f"[{change.low:+.4f}, {change.high:+.4f}]"
        numbers = f"by {change.value:+.4f} {bounds}, p = {self.p_value:.2g}"
        if self.p_value >= 1 - self.level:
            return f"No difference in conformity is shown ({numbers})."
        which = "more common" if change.value > 0 else "more unusual"
        return f"Generated rows are {which} than real ones: their conformity differs {numbers}."

    def histogram(self, bins: int = 40) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Edges of shared bins and the counts of both, as ``plot.histograms`` takes them."""
        values = {"generated": self.generated_values, "real": self.real_values}
        edges = np.histogram_bin_edges(np.concatenate(list(values.values())), bins)
        return edges, {name: np.histogram(own, edges)[0] for name, own in values.items()}

    def to_dict(self) -> dict[str, Any]:
        """The means and the test, without each row's conformity."""
        found = super().to_dict()
        del found["generated_values"], found["real_values"]
        return found


def conformity_test(
    generated: Array,
    real: Array,
    reference: Array | None = None,
    *,
    paired: bool = False,
    groups: tuple[Any, Any] | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> ConformityTest:
    """Compare the conformity of generated rows with that of real ones (Levi & Gilboa, sec. 7.1).

    Conformity is the mean cosine to the rows of one reference set. Where rows belong together, the
    signs of their differences are permuted; else the rows themselves, with Welch's t, which does
    not take the two spreads for equal.

    Parameters
    ----------
    generated, real : (n, d) and (m, d) arrays
        Rows of one modality, embedded by one model.
    reference : (r, d) array, optional
        The rows to compare both with, none of them among ``real``. By default the real rows, each
        without itself; of pairs or groups, both sides without the real rows of the same thing.
    paired : bool
        Row i of both is of the same thing: the image made from a caption and the photograph that
        the caption is of.
    groups : (gx, gy), optional
        Which rows are of the same thing, where there are several; those of one are averaged, and
        those that have no counterpart are left out.
    resamples : int
        Permutations of the test and resamples of the intervals.
    level : float
        Level of the intervals.
    seed : int
        Seed of both.

    >>> import numpy as np
    >>> common, varied = np.array([[1.0, 0.1], [1.0, -0.1]] * 9), np.array([[1.0, 1], [1, -1]] * 9)
    >>> found = conformity_test(common, varied)
    >>> found.difference.value > 0, found.p_value < 0.01
    (True, True)
    """
    made = check_rows(generated, "generated", min_rows=2, nonzero=True)
    real = check_rows(real, "real", min_rows=2, nonzero=True)
    check_same_space(made, real, ("generated", "real"))
    n_resamples = check_count(resamples, "resamples", at_least=100)
    a = to_numpy(conformity(made, real if reference is None else reference))
    b = to_numpy(conformity(real, reference))
    if paired or groups is not None:
        first, second = check_groups(groups, len(a), len(b), ("generated", "real"))
        if reference is None:
            a, b = (
                _to_others(side, own, real, second) for side, own in ((made, first), (real, second))
            )
        test, found = "sign permutation", _paired(a, b, first, second, n_resamples, level, seed)
        a, b = a[np.isin(first, second)], b[np.isin(second, first)]
    else:
        test, found = "permutation", _apart(a, b, n_resamples, level, seed)
    ours, theirs, difference, p_value = found
    return ConformityTest(
        generated=ours,
        real=theirs,
        difference=difference,
        p_value=p_value,
        test=test,
        n_generated=len(a),
        n_real=len(b),
        level=level,
        generated_values=a,
        real_values=b,
    )


def _to_others(rows: Array, groups: np.ndarray, real: Array, of_real: np.ndarray) -> np.ndarray:
    """Mean cosine of each row to the real rows of other groups than its own."""
    U, V = (to_numpy(unit(side)).astype(np.float64) for side in (rows, real))
    n_groups = int(max(groups.max(), of_real.max())) + 1
    own = np.zeros((n_groups, V.shape[1]))
    np.add.at(own, of_real, V)
    n_others = len(V) - np.bincount(of_real, minlength=n_groups)[groups]
    total = np.sum(U * (V.sum(axis=0) - own[groups]), axis=1)
    return np.asarray(total / np.maximum(n_others, 1))


_Found = tuple[Interval, Interval, Interval, float]


def _paired(
    a: np.ndarray,
    b: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    resamples: int,
    level: float,
    seed: int,
) -> _Found:
    """By the differences of the means of each group."""
    common = np.intersect1d(first, second)
    if len(common) < 2:
        raise InputValueError(
            f"The test needs at least 2 groups that both sides have, got {len(common)}."
        )
    x, y = _group_means(a, first, common), _group_means(b, second, common)
    boot = GroupBootstrap(common, resamples, seed, level)
    means = [boot.ratios(values, common) for values in (x, y, x - y)]
    signs = np.random.default_rng(seed).integers(0, 2, (resamples, len(x)), dtype=np.int8) * 2 - 1
    chance = signs @ (x - y) / len(x)
    ours, theirs, difference = (boot.interval(*one) for one in means)
    return ours, theirs, difference, _p_value(chance, means[2][0])


def _group_means(values: np.ndarray, groups: np.ndarray, kept: np.ndarray) -> np.ndarray:
    size = int(max(groups.max(), kept.max())) + 1
    sums = np.bincount(groups, weights=values, minlength=size)
    return np.asarray(sums[kept] / np.bincount(groups, minlength=size)[kept])


def _apart(a: np.ndarray, b: np.ndarray, resamples: int, level: float, seed: int) -> _Found:
    """By permuting which rows are generated."""
    boots = [
        GroupBootstrap(np.arange(len(v)), resamples, seed + k, level) for k, v in enumerate((a, b))
    ]
    means = [boot.ratios(v, boot.labels) for boot, v in zip(boots, (a, b), strict=True)]
    ours, theirs = (boot.interval(*one) for boot, one in zip(boots, means, strict=True))
    difference = boots[0].interval(means[0][0] - means[1][0], means[0][1] - means[1][1])
    rng = np.random.default_rng(seed)
    pooled = np.concatenate([a, b])
    chance = np.empty(resamples)
    for k in range(resamples):
        drawn = rng.permutation(pooled)
        chance[k] = _welch(drawn[: len(a)], drawn[len(a) :])
    return ours, theirs, difference, _p_value(chance, _welch(a, b))


def _welch(a: np.ndarray, b: np.ndarray) -> float:
    """Difference of the means over its standard error."""
    error = float(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)) ** 0.5
    apart = float(a.mean() - b.mean())
    return apart / error if error > 0 else np.sign(apart) * np.inf if apart else 0.0


def _p_value(chance: np.ndarray, found: float) -> float:
    """Two-sided, and never exactly 0."""
    as_far = np.sum(np.abs(chance) >= abs(found) * (1 - 1e-12))
    return float((as_far + 1) / (len(chance) + 1))
