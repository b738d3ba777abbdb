"""Which index an address means."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modgap._validate import InputTypeError, InputValueError
from modgap.corrections import Correction
from modgap.index.base import VectorIndex

ADDRESSES = (
    "a file that ends in .faiss or .index, a folder that ends in .lance, postgresql://…, "
    "qdrant:FOLDER, qdrant+http://…, milvus:FILE.db or milvus+http://…"
)


def open_index(
    address: str | os.PathLike[str],
    correction: Correction | str | os.PathLike[str],
    *,
    create: bool = False,
    replace: bool = False,
    **options: Any,
) -> VectorIndex:
    """Open an index of both modalities, or with ``create`` begin one.

    ``address`` is a file that ends in .faiss or .index, a folder that ends in .lance,
    postgresql://…, qdrant:FOLDER, qdrant+http://…, milvus:FILE.db or milvus+http://…; ``options``
    are those of its class, such as ``table`` and ``effort``. ``create`` also goes on with an
    index that was not finished; ``replace`` drops what was there.
    """
    if not isinstance(correction, Correction):
        correction = Correction.load(correction)
    text = os.fspath(address)
    made = _class_of(text)
    try:
        index = made(_without_scheme(text), correction, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        name = str(error).rpartition("argument ")[2]
        raise InputTypeError(f"{text.partition(':')[0]} knows no option {name}.") from error
    try:
        return index.open(create=create, replace=replace)
    except BaseException:
        index.close()
        raise


def _class_of(address: str) -> Callable[..., VectorIndex]:
    """The class, imported now: each needs an extra of its own."""
    scheme = address.partition(":")[0]
    suffix = Path(address).suffix
    if scheme in ("postgresql", "postgres"):
        from modgap.index.pgvector import PgvectorIndex

        return PgvectorIndex
    if scheme in ("qdrant", "qdrant+http", "qdrant+https"):
        from modgap.index.qdrant import QdrantIndex

        return QdrantIndex
    if scheme in ("milvus", "milvus+http", "milvus+https"):
        from modgap.index.milvus import MilvusIndex

        return MilvusIndex
    if suffix in (".faiss", ".index"):
        from modgap.index.faiss_index import FaissIndex

        return FaissIndex
    if suffix == ".lance":
        from modgap.index.lance import LanceIndex

        return LanceIndex
    raise InputValueError(f"An index is {ADDRESSES}; got {address!r}.")


def _without_scheme(address: str) -> str:
    """What the library of the database is told: ``qdrant+http://…`` is ``http://…`` to it."""
    for name in ("qdrant", "milvus"):
        if address.startswith(f"{name}+"):
            return address.removeprefix(f"{name}+")
        if address.startswith(f"{name}:"):
            return address.removeprefix(f"{name}:")
    return address
