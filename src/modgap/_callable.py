"""Let a package be called like the function it is named after."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """``modgap.measure`` is a package and, under the same name, the function most people want.

    Importing the package binds its name in ``modgap``, whatever was there before; being callable,
    it serves both.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function of the package's own name."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)


def make_callable(name: str) -> None:
    """Make the module of this name callable."""
    sys.modules[name].__class__ = CallableModule
