"""Files of corrections: one, or one for each query modality side by side."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from modgap.core.checks import InputValueError, check_choice
from modgap.corrections.correction import Correction, Role

BOTH = "both"
_STEM, _SUFFIX = "correction", ".safetensors"
CORRECTION_FILE = f"{_STEM}{_SUFFIX}"


def load_corrections(
    path: str | os.PathLike[str], queries: str | None = None
) -> dict[str, Correction]:
    """Corrections by the modality whose queries they serve, from what `save_corrections` wrote.

    Parameters
    ----------
    path : path
        A correction file; or a folder that holds ``correction.safetensors`` or several
        ``correction-NAME.safetensors``, one for each query modality.
    queries : str, optional
        Only the one for queries of this modality, or ``"both"`` for all, of which there must then
        be more than one. Without it all that are there.
    """
    found: dict[str, Correction] = {}
    names: tuple[str, ...] = ()
    for file in _files(Path(path)):
        correction = Correction.load(file)
        if names and correction.names != names:
            raise InputValueError(
                f"The corrections at {path} must name the same modalities, got {names} and "
                f"{correction.names}."
            )
        names = correction.names
        for name in correction.queries:
            if name in found and found[name].queries == correction.queries:
                raise InputValueError(
                    f"Two corrections at {path} serve {name} queries. Remove one, or name a file."
                )
            # One that serves fewer is the one made for these queries.
            if name not in found or len(correction.queries) < len(found[name].queries):
                found[name] = correction
    if queries is None:
        return found
    served = " and ".join(found)
    if check_choice(queries, "queries", (*names, BOTH)) == BOTH:
        if len(found) == 1:
            raise InputValueError(
                f"{path} serves {served} queries only. Make one for each query modality: "
                "modgap fit … --queries both -o correction.safetensors, and give the folder they "
                "are in."
            )
        return found
    if queries not in found:
        raise InputValueError(
            f"{path} serves {served} queries, not {queries} queries. Make one that does: "
            f"modgap fit … --queries {queries}."
        )
    return {queries: found[queries]}


def load_correction(
    path: str | os.PathLike[str], queries: Sequence[str] | None = None
) -> Correction:
    """The one correction of a file, or the one of a folder that serves these query modalities."""
    found = load_corrections(path, queries[0] if queries and len(queries) == 1 else None)
    first, *others = {id(one): one for one in found.values()}.values()
    if others:
        raise InputValueError(
            f"{path} holds corrections for {' and '.join(found)} queries. Choose with --queries."
        )
    return first


def corrections_to_apply(
    path: str | os.PathLike[str], queries: str | None, modality: str, role: Role
) -> dict[str, Correction]:
    """The corrections that rows of a modality go through, by the queries that they serve.

    Queries go through the one made for them. Documents go through one too, or with ``queries``
    "both" through each.
    """
    named = modality if queries is None and role == "query" else queries
    found = load_corrections(path, named)
    if len({id(one) for one in found.values()}) == 1:
        return dict([*found.items()][:1])
    if named is None:
        raise InputValueError(
            f"{path} holds corrections for {' and '.join(found)} queries. Choose with --queries "
            "one of them, or both, which writes a file for each."
        )
    return found


def file_safe(name: str) -> str:
    """The name of a modality as part of a file's name."""
    return re.sub(r"[^\w.-]+", "_", name)


def correction_file_name(asking: str, *, several: bool) -> str:
    """The name of a correction's file: plain where there is one only."""
    return f"{_STEM}-{file_safe(asking)}{_SUFFIX}" if several else CORRECTION_FILE


def save_corrections(
    corrections: Mapping[str, Correction], path: str | os.PathLike[str]
) -> list[Path]:
    """Write corrections, keyed by query modality; the files written.

    One goes to ``path`` itself, several beside it: ``correction-text.safetensors`` and so on for
    ``correction.safetensors``.
    """
    target = Path(path)
    if not corrections:
        raise InputValueError("There is no correction to write.")
    if len({id(correction) for correction in corrections.values()}) == 1:
        files = [target]
    else:
        # The name in the file counts when it is read, so the file's own name may leave things out.
        files = [
            target.with_name(f"{target.stem}-{file_safe(name)}{_SUFFIX}") for name in corrections
        ]
        if len(set(files)) < len(files):
            raise InputValueError(
                f"The names {', '.join(map(repr, corrections))} would give two files one name."
            )
    for file, correction in zip(files, corrections.values(), strict=False):
        correction.save(file)
    return files


def correction_bytes(correction: Correction) -> bytes:
    """The content of the file that ``save`` writes."""
    with tempfile.TemporaryDirectory(prefix="modgap-") as folder:
        path = Path(folder) / CORRECTION_FILE
        correction.save(path)
        return path.read_bytes()


def _files(path: Path) -> list[Path]:
    """The file itself; else those of a folder, or those that several were written to instead."""
    if path.is_file():
        return [path]
    whole = path / CORRECTION_FILE if path.is_dir() else path
    found = sorted(whole.parent.glob(f"{glob.escape(whole.stem)}-*{_SUFFIX}"))
    found = [*([whole] if whole.is_file() else []), *found]
    if not found and path.is_dir():  # what diagnose writes for both kinds of query
        found = sorted(path.glob(f"*/{CORRECTION_FILE}"))
    if not found:
        held = f", no {CORRECTION_FILE} and no {_STEM}-NAME{_SUFFIX}" if path.is_dir() else ""
        raise InputValueError(f"There is no correction at {path}{held}. Make one: modgap fit.")
    return found
