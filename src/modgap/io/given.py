"""Rows of what a function was given that is no array yet: paths, tables, Embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modgap._validate import InputTypeError, InputValueError
from modgap.io.embeddings import Embeddings
from modgap.io.formats.tables import is_opened
from modgap.io.modalities import DEFAULT_NAMES, Modalities
from modgap.io.opening import open_embeddings

# What parameters are called, which says nothing about the modality.
_PARAMETERS = ("X", "Y", "rows")


def rows_of(given: Any, name: str) -> Any:
    """The whole rows of one modality; what is neither opened nor Embeddings as it is."""
    if isinstance(given, Modalities):
        first = given.names[0]
        raise InputTypeError(
            f"{name} must be the rows of one modality, got Modalities of "
            f"{' and '.join(given.names)}. Pass one: data.sides[{first!r}]."
        )
    if is_opened(given) and name in _PARAMETERS:
        return open_embeddings(given).rows()
    if is_opened(given) or isinstance(given, Embeddings):
        return Embeddings.of(given, name).rows()
    return given


def batches_of(given: Any, name: str) -> Any:
    """The rows of one modality in batches; what is neither opened nor Embeddings as it is."""
    if is_opened(given) or isinstance(given, Embeddings):
        return Embeddings.of(given, name).batches()
    return given


def two_of(X: Any, Y: Any, names: Sequence[str], *, matched: bool) -> tuple[Any, Any]:
    """The whole rows of two modalities; see `modgap._given.opened_two`."""
    if Y is not None and not any(_has_ids(one) for one in (X, Y)):
        return X, Y
    called = DEFAULT_NAMES if tuple(names) == ("X", "Y") else tuple(names)
    data = X
    if not isinstance(X, Modalities) or Y is not None:
        data = Modalities.of(X, Y, called, paired=None if matched else False)
    if not matched:
        return data.X, data.Y
    if not data.paired:
        sizes = " and ".join(str(side.n_rows) for side in data.two())
        raise InputValueError(
            f"It must be known which rows of {' and '.join(data.names)} match, and it is not "
            f"({sizes} rows). Give both an id, or use modgap.open_pair(…, groups=…)."
        )
    pairs = data.pairs()
    return pairs.X, pairs.Y


def _has_ids(given: Any) -> bool:
    return is_opened(given) or isinstance(given, (Embeddings, Modalities, Mapping))
