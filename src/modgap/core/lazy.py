"""Names that are imported when first used: a package's own, as its stub lists them, and Arrow's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import lazy_loader


def attach(
    package: str, file: str, *, needs: Mapping[str, tuple[str, str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from its ``__init__.pyi``.

    ``needs`` holds optional libraries that its modules import, each with the extra that brings it
    and what is then not to be had: the error where one is missing.
    """
    find, listing, names = lazy_loader.attach_stub(package, file)

    def find_or_explain(name: str) -> Any:
        try:
            return find(name)
        except ModuleNotFoundError as error:
            if needs and error.name is not None and error.name in needs:
                from modgap.core.checks import require

                require(error.name, *needs[error.name])
            raise

    return find_or_explain, listing, names


class LazyModule:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


# Under the names that Arrow's own pages give them.
pa, pc, pq = (LazyModule(f"pyarrow{name}") for name in ("", ".compute", ".parquet"))
