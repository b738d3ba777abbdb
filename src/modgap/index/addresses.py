"""Which index an address means, and which addresses and names of collections are refused."""

from __future__ import annotations

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError, check_choice
from modgap.core.secrets import without_secrets
from modgap.index.base import VectorIndex
from modgap.index.postgres import is_postgres
from modgap.index.row_monitor import RowMonitor
from modgap.index.stored_vectors import Corrections

# The class that a scheme or an ending means; each is imported when asked for, and needs an extra.
_CLASSES = {
    ".faiss": "FaissIndex",
    ".index": "FaissIndex",
    ".lance": "LanceIndex",
    "postgresql": "PgvectorIndex",
    "qdrant": "QdrantIndex",
    "milvus": "MilvusIndex",
    "duckdb": "DuckdbIndex",
    "sqlite": "SqliteIndex",
    "chroma": "ChromaIndex",
}

_SERVER = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?:\[[\w:.%]+\]|[^\s/?#@:\[\]]+)(?::\d+)?(?:[/?][^\s@]*)?"
)


def open_index(
    address: str | os.PathLike[str],
    correction: Corrections,
    *,
    create: bool = False,
    replace: bool = False,
    trust: bool = False,
    monitor: RowMonitor | None = None,
    **options: Any,
) -> VectorIndex:
    """Open an index of both modalities, or with ``create`` begin one.

    Parameters
    ----------
    address : str or path
        A file that ends in .faiss or .index, a folder that ends in .lance, postgresql://…,
        qdrant:FOLDER, qdrant+http://…, milvus:FILE.db, milvus+http://…, duckdb:FILE, sqlite:FILE
        or chroma:FOLDER. No secret of it is repeated in errors.
    correction : Correction, path, or several
        What documents and queries are mapped with; the index remembers it and refuses another.
        Several serve different queries, as those of a folder or of `load_corrections` do: a
        document is then stored as one vector for each.
    create : bool
        Begin an index, or go on with one that was not finished.
    replace : bool
        With ``create``, drop an index that modgap built there before.
    trust : bool
        Open a folder of Qdrant's embedded mode or of Chroma that is there already: it holds
        pickles, and these can run any code. The other indexes hold none and need no trust.
    monitor : GapMonitor, optional
        Told of every query and of every document that is stored, as the model gave them.
    **options
        Those of the class, such as ``table``, ``ef_search`` or ``nprobe``; None is the default.
    """
    kind, where = _parse(os.fspath(address))
    store: Any = getattr(import_module("modgap.index"), _CLASSES[kind])
    given = {name: value for name, value in options.items() if value is not None}
    known = [*inspect.signature(store).parameters][2:]
    if "trust" in known:
        known.remove("trust")
    for name in given:
        check_choice(name, f"An option of {kind}", known)
    if kind in ("qdrant", "chroma"):
        given["trust"] = trust
    made: VectorIndex = store(where, correction, **given)
    made.monitor = monitor
    try:
        return made.open(create=create, replace=replace)
    except BaseException:
        made.close()
        raise


def _parse(address: str) -> tuple[str, str]:
    """The scheme or ending, and what the database's library gets.

    >>> _parse("qdrant+http://host"), _parse("milvus:x.db"), _parse("a/b.lance")
    (('qdrant', 'http://host'), ('milvus', 'x.db'), ('.lance', 'a/b.lance'))
    """
    if found := re.fullmatch(r"(qdrant|milvus)(?:\+(?=https?:)|:)(.+)", address, flags=re.DOTALL):
        return found[1], found[2]
    if found := re.fullmatch(r"(duckdb|sqlite|chroma):(?!//)(.+)", address, flags=re.DOTALL):
        return found[1], found[2]
    if is_postgres(address):
        return "postgresql", address
    kind = Path(address).suffix
    if kind not in _CLASSES or "://" in address or "\0" in address:
        raise InputValueError(
            "An index is a file that ends in .faiss or .index, a folder that ends in .lance, "
            "postgresql://…, qdrant:FOLDER, qdrant+http://…, milvus:FILE.db, milvus+http://…, "
            f"duckdb:FILE, sqlite:FILE or chroma:FOLDER; got {without_secrets(address)!r}."
        )
    return kind, address


def check_server(where: str, scheme: str) -> bool:
    """Whether it is the address of a server; one that is none, but looks like it, is refused."""
    if "://" not in where:
        return False
    if not _SERVER.fullmatch(where):
        raise InputValueError(
            f"The address of a server is {scheme}+http://HOST:PORT or {scheme}+https://HOST:PORT, "
            f"got {without_secrets(where)!r}."
        )
    return True


def check_trusted(folder: str | os.PathLike[str], said: str) -> None:
    """Refuse a folder of pickles that is there already; ``said`` is whose, and what is pickled."""
    if os.path.isdir(folder) and os.listdir(folder):
        raise InputValueError(
            f"{os.fspath(folder)} is a folder {said}, and these can run any code when they are "
            "read. Where you trust all who could write to it, say so (trust=True, --trust)."
        )


def check_collection(name: str, pattern: str, database: str, said: str) -> None:
    """A name of a collection that the database takes; ``said`` is the pattern in words."""
    if not re.fullmatch(pattern, name):
        raise InputValueError(f"A collection of {database} has a name of {said}, got {name!r}.")
