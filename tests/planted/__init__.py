"""Violations planted in what the entries of each paper read, one module a paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Plant:
    """A change of what is read, by its name, and how the statements begin that it must make fail.

    ``change`` is given the name and the value of everything that the entry reads, as
    ``Setting.planted`` is.
    """

    change: Callable[[str, Any], Any]
    fails: tuple[str, ...]
