"""Rows on a GPU: read, sent and kept there, while the next ones are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.io._matrices import ArrayMatrix, Matrix

if TYPE_CHECKING:
    import torch

ALL_GPUS = "cuda:all"
# Blocks of this size are sent, each from pinned memory.
_BLOCK_BYTES = 2**24


def find_devices(name: str | None = None) -> tuple[torch.device, ...]:
    """Devices by name: by default the first GPU, else the processor; "cuda:all" is every GPU."""
    torch = require("torch", "torch", "Computing on a device")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name is None:
        if count == 0 and torch.backends.mps.is_available():
            return (torch.device("mps"),)
        return (torch.device("cuda", 0) if count else torch.device("cpu"),)
    wants_gpu = name == "cuda" or name.startswith("cuda:")
    if wants_gpu and not count:
        raise InputValueError(
            f"device is {name!r}, but torch finds no GPU here. Leave it out, or take 'cpu'."
        )
    if name == ALL_GPUS:
        return tuple(torch.device("cuda", index) for index in range(count))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputValueError(
            f"device must be 'cpu', 'cuda', 'cuda:0' … or {ALL_GPUS!r}, got {name!r}."
        ) from error
    if wants_gpu and (device.index or 0) >= count:
        raise InputValueError(
            f"device is {name!r}, but the GPUs here are cuda:0 to cuda:{count - 1}."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputValueError("device is 'mps', but torch finds no GPU of Apple here. Take 'cpu'.")
    return (device,)


def on_device(matrix: Matrix, device: str) -> ArrayMatrix:
    """The rows as one tensor on a device; to a GPU they are sent as they are read."""
    import torch

    if device == ALL_GPUS:
        raise InputValueError("Rows are held by one device: 'cpu', 'cuda', 'cuda:0' …")
    (place,) = find_devices(device)
    if isinstance(matrix, ArrayMatrix) and not isinstance(matrix.array, np.ndarray):
        return ArrayMatrix(matrix.array.to(place))
    if place.type != "cuda":
        return ArrayMatrix(torch.from_numpy(np.array(matrix.rows())).to(place))
    return ArrayMatrix(_sent(matrix, place))


def _sent(matrix: Matrix, place: torch.device) -> torch.Tensor:
    import torch

    row_bytes = matrix.dtype.itemsize * matrix.shape[1]
    needed = matrix.shape[0] * row_bytes
    free, _ = torch.cuda.mem_get_info(place)
    if needed > free:
        raise InputValueError(
            f"The rows need {needed / 1e9:.1f} GB on {place}, where {free / 1e9:.1f} GB are free. "
            "Leave them where they are: files are read in batches, in little memory."
        )
    size = max(1, _BLOCK_BYTES // row_bytes)
    dtype = torch.from_numpy(np.empty(0, matrix.dtype)).dtype
    rows = torch.empty(matrix.shape, dtype=dtype, device=place)
    for number, batch in enumerate(matrix.batches(size)):
        # torch gives pinned memory to the next block once the copy out of it is done.
        block = torch.empty(batch.shape, dtype=dtype, pin_memory=True)
        block.numpy()[...] = batch
        rows[number * size : number * size + len(batch)].copy_(block, non_blocking=True)
    torch.cuda.current_stream(place).synchronize()
    return rows
