"""A task: items that are judged by rows of two modalities, whatever was done to the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from modgap.core.checks import Array, InputValueError, check_choice, check_names, check_same_space
from modgap.core.door import check_rows
from modgap.core.results import NOT_IN_JSON, Brief, Result
from modgap.core.text import same_texts
from modgap.corrections import METRICS, Correction, Metric, Role
from modgap.corrections.correction import ROLES
from modgap.search.scores import metric_of

# Mapped X, mapped Y and the metric to rank by → one outcome per item.
Judge = Callable[[Array, Array, Metric], Any]


@dataclass(frozen=True)
class Published(Result):
    """A number that a paper prints: its value, of what, and where it is printed."""

    value: float
    what: str
    where: str


@dataclass(frozen=True)
class TaskScore(Result):
    """The outcomes of a task with one correction, or with uncorrected rows.

    ``mean`` is the mean outcome, an accuracy for most tasks; ``parts`` are the means of the items
    that are reported separately; ``chance`` is what guessing gives, NaN where nobody can say.
    ``outcomes`` has one number per item: two scores of the same items compare by
    ``compare(before.outcomes, after.outcomes)``. ``predictions`` are the answers to the items, the
    outcomes themselves where the task has none.
    """

    mean: float
    parts: Mapping[str, float]
    chance: float
    n: int
    metric: str
    outcomes: np.ndarray = field(metadata=NOT_IN_JSON)
    predictions: np.ndarray = field(metadata=NOT_IN_JSON)

    def by(self, labels: Any) -> dict[Any, float]:
        """The mean outcome of the items of each label: the accuracy of each class, say."""
        names, place = np.unique(check_labels(labels, self.n), return_inverse=True)
        means = np.bincount(place, weights=self.outcomes) / np.bincount(place)
        return dict(zip(names.tolist(), means.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Task(Brief):
    """Items that are judged by rows of two modalities.

    Parameters
    ----------
    name : str
        The name of the task.
    names : pair of str
        The names of the modalities of X and Y.
    X, Y : (n, d) and (m, d) arrays
        The rows as the model gives them: X are the queries, Y the candidates.
    judge : callable
        ``judge(X, Y, metric)`` takes the rows as a correction maps them and the metric it ranks by.
        It returns one outcome per item: 1 or 0 for right or wrong, or a share. With ``right``, it
        returns the answer to each item instead.
    groups : (items,) labels
        Items of one group are resampled together, and stay in one half.
    right : (items,) array, optional
        The right answer to each item; an outcome is then 1 where the answer equals it.
    chance : float
        The mean outcome of guessing; NaN where nobody can say.
    better : {"higher", "lower"}
        Which outcomes are wanted.
    outcome : str
        What the mean of the outcomes is called.
    metric : {"cosine", "inner_product", "euclidean"}
        How uncorrected rows are ranked.
    roles : pair of {"query", "document"}
        How a correction maps X and Y.
    x_groups : (n,) labels, optional
        The group of each row of X: no item is judged with a bank that holds its rows. By default
        ``groups``, where X has a row an item.
    fit_on : (X, Y), optional
        Rows to fit corrections on; by default those of the task.
    parts : mapping of str to (items,) Booleans, optional
        Items that are also reported separately.
    published : tuple of Published
        What papers print for it.
    row_names : pair of str
        What errors call X and Y.

    >>> task = Task("sign", ("image", "text"), np.eye(2), np.eye(2),
    ...             judge=lambda X, Y, metric: np.diag(X @ Y.T) > 0, groups=np.arange(2))
    >>> task.score().mean
    1.0
    """

    name: str
    names: tuple[str, str]
    X: Array
    Y: Array
    judge: Judge
    groups: np.ndarray
    right: np.ndarray | None = None
    chance: float = float("nan")
    better: Literal["higher", "lower"] = "higher"
    outcome: str = "accuracy"
    metric: Metric = "cosine"
    roles: tuple[Role, Role] = ("query", "document")
    x_groups: np.ndarray | None = None
    fit_on: tuple[Array, Array] | None = None
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    row_names: tuple[str, str] = ("X", "Y")

    def __post_init__(self) -> None:
        check_names(self.names)
        check_choice(self.better, "better", ("higher", "lower"))
        check_choice(self.metric, "metric", METRICS)
        for role in self.roles:
            check_choice(role, "role", ROLES)
        nonzero = self.metric == "cosine"
        for side, name in zip(("X", "Y"), self.row_names, strict=True):
            rows = check_rows(getattr(self, side), name, nonzero=nonzero)
            object.__setattr__(self, side, rows)
        check_same_space(self.X, self.Y, self.row_names)
        object.__setattr__(self, "groups", check_labels(self.groups, None, "groups"))
        x_groups = self.x_groups
        if x_groups is None and len(self.groups) == self.X.shape[0]:
            x_groups = self.groups
        if x_groups is not None:
            object.__setattr__(
                self, "x_groups", check_labels(x_groups, self.X.shape[0], "x_groups")
            )
        parts = {name: np.asarray(part) for name, part in self.parts.items()}
        for name, part in parts.items():
            if part.shape != self.groups.shape or part.dtype != bool:
                raise InputValueError(
                    f"parts[{name!r}] must have a Boolean for each of {self.n_items} items, got "
                    f"shape {part.shape} of {part.dtype}."
                )
        object.__setattr__(self, "parts", parts)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.groups)

    def rows(self, correction: Correction | None = None) -> tuple[Array, Array]:
        """X and Y as a correction maps them."""
        if correction is None:
            return self.X, self.Y
        X, Y = (
            correction.apply(rows, name, role)
            for rows, name, role in zip((self.X, self.Y), self.names, self.roles, strict=True)
        )
        return X, Y

    def score(
        self, correction: Correction | None = None, *, metric: Metric | None = None
    ) -> TaskScore:
        """The outcomes after a correction or for uncorrected rows.

        They are ranked by ``metric``, else by that of the correction or of the task.
        """
        used = metric_of(metric, correction, self.metric)
        answers = self.judge(*self.rows(correction), used)
        outcomes = self.checked(answers)
        return TaskScore(
            mean=float(outcomes.mean()),
            parts=self.part_means(outcomes),
            chance=self.chance,
            n=self.n_items,
            metric=used,
            outcomes=outcomes,
            predictions=np.asarray(answers),
        )

    def part_means(self, outcomes: np.ndarray) -> dict[str, float]:
        """The mean outcome of each part; NaN where it has no items."""
        return {
            name: float(outcomes[part].mean()) if part.any() else float("nan")
            for name, part in self.parts.items()
        }

    def checked(self, judged: Any) -> np.ndarray:
        """What ``judge`` returns as one finite outcome per item."""
        found = np.asarray(judged)
        if self.right is not None and found.shape == self.right.shape:
            found = found == self.right
        found = found.astype(np.float64)
        if found.shape != self.groups.shape or not np.all(np.isfinite(found)):
            raise InputValueError(
                f"{self.name} must give a finite outcome for each of {self.n_items} items, got "
                f"shape {found.shape}."
            )
        return found


def check_labels(labels: Any, n: int | None, name: str = "labels") -> np.ndarray:
    """One label per row, in the memory of NumPy; of any number of rows where n is None."""
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
    found = same_texts(labels)
    if found.ndim != 1 or (n is not None and len(found) != n):
        each = "item" if n is None else f"row: {n} rows"
        raise InputValueError(f"{name} must give one label per {each}, got shape {found.shape}.")
    return found
