"""torch's `.pt` and `.pth`: a tensor, a dict of tensors or an (image, text) pair.

Loaded with ``weights_only``, so that a file cannot run code, and mapped where torch can; what is
read is copied out of the map, after a look at the file.
"""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, first_line, require
from modgap.core.limits import check_unpacked
from modgap.core.steady_file import SteadyFile
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrices import ArrayMatrix, Matrix, decoded
from modgap.io._row_stream import RowStream, is_text

_ZIP_MAGIC = b"PK\x03\x04"
# Before it, weights_only could be bypassed (CVE-2025-32434).
SAFE_SINCE = "2.6"
_HOW_TO_SAVE = "Save a tensor, a dict of tensors or an (image, text) pair with torch.save."


def open_torch(path: Path) -> Contents:
    """The tensors of a file; in a dict, also its lists of strings or whole numbers."""
    torch = require("torch", "torch", f"Reading {path}", since=SAFE_SINCE)
    file = SteadyFile(path)
    loaded = load_torch(torch, file, _HOW_TO_SAVE)
    if isinstance(loaded, torch.Tensor):
        matrix = _matrix(torch, file, "the tensor", loaded)
        return Contents.of_array(path, matrix, matrix.side)
    if isinstance(loaded, (list, tuple)) and len(loaded) == 2:
        loaded = {str(side): value for side, value in enumerate(loaded)}
        pair = ("0", "1")
    else:
        pair = None
    if not isinstance(loaded, Mapping):
        raise InputTypeError(
            f"{path} must hold a tensor, a dict of tensors or an (image, text) pair of tensors, "
            f"got {type(loaded).__name__}."
        )
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for name, value in loaded.items():
        if isinstance(value, torch.Tensor) and value.ndim > 1:
            matrices[str(name)] = _matrix(torch, file, name, value)
        elif isinstance(value, torch.Tensor) and value.ndim == 1:
            columns[str(name)] = Column.of(_matrix(torch, file, name, value).rows())
        elif isinstance(value, list) and value and isinstance(value[0], (str, int)):
            columns[str(name)] = Column.of(_column(value, f"{name!r} of {path}"))
    if pair is not None and list(matrices) != list(pair):
        raise InputTypeError(f"{path} must hold two matrices, the rows of each modality.")
    return Contents(path, matrices, columns, pair)


def load_torch(torch: Any, file: SteadyFile, how_to_save: str) -> Any:
    """What a file holds, if that is tensors and plain values; else refused, with how to save it.

    Tensors of a zip file are maps of it; see ``is_mapped``.
    """
    path = file.path
    is_zip = is_mapped(file)
    if is_zip:
        _check_zip(path)
    try:
        # weights_only reads bytes it does not trust and raises whatever they lead it to.
        with reading(path, "a torch file", Exception), file.watched():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except InputValueError as error:
        if not isinstance(error.__cause__, pickle.UnpicklingError):
            raise
        raise InputValueError(
            f"{path} must hold only tensors, strings and numbers. It holds other Python objects, "
            f"which could run code when loaded, or is no torch file at all. {how_to_save}"
        ) from error


def is_mapped(file: SteadyFile) -> bool:
    """Whether torch maps a file: a zip file, not what it wrote before 1.6."""
    with file.open() as opened:
        return opened.read(4) == _ZIP_MAGIC


def _check_zip(path: Path) -> None:
    """Refuse members that unpack to far more than is stored, and calls that only ask for memory."""
    with reading(path, "a torch file", Exception), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            check_unpacked(f"{info.filename!r} of {path}", info.file_size, info.compress_size)
            if info.filename.endswith("data.pkl"):
                _check_pickle(path, archive.read(info))


def _check_pickle(path: Path, data: bytes) -> None:
    """bytearray(n), which torch allows, is n bytes for a few that are stored."""
    if b"bytearray" not in data:
        return
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("GLOBAL", "SHORT_BINUNICODE", "BINUNICODE", "UNICODE") and str(
            argument
        ).split()[-1:] == ["bytearray"]:
            raise InputValueError(
                f"{path} must hold only tensors, strings and numbers, got a bytearray. "
                f"{_HOW_TO_SAVE}"
            )


def _matrix(torch: Any, file: SteadyFile, name: object, tensor: Any) -> ArrayMatrix:
    """The numbers of a tensor; those of a map are copied when they are read."""
    tensor, path = tensor.detach(), file.path
    if tensor.layout != torch.strided:
        raise InputTypeError(f"{name!r} of {path} must be a dense tensor, got {tensor.layout}.")
    claimed, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if claimed > stored:  # far more numbers than are stored, as ``expand`` makes them
        check_unpacked(f"{name!r} of {path}, an expanded tensor,", claimed, stored)
    try:
        if tensor.dtype == torch.bfloat16:
            array, dtype = tensor.view(torch.int16).numpy().view(np.uint16), np.dtype(np.float32)
        else:
            array = tensor.resolve_conj().resolve_neg().numpy()
            dtype = array.dtype
    except (TypeError, RuntimeError) as error:
        raise InputTypeError(
            f"{name!r} of {path} must hold float16, bfloat16, float32 or float64, "
            f"got {str(tensor.dtype).removeprefix('torch.')}."
        ) from error
    if is_mapped(file):
        return ArrayMatrix(array, dtype, file, str(name))
    return ArrayMatrix(decoded(array, dtype))


def _column(values: list, where: str) -> np.ndarray:
    """Whole numbers, or objects; strings must be text."""
    if all(isinstance(value, int) and abs(value) < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    try:
        for value in values:
            str(value).encode()
    except ValueError as error:  # half a character, or a number of thousands of digits
        raise InputValueError(f"{where} must hold text ({first_line(error)}).") from error
    return np.array(values, dtype=object)


def write_torch(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Write one tensor if there is nothing else, otherwise a dict; collected in memory first."""
    torch = require("torch", "torch", f"Writing {path.suffix} files")
    tensors = {name: torch.from_numpy(stream.collect()) for name, stream in matrices.items()}
    others = {
        name: values.tolist() if is_text(values) else torch.tensor(values)
        for name, values in columns.items()
    }
    alone = len(tensors) == 1 and not others
    # Through a file of Python's, which says why the disk refuses it.
    with path.open("wb") as file:
        torch.save(next(iter(tensors.values())) if alone else {**tensors, **others}, file)
