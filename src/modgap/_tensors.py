"""modgap's own files: tensors with a JSON header in one safetensors file, never pickle."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap._files import atomic_path
from modgap._validate import InputValueError
from modgap._version import __version__

# The newest format that this version reads. A file is written in the oldest format that says all
# of it, so that older versions read what they understand and refuse the rest.
FORMAT = 3


def write_tensors(
    path: str | os.PathLike[str],
    kind: str,
    tensors: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    checksum: bool = False,
    file_format: int = 1,
) -> None:
    """Write one file in one step; ``kind`` says what it is, "correction" for instance.

    With a ``checksum``, reading it finds damage. Versions that know formats below ``file_format``
    refuse the file.
    """
    from safetensors.numpy import save_file

    said = {"kind": kind, "format": file_format, "version": __version__, **header}
    # save_file writes stray memory for arrays that are not contiguous.
    contiguous = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    if checksum:
        said["checksum"] = _checksum(contiguous)
    with atomic_path(path) as temporary:
        save_file(contiguous, temporary, metadata={"modgap": json.dumps(said)})


def read_tensors(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and tensors of a file of this kind; nothing in it is ever executed."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise InputValueError(f"There is no {kind} at {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            # The header first: another model's file may be large, or of a dtype NumPy lacks.
            header = _header((file.metadata() or {}).get("modgap"), kind, path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputValueError(
            f"{path} is not a {kind}: it cannot be read as safetensors ({error})."
        ) from error
    if "checksum" in header and header["checksum"] != _checksum(tensors):
        raise InputValueError(f"{path} is damaged: its numbers are not those that were written.")
    return header, tensors


def _checksum(tensors: Mapping[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        if tensors[name].size:
            total = zlib.crc32(tensors[name].reshape(-1).view(np.uint8).data, total)
    return total


def _header(text: str | None, kind: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        header = json.loads(text or "")
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else None
        raise InputValueError(
            f"{path} is a safetensors file, but not a {kind} that modgap wrote"
            + (f"; it holds a {found}." if found else ".")
        )
    if header.get("format") not in range(1, FORMAT + 1):
        raise InputValueError(
            f"{path} was written by modgap {header.get('version')} in format "
            f"{header.get('format')}, and this one reads up to {FORMAT}. Update modgap to read it."
        )
    return header
