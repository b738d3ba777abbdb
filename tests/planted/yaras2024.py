"""Violations of the claims of yaras2024, in the rows that its checks read."""

from __future__ import annotations

from planted import Plant

PLANTS: dict[str, tuple[Plant, ...]] = {}
# Entries that take more than a second or two, which are tried with the long tests.
SLOW: tuple[str, ...] = ()
