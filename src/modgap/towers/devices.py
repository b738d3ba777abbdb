"""Where a network computes, and what to say when the place is missing or too small."""

from __future__ import annotations

import torch

from modgap._validate import InputValueError

ALL_GPUS = "cuda:all"


def find_devices(name: str | None = None) -> tuple[torch.device, ...]:
    """Devices by name: by default the first GPU, else the processor; "cuda:all" is every GPU."""
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is used up.

    torch says it in two ways: a class of its own on a GPU, words on a CPU.
    """
    known = isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error)
