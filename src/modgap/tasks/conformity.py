"""Are generated images or captions more common than real ones? Conformity, with a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from modgap.arrays import like, namespace, to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_count, check_same_space
from modgap.core.door import check_groups, check_rows
from modgap.core.results import NOT_IN_JSON, Progress, Result, Table
from modgap.core.tables import HasTable
from modgap.evaluation.significance import DEFAULT_RESAMPLES, GroupBootstrap, Interval
from modgap.io import Items, open_items
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.conformity import conformity
from modgap.tasks.command import (
    COLUMN,
    Option,
    Prepared,
    TaskCommand,
    TaskInputs,
    TaskModel,
    read_rows,
)
from modgap.tasks.task import Task


@dataclass(frozen=True)
class ConformityTest(HasTable, Result):
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
    generated_values: np.ndarray = field(metadata=NOT_IN_JSON)
    real_values: np.ndarray = field(metadata=NOT_IN_JSON)

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

    def table(self) -> Table:
        """The means of both, and their difference."""
        lines = (
            ("generated", f"{self.n_generated:,}", self.generated, ""),
            ("real", f"{self.n_real:,}", self.real, ""),
            ("difference", "", self.difference, f"{self.p_value:.2g}"),
        )
        return ("rows", "number", "mean conformity", "p"), [
            (name, n, f"{mean.value:.4f} [{mean.low:.4f}, {mean.high:.4f}]", p)
            for name, n, mean, p in lines
        ]


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


def conformity_task(
    generated: Array,
    real: Array,
    others: Array,
    *,
    reference: Array | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    seed: int = 0,
) -> Task:
    """How many real rows are less common than a generated one? One share a generated row.

    0.5 where generated rows are as common as real ones, above where they are more common.
    ``conformity_test`` tests the difference of the means; this shows whether it depends on the gap.
    Corrections are fitted on the reference, which has none of the rows that are compared.

    Parameters
    ----------
    generated, real : (n, d) and (m, d) arrays
        Rows of one modality.
    others : (r, d) array
        Rows of the other modality, to which there is a gap: captions, for images.
    reference : (s, d) array, optional
        The rows to compare both with; by default a half of the real ones, drawn with ``seed``.
    names : pair of str
        The names of the modality of the generated rows and of the other one.
    groups : (n,) labels, optional
        Generated rows that belong together; by default each by itself.

    >>> made, real = np.array([[1.0, 0.1], [0, 1]]), np.array([[1.0, 0], [1, 1], [0, 1]])
    >>> conformity_task(made, real, np.eye(2), reference=real[:2]).score().outcomes.round(2)
    array([1.  , 0.17])
    """
    made = check_rows(generated, "generated", nonzero=True)
    real = check_rows(real, "real", min_rows=2, nonzero=True)
    if reference is None:
        half, rest = np.array_split(np.random.default_rng(seed).permutation(real.shape[0]), 2)
        real, reference = real[like(half, real)], real[like(rest, real)]
    reference = check_rows(reference, "reference", nonzero=True)
    for rows, name in ((real, "real"), (reference, "reference")):
        check_same_space(made, rows, ("generated", name))
    cuts = (made.shape[0], made.shape[0] + real.shape[0])
    return Task(
        name="conformity",
        names=(names[0], names[1]),
        X=namespace(made, real).concat([made, real, reference]),
        Y=others,
        judge=lambda X, Y, metric: _shares_below(X[: cuts[0]], X[cuts[0] : cuts[1]], X[cuts[1] :]),
        groups=np.arange(cuts[0]) if groups is None else np.asarray(groups),
        better="lower",
        outcome="share of real rows less common",
        roles=("document", "query"),
        fit_on=(reference, others),
    )


def _shares_below(made: Array, real: Array, reference: Array) -> np.ndarray:
    """For each generated row, the share of real ones below it; equal ones count half."""
    values, among = (to_numpy(conformity(rows, reference)) for rows in (made, real))
    among = np.sort(among)
    below = np.searchsorted(among, values, "left") + np.searchsorted(among, values, "right")
    return np.asarray(below / (2 * len(among)))


# What the command line offers.


def _sides(given: Any, generated: Path) -> dict[str, Path]:
    """The files of each side that is given."""
    if given.real is None:
        raise InputValueError("--real is missing: what are the generated ones compared with?")
    sides = {"generated": generated, "real": given.real, "reference": given.reference}
    return {name: path for name, path in sides.items() if path is not None}


def _read(given: Any) -> dict[str, Any]:
    sides = _sides(given, given.rows)
    rows = {name: read_rows(path, given.column) for name, path in sides.items()}
    return {**rows, "paired": given.paired}


def _embed(
    model: TaskModel,
    data: Mapping[str, Items],
    *,
    paired: bool,
    real: Path,
    batch_size: int,
    progress: Progress,
) -> TaskInputs:
    """The rows of items; paired ones have the same name, without its folder and ending."""
    inputs: dict[str, Any] = {}
    stems: dict[str, tuple[str, ...]] = {}
    skipped: dict[str, str] = {}
    for name, items in data.items():
        inputs[name], kept, why = model.encode_items(
            items, batch_size=batch_size, workers=None, progress=progress
        )
        stems[name] = tuple(PurePath(items.names[row]).stem for row in kept)
        skipped |= {f"{item} of {items.source}": reason for item, reason in why.items()}
    if paired:
        inputs["groups"] = (stems["generated"], stems["real"])
    n_items = sum(len(items) for items in data.values())
    return TaskInputs(inputs, stems["generated"], skipped, n_items, {"real": str(real)})


def _prepare(inputs: Any, given: Any, progress: Progress) -> Prepared:
    found = conformity_test(**inputs, resamples=given.resamples, seed=given.seed)
    if given.others is None:
        return Prepared(None, found)
    rows = {name: inputs.get(name) for name in ("generated", "real", "reference")}
    others = read_rows(given.others)
    task = conformity_task(**rows, others=others, names=given.names, seed=given.seed)
    return Prepared(task, found, more={"conformity": found})


COMMAND = TaskCommand(
    name="conformity",
    help="""Test whether generated rows have another mean conformity than real ones (Levi & Gilboa, 7.1).

    ROWS, or DATA with a model, are the generated ones: images, or captions as texts.

    Example: modgap task conformity generated.npy --real photos.npy

    Example: modgap task conformity --model hf:openai/clip-vit-base-patch32 --data made --real photos --paired
    """,  # noqa: E501 - an example is one line
    options=(
        Option("real", Path),
        Option("reference", Path),
        Option("others", Path),
        Option("paired", bool, False),
        COLUMN,
        Option("resamples", int, DEFAULT_RESAMPLES),
    ),
    read=_read,
    open=lambda given: {name: open_items(path) for name, path in _sides(given, given.data).items()},
    settings=("paired", "real"),
    embed=_embed,
    prepare=_prepare,
    bank=False,
    metric=False,
)
