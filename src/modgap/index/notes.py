"""The note kept with the vectors of an index: which correction made them, and if all are there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from modgap._validate import InputValueError
from modgap._version import __version__
from modgap.corrections import Correction
from modgap.index.answers import IdType

FORMAT = 2

Note = dict[str, Any]


def new_note(
    correction: Correction, id_type: IdType, *, scope: Literal["table", "column"] = "table"
) -> Note:
    """What is kept with the vectors: which correction made them, and whether all are there.

    ``scope`` says whether the whole table is modgap's, or only a column of it. ``first_ids`` has,
    for each modality, the number of the first row that is being added.
    """
    return {
        "modgap": "index",
        "scope": scope,
        "format": FORMAT,
        "version": __version__,
        "fingerprint": fingerprint(correction),
        "metric": correction.metric,
        "names": list(correction.names),
        "dim": correction.dim_out,
        "id_type": id_type,
        "first_ids": {},
        "finished": False,
    }


def read_note(text: str | bytes | None) -> Note:
    """The note that a text holds; empty where it is no note of modgap's."""
    try:
        note = json.loads(text or "")
    except ValueError:
        return {}
    return note if isinstance(note, dict) and note.get("modgap") == "index" else {}


def check_note(
    note: Mapping[str, Any], correction: Correction, place: str, *, create: bool = False
) -> None:
    """An index of this correction: a finished one, or with ``create`` one to be finished."""
    if not note:
        raise InputValueError(
            f"{place} exists already, but it was not built by modgap, or is damaged. Choose "
            "another name, or remove it."
        )
    check_note_fits(note, correction, place)
    if note["finished"] and create:
        raise InputValueError(
            f"{place} exists already. Choose another name, replace it (replace=True, --replace), "
            "or open it without create to add to it."
        )
    if not note["finished"] and not create:
        raise InputValueError(
            f"{place} was not finished. Run the same build again to finish it, or replace it "
            "(replace=True, --replace)."
        )


def check_note_fits(note: Mapping[str, Any], correction: Correction, place: str) -> None:
    """Vectors that another correction made cannot be searched with this one."""
    if note["format"] != FORMAT:
        raise InputValueError(
            f"{place} was built by modgap {note['version']} in format {note['format']}, and this "
            f"one reads {FORMAT}. Use that version, or build the index again."
        )
    if note["fingerprint"] != fingerprint(correction):
        given = new_note(correction, note["id_type"])
        differ = [key for key in ("names", "dim", "metric") if note[key] != given[key]]
        what = [f"{key} {note[key]}, this one has {given[key]}" for key in differ]
        raise InputValueError(
            f"{place} was built with another correction: {'; '.join(what) or 'its maps differ'}. "
            "Use the correction it was built with, or build the index again."
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
