"""modgap's own files: tensors with a JSON header in one safetensors file, never pickle."""

from __future__ import annotations

import itertools
import json
import math
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.core.checks import InputError, InputValueError
from modgap.core.files import atomic_path
from modgap.core.limits import HEADER_BYTES, parse_json
from modgap.core.steady_file import ChangedFileError, SteadyFile

_TRIES = 5

# Raised where an earlier version would misread what this one writes.
FORMAT = 1

# Those of safetensors that NumPy has; bfloat16 as the whole numbers that it is stored as.
_DTYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "BOOL": "?",
    "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip


def write_tensors(
    path: str | os.PathLike[str],
    kind: str,
    tensors: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    checksum: bool = False,
) -> None:
    """Write one file in one step; ``kind`` says what it is, "correction" for instance.

    With a ``checksum``, reading it finds damage.
    """
    from safetensors.numpy import save_file

    said = {"kind": kind, "format": FORMAT, "version": __version__, **header}
    # save_file writes stray memory for arrays that are not contiguous.
    contiguous = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    if checksum:
        said["checksum"] = _checksum(contiguous)
    with atomic_path(path) as temporary:
        save_file(contiguous, temporary, metadata={"modgap": json.dumps(said)})


def read_tensors(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and tensors of a file of this kind; nothing in it is ever executed.

    Our own files are replaced whole, by a monitor that runs for instance: one that was, while it
    was read, is read again.
    """
    if not os.path.isfile(path):
        raise InputValueError(f"There is no {kind} at {path}.")
    for _ in range(_TRIES - 1):
        with suppress(ChangedFileError):
            return _read_once(path, kind)
    return _read_once(path, kind)


def _read_once(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    file = SteadyFile(path)
    try:
        metadata, stored = list_tensors(file)
    except InputError:
        raise
    except ValueError as error:
        raise InputValueError(
            f"{path} is not a {kind}: it cannot be read as safetensors ({error})."
        ) from error
    # The header first: another model's file may be large, or of a dtype NumPy lacks.
    header = _header(metadata.get("modgap"), kind, path)
    tensors = {}
    with file.open() as opened:
        for name, tensor in stored.items():
            if tensor.dtype is None or tensor.kind == "BF16":
                raise InputValueError(f"{path} is not a {kind}: it holds {tensor.kind} numbers.")
            tensors[name] = np.empty(tensor.shape, tensor.dtype)
            file.read_into(opened, tensor.offset, tensors[name])
    if "checksum" in header and header["checksum"] != _checksum(tensors):
        raise InputValueError(f"{path} is damaged: its numbers are not those that were written.")
    return header, tensors


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in a safetensors file; ``dtype`` is None where NumPy has none for it."""

    kind: str
    dtype: np.dtype | None
    shape: tuple[int, ...]
    offset: int


def list_tensors(file: SteadyFile) -> tuple[dict[str, str], dict[str, StoredTensor]]:
    """The metadata and the tensors of a safetensors file, all of which must be stored in it.

    Read here and not by the library, which maps the file. ValueError where it is no such file.
    """
    with file.open() as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > min(HEADER_BYTES, file.size - 8):
            raise ValueError(
                f"its header claims {length:,} bytes, and may have {HEADER_BYTES:,}, in a file of "
                f"{file.size:,}"
            )
        text = np.empty(length, np.uint8)
        file.read_into(opened, 8, text)
    try:
        header = json.loads(text.tobytes())
    except RecursionError as error:
        raise ValueError("its header is nested deep") from error
    if not isinstance(header, dict):
        raise ValueError("its header must be a JSON object")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata must be strings")
    start = 8 + length
    tensors = {name: _stored(name, entry, start, file.size) for name, entry in header.items()}
    places = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    if any(first[1] > second[0] for first, second in itertools.pairwise(places)):
        raise ValueError("its tensors overlap")
    return metadata, tensors


def _stored(name: str, entry: Any, start: int, size: int) -> StoredTensor:
    try:
        kind, shape = entry["dtype"], tuple(entry["shape"])
        first, end = entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, first, end))
        dtype = np.dtype(_DTYPES[kind]) if kind in _DTYPES else None
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{name!r} must have a dtype, a shape and two data_offsets") from error
    if not whole or not first <= end <= size - start:
        raise ValueError(f"{name!r} of shape {shape} is not within the file")
    if dtype is not None and dtype.itemsize * math.prod(shape) != end - first:
        raise ValueError(f"{name!r} of shape {shape} and {kind} is not {end - first:,} bytes")
    if len(shape) > 32 or max(shape, default=0) > 2**48:
        raise ValueError(f"{name!r} claims the shape {shape}, which no array has")
    return StoredTensor(kind, dtype, shape, start + first)


def kind_of_file(path: str | os.PathLike[str]) -> str | None:
    """What one of modgap's own files says that it holds; None for any other file."""
    try:
        header = parse_json(list_tensors(SteadyFile(path))[0].get("modgap", ""), "the header")
    except (ValueError, OSError):
        return None
    return str(header.get("kind")) if isinstance(header, dict) else None


def _checksum(tensors: Mapping[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        if tensors[name].size:
            total = zlib.crc32(tensors[name].reshape(-1).view(np.uint8).data, total)
    return total


def _header(text: str | None, kind: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        header = parse_json(text or "", "the header")
    except InputValueError:
        header = None
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else None
        raise InputValueError(
            f"{path} is a safetensors file, but not a {kind} that modgap wrote"
            + (f"; it holds a {found}." if found else ".")
        )
    if header.get("format") != FORMAT:
        raise InputValueError(
            f"{path} was written by modgap {header.get('version')} in format "
            f"{header.get('format')}, and this one reads {FORMAT}. Read it with that version."
        )
    return header
