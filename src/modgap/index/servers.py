"""What Qdrant and Milvus share: addresses of servers, and names of collections."""

from __future__ import annotations

import re

from modgap._secrets import without_secrets
from modgap._validate import InputValueError

_SERVER = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?:\[[\w:.%]+\]|[^\s/?#@:\[\]]+)(?::\d+)?(?:[/?][^\s@]*)?"
)


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


def check_collection(name: str, pattern: str, database: str, said: str) -> None:
    """A name of a collection that the database takes; ``said`` is the pattern in words."""
    if not re.fullmatch(pattern, name):
        raise InputValueError(f"A collection of {database} has a name of {said}, got {name!r}.")
