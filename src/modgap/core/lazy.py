"""Names that are imported when first used: a package's own, as its stub lists them, and Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import lazy_loader


def attach(
    package: str, file: str, *, needs: str = "", extra: str = "", purpose: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from its ``__init__.pyi``.

    ``needs`` is an optional library that its modules import; where that is missing, the error
    names the extra that brings it.
    """
    find, listing, names = lazy_loader.attach_stub(package, file)

    def find_or_explain(name: str) -> Any:
        try:
            return find(name)
        except ModuleNotFoundError as error:
            if needs and error.name == needs:
                from modgap.core.checks import require

                require(needs, extra, purpose)
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
