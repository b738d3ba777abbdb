"""Names that are imported when first used, as the package's own stub lists them."""

from __future__ import annotations

from collections.abc import Callable
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
