"""Violations planted in what the entries of each paper read, one module a paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Pairs = Callable[[np.ndarray, np.ndarray], Any]
SYSTEMS = ("clip", "videoclip", "convirt", "clasp")
PAIRED = (*SYSTEMS, *(f"{name}_random" for name in SYSTEMS), "unsplash-clip-b32", "digits")


@dataclass(frozen=True)
class Plant:
    """A change of what is read, by its name, and how the statements begin that it must make fail.

    ``change`` is given the name and the value of everything that the entry reads, as
    ``Setting.planted`` is.
    """

    change: Callable[[str, Any], Any]
    fails: tuple[str, ...]


def on_pairs(change: Pairs, names: tuple[str, ...] = PAIRED) -> Callable[[str, Any], Any]:
    """A change of the rows of both modalities, in whatever form they come."""

    def planted(name: str, value: Any) -> Any:
        if name not in names:
            return value
        if isinstance(value, dict):
            rows = change(value["image"], value["text"])
            return value | dict(zip(("image", "text"), rows, strict=True))
        return change(*value)

    return planted


def only(**changes: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Changes of what is read under these names, all else as it is."""
    return lambda name, value: changes[name](value) if name in changes else value


def in_trained_metrics(**metrics: float) -> Callable[[str, Any], Any]:
    """Other metrics of the models trained from scratch, the same with every seed."""

    def planted(name: str, value: Any) -> Any:
        if name != "runs from scratch":
            return value
        changed = {
            recipe: [run | {"metrics": run.get("metrics", {}) | metrics} for run in runs]
            for recipe, runs in value.runs.items()
        }
        return type(value)(changed)

    return planted
