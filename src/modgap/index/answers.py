"""What databases answer, in one shape: their hits, and what they complain of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from modgap._files import FULL, WriteError, errno_of
from modgap._secrets import sentence_without_secrets
from modgap._validate import InputError, InputValueError, first_line
from modgap.search import Hits

Id = int | str
IdType = Literal["int", "str"]
# One result: its id, its modality, and its nearness as the database states it.
Hit = tuple[Id, str, float]


@contextmanager
def one_sentence(
    place: str, failures: tuple[type[Exception], ...], address: str = ""
) -> Iterator[None]:
    """What a database's library raises becomes one sentence that names the place.

    No secret of the address is repeated.
    """
    try:
        yield
    except InputError:
        raise
    except failures as error:
        if (number := errno_of(error)) is not None and number in FULL:
            raise WriteError(place, number) from error
        said, cause = said_by(error, address)
        raise InputValueError(f"{place} cannot be used: {said}.") from cause


def said_by(error: Exception, address: str) -> tuple[str, Exception | None]:
    """The first line of an error, and the error; None where that would tell a secret."""
    whole = str(getattr(error, "message", None) or error)
    told = sentence_without_secrets(whole, address)
    tells = sentence_without_secrets(f"{error}{error.args}", address) != f"{error}{error.args}"
    return first_line(told or type(error).__name__)[:300], None if tells else error


def to_hits(
    found: list[list[Hit]], k: int, score: Callable[[float], float], id_type: IdType
) -> Hits:
    """The k best results of each query as arrays, filled up where one has fewer than another."""
    lines = [[(key, name, score(nearness)) for key, name, nearness in line] for line in found]
    lines = [sorted(line, key=lambda hit: -hit[2])[:k] for line in lines]
    width = max(map(len, lines))
    full = all(len(line) == width for line in lines)
    missing: tuple[None, str, float] = (None, "", -np.inf)
    cells: list[Any] = [cell for line in lines for cell in line + [missing] * (width - len(line))]
    dtypes = ((np.int64 if id_type == "int" else np.str_) if full else object, np.str_, np.float64)
    columns: list[np.ndarray] = [
        np.array([cell[place] for cell in cells], dtype=dtype).reshape(len(lines), width)
        for place, dtype in enumerate(dtypes)
    ]
    return Hits(ids=columns[0], modalities=columns[1], scores=columns[2])
