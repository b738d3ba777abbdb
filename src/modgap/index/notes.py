"""The note kept with the vectors of an index: which correction made them, and if all are there."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap._validate import InputValueError
from modgap._version import __version__
from modgap.corrections import Correction

FORMAT = 1


def new_note(
    correction: Correction, ids: str, *, finished: bool = False, part: str = "table"
) -> dict[str, Any]:
    """What is kept with the vectors: which correction made them, and whether all are there.

    ``part`` says whether the whole table is modgap's, or only a column of it.
    """
    return {
        "modgap": "index",
        "part": part,
        "format": FORMAT,
        "version": __version__,
        "documents": fingerprint(correction),
        "metric": correction.metric,
        "names": list(correction.names),
        "dim": correction.dim_out,
        "ids": ids,
        "finished": finished,
    }


def check_note_fits(correction: Correction, note: Mapping[str, Any], place: str) -> None:
    """Vectors that another correction made cannot be searched with this one."""
    if note["dim"] != correction.dim_out:
        raise InputValueError(
            f"{place} holds vectors of {note['dim']} columns, but the correction gives "
            f"{correction.dim_out}. Use the correction it was built with."
        )
    if tuple(note["names"]) != correction.names:
        raise InputValueError(
            f"{place} holds {' and '.join(note['names'])}, but the correction names "
            f"{' and '.join(correction.names)}. Use the correction it was built with."
        )
    if note["documents"] != fingerprint(correction):
        raise InputValueError(
            f"{place} was built with another correction: its document maps or its metric differ. "
            "Use the correction it was built with, or build the index anew."
        )


def fingerprint(correction: Correction) -> str:
    """Tells whether two corrections store documents alike: the document maps and the metric."""
    digest = hashlib.sha256(correction.metric.encode())
    for name in correction.names:
        affine = correction.map(name, "document")
        for field in dataclasses.fields(affine):
            value = getattr(affine, field.name)
            is_array = isinstance(value, np.ndarray)
            digest.update(f"{name}.{field.name}={None if is_array else value!r};".encode())
            digest.update(np.ascontiguousarray(value, "<f8").tobytes() if is_array else b"")
    return digest.hexdigest()
