"""The note kept with the vectors of an index: which corrections made them, and if all are there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from modgap._version import __version__
from modgap.core.checks import InputValueError
from modgap.core.limits import parse_json
from modgap.corrections import Correction
from modgap.corrections.fingerprints import fingerprint
from modgap.index.equal_lengths import lifted_lengths
from modgap.index.hits import Id, IdType
from modgap.index.stored_vectors import StoredVector
from modgap.io import Embeddings

FORMAT = 4
# So many rows tell those of a change that was interrupted from others.
MARKED_ROWS = 64

Note = dict[str, Any]
# One graph for each modality, or one of all.
Graphs = Literal["each", "one"]


def new_note(
    vectors: Iterable[StoredVector],
    id_type: IdType,
    *,
    graphs: Graphs | None = None,
    scope: Literal["table", "column"] = "table",
) -> Note:
    """What is kept with the vectors: which corrections made them, and whether all are there.

    By modality, ``numbers`` has what the next row without an id is called, and ``documents`` how
    many there were when it was built and how many were added, replaced or deleted since.
    ``changing`` has a mark of each change that was begun and is not finished.

    Parameters
    ----------
    vectors : iterable of StoredVector
        What every document is stored as.
    id_type : {"int", "str"}
        What the ids are.
    graphs : {"each", "one"}, optional
        The graphs that are searched, where there are any.
    scope : {"table", "column"}
        Whether the whole table is modgap's, or only a column of it.
    """
    stored = list(vectors)
    return {
        "modgap": "index",
        "scope": scope,
        "format": FORMAT,
        "version": __version__,
        "metric": stored[0].correction.metric,
        **made_by(stored, stored[0].correction.names),
        "graphs": graphs,
        "id_type": id_type,
        "numbers": {},
        "documents": {},
        "changing": [],
        "finished": False,
    }


def made_by(vectors: Iterable[StoredVector], names: Sequence[str]) -> Note:
    """What a note says of its modalities, and of the corrections that made the vectors."""
    return {
        "names": list(names),
        "vectors": {
            vector.name: {
                "fingerprint": fingerprint(vector.correction, names=names),
                "without_bank": fingerprint(vector.correction.without_bank(), names=names),
                "queries": list(vector.correction.queries),
                "dim": vector.correction.dim_out,
                "lengths": None if vector.lengths is None else dict(vector.lengths),
                "backgrounds": background_marks(vector.correction),
            }
            for vector in vectors
        },
    }


def background_marks(correction: Correction) -> dict[str, str]:
    """For each modality what tells its background from one that was fitted later."""
    lists = {} if correction.background is None else correction.background.lists
    return {name: hashlib.sha256(one.heights.tobytes()).hexdigest() for name, one in lists.items()}


def change_mark(what: str, modality: str, ids: Sequence[Id], rows: Embeddings | None = None) -> str:
    """Tells a change of documents that was begun from another one, by their ids and some rows."""
    made = hashlib.sha256(json.dumps([what, modality, ids]).encode())
    if rows is not None:
        some = np.linspace(0, rows.n_rows - 1, min(MARKED_ROWS, rows.n_rows)).astype(int)
        made.update(np.ascontiguousarray(rows.take(np.unique(some)), dtype=np.float32).tobytes())
    return made.hexdigest()


def read_note(text: str | bytes | None) -> Note:
    """The note that a text holds; empty where it is no note of modgap's."""
    try:
        note = parse_json(text or "", "the note")
    except ValueError:
        return {}
    return note if isinstance(note, dict) and note.get("modgap") == "index" else {}


def check_note(
    note: Mapping[str, Any],
    corrections: Sequence[Correction],
    place: str,
    *,
    create: bool = False,
) -> dict[str, StoredVector]:
    """The vectors of a finished index, or with ``create`` of one to be finished.

    Parameters
    ----------
    note : mapping
        What was found at the place.
    corrections : sequence of Correction
        Those that the index is opened with.
    place : str
        What to call it in a sentence.
    create : bool
        Whether it is to be built.
    """
    if not note:
        raise InputValueError(
            f"{place} was not built by modgap, or is damaged. Choose another name."
        )
    vectors = match_vectors(note, corrections, place)
    if note["finished"] and create:
        raise InputValueError(
            f"{place} exists already. Choose another name, replace it (replace=True, --replace), "
            "or add to it (modgap index add, in Python open it without create)."
        )
    if not note["finished"] and not create:
        raise InputValueError(
            f"{place} was not finished. Run the same build again to finish it, or replace it "
            "(replace=True, --replace)."
        )
    return vectors


def match_vectors(
    note: Mapping[str, Any], corrections: Sequence[Correction], place: str
) -> dict[str, StoredVector]:
    """The vectors that these corrections made; refused where one is for others than are stored.

    A correction for queries that the index has no vector for is left out, and so is a vector that
    no correction is given for.
    """
    if note["format"] != FORMAT:
        raise InputValueError(
            f"{place} was built by modgap {note['version']} in format {note['format']}, and this "
            f"one reads {FORMAT}. Use that version, or build the index again."
        )
    names = note["names"]
    # One that was extended by a modality made the documents of the others as they are.
    marks = {
        id(correction): fingerprint(correction, names=names)
        for correction in corrections
        if {*names} <= {*correction.names}
    }
    left = list(corrections)
    found: dict[str, StoredVector] = {}
    for name, held in note["vectors"].items():
        alike = [c for c in left if marks.get(id(c)) in (held["fingerprint"], held["without_bank"])]
        if alike:
            best = max(alike, key=lambda c: list(c.queries) == held["queries"])
            left.remove(best)
            lengths = held["lengths"]
            if lengths is not None and len(best.names) > len(names):
                lengths = {**(lifted_lengths(best) or {}), **lengths}
            found[name] = StoredVector(name, best, lengths)
    missing = {name: held for name, held in note["vectors"].items() if name not in found}
    for held in missing.values():
        for other in left:
            if not found or {*other.queries} & {*held["queries"]}:
                _refuse(note, held, other, place)
    return found


def _refuse(
    note: Mapping[str, Any], held: Mapping[str, Any], given: Correction, place: str
) -> None:
    """Vectors that another correction made cannot be searched with this one."""
    pairs = {
        "names": (note["names"], list(given.names)),
        "dim": (held["dim"], given.dim_out),
        "metric": (note["metric"], given.metric),
        "queries": (held["queries"], list(given.queries)),
    }
    what = [f"{key} {a}, this one has {b}" for key, (a, b) in pairs.items() if a != b]
    raise InputValueError(
        f"{place} was built with another correction: {'; '.join(what) or 'its maps differ'}. "
        "Use the correction it was built with, or build the index again."
    )
