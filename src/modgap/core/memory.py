"""Memory that is not used any more goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Let the system have what was freed.

    glibc keeps freed blocks of up to 32 MiB for the next of their size. Steps that work in blocks
    of other sizes would each keep their own, and a stream would hold what no step of it needs.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """malloc_trim of glibc; None where there is another allocator."""
    on_linux = sys.platform.startswith("linux")
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if on_linux else None
