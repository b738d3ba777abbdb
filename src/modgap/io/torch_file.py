"""torch's `.pt` and `.pth`: a tensor, a dict of tensors or an (image, text) pair.

Loaded with ``weights_only``, so that a file cannot run code, and memory-mapped where torch can.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modgap._validate import InputTypeError, InputValueError, require
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrix import ArrayMatrix, Matrix, bfloat16_matrix
from modgap.io._stream import RowStream, is_text

_ZIP_MAGIC = b"PK\x03\x04"
_HOW_TO_SAVE = "Save a tensor, a dict of tensors or an (image, text) pair with torch.save."


def open_torch(path: Path) -> Contents:
    """The tensors of a file; in a dict, also its lists of strings or whole numbers."""
    torch = require("torch", "torch", f"Reading {path}")
    loaded = load_torch(torch, path, _HOW_TO_SAVE)
    if isinstance(loaded, torch.Tensor):
        return Contents.of_array(path, _matrix(torch, path, "the tensor", loaded))
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
            matrices[str(name)] = _matrix(torch, path, name, value)
        elif isinstance(value, torch.Tensor) and value.ndim == 1:
            columns[str(name)] = Column.of(_matrix(torch, path, name, value).rows())
        elif isinstance(value, list) and value and isinstance(value[0], (str, int)):
            columns[str(name)] = Column.of(np.array(value, dtype=_list_dtype(value)))
    if pair is not None and list(matrices) != list(pair):
        raise InputTypeError(f"{path} must hold two matrices, the rows of each modality.")
    return Contents(path, matrices, columns, pair)


def load_torch(torch: Any, path: Path, how_to_save: str) -> Any:
    """What a file holds, if that is tensors and plain values; else refused, with how to save it."""
    with path.open("rb") as file:
        is_zip = file.read(4) == _ZIP_MAGIC  # torch can map these, not what it wrote before 1.6
    try:
        # weights_only reads bytes it does not trust and raises whatever they lead it to.
        with reading(path, "a torch file", Exception):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except InputValueError as error:
        if not isinstance(error.__cause__, pickle.UnpicklingError):
            raise
        raise InputValueError(
            f"{path} must hold only tensors, strings and numbers. It holds other Python objects, "
            f"which could run code when loaded, or is no torch file at all. {how_to_save}"
        ) from error


def _matrix(torch: Any, path: Path, name: object, tensor: Any) -> ArrayMatrix:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        raise InputTypeError(f"{name!r} of {path} must be a dense tensor, got {tensor.layout}.")
    if tensor.dtype == torch.bfloat16:
        return bfloat16_matrix(tensor.view(torch.int16).numpy().view(np.uint16))
    try:
        return ArrayMatrix(tensor.resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise InputTypeError(
            f"{name!r} of {path} must hold float16, bfloat16, float32 or float64, "
            f"got {str(tensor.dtype).removeprefix('torch.')}."
        ) from error


def _list_dtype(values: list) -> type:
    return np.int64 if all(isinstance(value, int) for value in values) else object


def write_torch(
    path: Path, matrices: Mapping[str, RowStream], columns: Mapping[str, np.ndarray]
) -> None:
    """Write one tensor if there is nothing else, otherwise a dict; collected in memory first."""
    torch = require("torch", "torch", f"Writing {path.suffix} files")
    tensors = {name: torch.from_numpy(stream.collect()) for name, stream in matrices.items()}
    if len(tensors) == 1 and not columns:
        _save(torch, next(iter(tensors.values())), path)
        return
    others = {
        name: values.tolist() if is_text(values) else torch.tensor(values)
        for name, values in columns.items()
    }
    _save(torch, {**tensors, **others}, path)


def _save(torch: Any, held: Any, path: Path) -> None:
    # Through a file of Python's, which says why the disk refuses it.
    with path.open("wb") as file:
        torch.save(held, file)
