"""Two images and two statements that differ in a detail: does each find its own?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from modgap._results import Result
from modgap._validate import Array, InputValueError, check_choice, check_pairs
from modgap.corrections import Correction, Metric
from modgap.evaluation.zero_shot import check_labels
from modgap.search.scores import given_scores, metric_of

# Who chooses between the two of the other kind.
Asking = Literal["text", "image", "both"]


@dataclass(frozen=True)
class PairMatching(Result):
    """Share of sets in which every choice is right, by pattern and over all.

    ``accuracy`` is the mean over the patterns, ``chance`` what guessing gives. ``hits`` has one
    Boolean per set and ``set_patterns`` the pattern of each.
    """

    accuracy: float
    pattern_accuracy: np.ndarray
    patterns: tuple[str, ...]
    chance: float
    n: int
    asking: str
    metric: str
    hits: np.ndarray
    set_patterns: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """The accuracies, without each set's."""
        found = super().to_dict()
        del found["hits"], found["set_patterns"]
        return found


def pair_matching(
    X: Array,
    Y: Array,
    patterns: Any = None,
    *,
    asking: Asking = "text",
    metric: Metric | None = None,
    correction: Correction | None = None,
) -> PairMatching:
    """Share of sets of two pairs that are matched without a slip (Tong et al. 2024, MMVP-VLM).

    Rows 0 and 1 are the first set, rows 2 and 3 the second, and so on; row i of X belongs to row i
    of Y. A tie is no match. The mean over patterns is what Yaras et al. print (table 1, E).

    Parameters
    ----------
    X, Y : (2n, d) arrays
        Rows of images and of statements.
    patterns : (2n,) labels, optional
        The visual pattern of each row, the same for both rows of a set.
    asking : {"text", "image", "both"}
        Who chooses: each text between the two images, as in the published evaluation (chance 1/4);
        each image between the two texts (1/4); or both ways (1/6).
    metric : {"cosine", "inner_product", "euclidean"}, optional
        The correction's, else cosine.
    correction : Correction, optional
        Applied to both; who asks is the query, who is found the document.

    >>> import numpy as np
    >>> images = np.eye(4)
    >>> pair_matching(images, images[[0, 1, 3, 2]], ["colour"] * 2 + ["count"] * 2).pattern_accuracy
    array([1., 0.])
    """
    X, Y = check_pairs(X, Y)
    check_choice(asking, "asking", get_args(Asking))
    labels = check_patterns(patterns, X.shape[0])
    metric = metric_of(metric, correction, "cosine")
    found = np.ones(len(labels), bool)
    if asking in ("text", "both"):
        found &= matched(*_mapped(Y, X, correction, text_asks=True), metric)
    if asking in ("image", "both"):
        found &= matched(*_mapped(X, Y, correction, text_asks=False), metric)
    names, place = np.unique(labels, return_inverse=True)
    by_pattern = np.bincount(place, weights=found) / np.bincount(place)
    return PairMatching(
        accuracy=float(np.mean(by_pattern)),
        pattern_accuracy=by_pattern,
        patterns=tuple(str(name) for name in names),
        chance=1 / 6 if asking == "both" else 1 / 4,
        n=len(labels),
        asking=asking,
        metric=metric,
        hits=found,
        set_patterns=labels,
    )


def matched(queries: Array, documents: Array, metric: Metric) -> np.ndarray:
    """Whether both queries of each set are nearer to their own document than to the other, (n,)."""
    rows = np.arange(queries.shape[0])
    own = given_scores(queries, documents, rows, metric, ("queries", "documents"))
    # The document beside it is asked for by the query of its neighbour.
    other = given_scores(queries, documents, rows ^ 1, metric, ("queries", "documents"))[rows ^ 1]
    return np.asarray((own > other).reshape(-1, 2).all(axis=1))


def check_patterns(patterns: Any, n: int) -> np.ndarray:
    """The pattern of each set of two rows."""
    if n % 2:
        raise InputValueError(f"X and Y must hold sets of two rows, got {n} rows.")
    if patterns is None:
        return np.full(n // 2, "all")
    labels = check_labels(patterns, n, "patterns").reshape(-1, 2)
    odd = np.flatnonzero(labels[:, 0] != labels[:, 1])
    if len(odd):
        first, second = labels[odd[0]].tolist()
        raise InputValueError(
            f"Both rows of a set must be of one pattern, but rows {2 * odd[0]} and "
            f"{2 * odd[0] + 1} are of {first!r} and {second!r}."
        )
    return np.asarray(labels[:, 0])


def _mapped(
    asking: Array, found: Array, correction: Correction | None, *, text_asks: bool
) -> tuple[Array, Array]:
    if correction is None:
        return asking, found
    if text_asks:
        return correction.y(asking, "query"), correction.x(found)
    return correction.x(asking, "query"), correction.y(found)
