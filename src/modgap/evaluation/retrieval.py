"""Cross-modal retrieval: does a row of one modality find its match in the other?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import match_ranks, namespace, query_ranks
from modgap.core.checks import Array, InputValueError, check_count
from modgap.core.drawing import Range, Ranges
from modgap.core.results import HasFigure, Result, notebook_html, notebook_table, number
from modgap.core.tables import HasTable
from modgap.corrections import Correction, Metric, Role
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.scores import document_bias, metric_of, rows_to_multiply

DEFAULT_K = (1, 5, 10)


class Corrected:
    """The checked rows of some modalities after a correction; without one, as they are.

    ``metric`` is what they are ranked by: by default the one that the correction is meant for, else
    cosine. What is mapped is kept for as long as this is. ``documents`` and ``queries`` are those
    that are mapped already, by the name of their modality.
    """

    def __init__(
        self,
        data: Modalities,
        correction: Correction | None = None,
        metric: Metric | None = None,
        *,
        documents: Mapping[str, Array] | None = None,
        queries: Mapping[str, Array] | None = None,
    ) -> None:
        self.data, self.correction = data, correction
        self.metric = metric or ("cosine" if correction is None else correction.metric)
        self._documents, self._queries = dict(documents or {}), dict(queries or {})
        self._others: dict[str, Array] = {}

    def documents(self, name: str) -> Array:
        """The documents of a modality."""
        if name not in self._documents:
            keys = self.data.keys_of(name) if self.correction and self.correction.hubs else None
            rows = self.data.sides[name].rows()
            self._documents[name] = self._mapped(rows, name, "document", keys)
        return self._documents[name]

    def searched(self, name: str) -> tuple[Array, np.ndarray]:
        """All that the index holds of a modality, and the groups; −1 for other documents."""
        own, groups = self.documents(name), self.data.groups[self.data.names.index(name)]
        others = self.data.others.get(name)
        if others is None:
            return own, groups
        if name not in self._others:
            self._others[name] = self._mapped(others.rows(), name, "document")
        rows = namespace(own).concat([own, self._others[name]])
        return rows, np.concatenate([groups, np.full(others.n_rows, -1)])

    def queries(self, name: str) -> Array:
        """The query rows of a modality."""
        if name not in self._queries:
            rows = self.data.queries_of(name).rows()
            self._queries[name] = self._mapped(rows, name, "query")
        return self._queries[name]

    def _mapped(self, rows: Array, name: str, role: Role, keys: Array | None = None) -> Array:
        if self.correction is None:
            return rows
        row_map = self.correction.map(name, role)
        return row_map.mapped(rows, name, keys=keys, nonzero=self.metric == "cosine")


@dataclass(frozen=True)
class Retrieval(HasTable, HasFigure, Result):
    """Recall@k both ways, and each query's rank.

    ``ranks_x`` has, for each row of X as a query, how many non-matching rows of Y come before its
    best match; ``ranks_y`` the same for rows of Y among X; −1 for a query without a match, and for
    all queries that the correction does not serve. ``duplicates`` counts the rows that
    occur several times; None if not checked.
    """

    names: tuple[str, ...]
    metric: str
    k: tuple[int, ...]
    ranks_x: np.ndarray
    ranks_y: np.ndarray
    duplicates: str | None = None

    def recall(self) -> dict[str, float]:
        """Recall by name: ``image_retrieval_recall@1`` is text queries finding images."""
        return {
            f"{name}_retrieval_recall@{k}": float(np.mean(ranks < k))
            for name, ranks in self._asked()
            for k in self.k
        }

    def median_rank(self) -> dict[str, float]:
        """Median rank of the best match, 1 being the first place."""
        return {
            f"{name}_retrieval_median_rank": float(np.median(ranks)) + 1
            for name, ranks in self._asked()
        }

    def _asked(self) -> list[tuple[str, np.ndarray]]:
        """The modality that is searched and the ranks of its queries, where there are any."""
        both = ((self.names[0], self.ranks_y), (self.names[1], self.ranks_x))
        return [(name, ranks[ranks >= 0]) for name, ranks in both if np.any(ranks >= 0)]

    def ranks(self) -> dict[str, np.ndarray]:
        """The ranks of the queries that have a match, by query modality and what is found."""
        asks = {self.names[0]: self.names[1], self.names[1]: self.names[0]}
        return {f"{asks[name]} finds {name}": ranks for name, ranks in self._asked()}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: recall and median rank each way."""
        heads = [f"recall@{k}" for k in self.k]
        rows: list[tuple[str, ...]] = [
            (
                way,
                *(f"{np.mean(ranks < k):.3f}" for k in self.k),
                number(float(np.median(ranks)) + 1, 1),
                number(len(ranks)),
            )
            for way, ranks in self.ranks().items()
        ]
        return ("", *heads, "median rank", "queries"), rows

    def ranges(self) -> Ranges:
        """Recall each way, for drawings."""
        lines = [
            Range(f"{way}, recall@{k}", share, 0.0, share, (0.0, share))
            for way, ranks in self.ranks().items()
            for k in self.k
            for share in (float(np.mean(ranks < k)),)
        ]
        return Ranges("Recall: queries with a match among their k best", lines, span=(0.0, 1.0))

    def _brief(self) -> str:
        found = (
            f"{way}: recall@{k} {np.mean(ranks < k):.3f}"
            for k in self.k[:1]
            for way, ranks in self.ranks().items()
        )
        said = [self.duplicates] if self.duplicates else []
        return ", ".join([f"by {self.metric.replace('_', ' ')}", *found, *said])

    def _repr_html_(self) -> str:
        by = f"Ranked by {self.metric.replace('_', ' ')}"
        return notebook_html(self.ranges().svg(), notebook_table(*self.table(), by))

    def to_dict(self) -> dict[str, Any]:
        """The metrics, without each query's rank."""
        head = {"names": list(self.names), "metric": self.metric, "k": list(self.k)}
        queries = {
            f"n_queries_{name}": int(np.sum(ranks >= 0))
            for name, ranks in zip(self.names, (self.ranks_x, self.ranks_y), strict=True)
        }
        said = {"duplicates": self.duplicates} if self.duplicates else {}
        return {**head, **said, **queries, **self.recall(), **self.median_rank()}


def retrieval(
    X: Array | Modalities,
    Y: Array | None = None,
    k: int | Sequence[int] | None = None,
    metric: Metric | None = None,
    groups: tuple[Any, Any] | None = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    correction: Correction | None = None,
    group_duplicates: bool = True,
) -> Retrieval:
    """Recall@k both ways: the share of queries with at least one match among their k best.

    Equal scores go to the earlier row.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays
        The rows of the two modalities, or one ``Modalities`` as ``X``.
    k : int or several, optional
        Places to look at; 1, 5 and 10 as far as there are rows.
    metric : {"cosine", "inner_product", "euclidean"}, optional
        What the search ranks by; the correction's own metric, else the cosine.
    groups : (gx, gy), optional
        Row i of X and row j of Y match when gx[i] == gy[j]; without groups, when i = j.
    names : pair of str
        What the modalities are called.
    correction : Correction, optional
        Applied first: to the documents, and to the queries in their role. Queries that it does
        not serve are not asked.
    group_duplicates : bool
        Whether copies of a row form one group, such as an image repeated for each of its five
        captions; see ``Modalities.with_duplicates_grouped``.

    >>> import numpy as np
    >>> X = np.eye(3)
    >>> retrieval(X, X[[0, 2, 1]], k=1).recall()["image_retrieval_recall@1"] == 1 / 3
    True
    """
    data = matched(X, Y, names, groups)
    data = data.with_duplicates_grouped() if group_duplicates else data
    n, places = min(side.n_rows for side in data.two()), None
    if k is not None:
        several = list(k) if isinstance(k, (Sequence, np.ndarray)) else [k]
        if not several:
            raise InputValueError("k must be a whole number or several, got none.")
        places = tuple(check_count(value, "k", at_most=n) for value in several)
    metric = metric_of(metric, correction, "cosine")
    check_searchable(data, metric, correction)
    return retrieval_of(Corrected(data, correction, metric), places)


def check_searchable(data: Modalities, metric: Metric, correction: Correction | None) -> None:
    """Refuse rows that cannot be searched by a metric, or mapped by a correction."""
    data.check(nonzero=metric == "cosine" and correction is None)
    if correction is not None:
        for sides in (data.sides, data.asking, data.others):
            for name, rows in sides.items():
                correction.map(name).check_columns(rows)


def retrieval_of(rows: Corrected, places: tuple[int, ...] | None = None) -> Retrieval:
    """``retrieval`` of rows that are checked and corrected."""
    data, correction, metric = rows.data, rows.correction, rows.metric
    first, second = data.names
    if places is None:
        n = min(side.n_rows for side in data.two())
        places = tuple(place for place in DEFAULT_K if place <= n) or (1,)
    if data.asking or data.others or (correction is not None and correction.roles_differ):
        served = data.names if correction is None else correction.queries
        ranks_x, ranks_y = (
            ranks_across(rows, asking, found)
            if asking in served
            else np.full(data.queries_of(asking).n_rows, -1)
            for asking, found in ((first, second), (second, first))
        )
    else:
        X, Y = rows_to_multiply(rows.documents(first), rows.documents(second), metric)
        biases = document_bias(X, metric), document_bias(Y, metric)
        ranks_x, ranks_y = match_ranks(X, Y, data.group_codes, *biases)
    return Retrieval(data.names, metric, places, ranks_x, ranks_y, data.duplicates)


def ranks_across(rows: Corrected, asking: str, found: str) -> np.ndarray:
    """For each query of one modality, how many documents of another come before its best match.

    −1 for a query without a match. Queries may be of the same modality where they are not its
    documents.
    """
    documents, groups = rows.searched(found)
    Q, D = rows_to_multiply(rows.queries(asking), documents, rows.metric)
    return query_ranks(
        Q, D, (rows.data.query_groups(asking), groups), document_bias(D, rows.metric)
    )


def matched(X: Any, Y: Any, names: Sequence[str], groups: Any) -> Modalities:
    """The modalities of what cannot do without matches; unequal numbers of rows need groups."""
    data = Modalities.of(X, Y, names, groups=groups)
    if not data.paired:
        sizes = " and ".join(str(side.n_rows) for side in data.sides.values())
        raise InputValueError(
            f"It must be known which rows of {' and '.join(data.names)} match, and it is not "
            f"({sizes} rows). Pass groups=(gx, gy), or --groups on the command line."
        )
    return data
