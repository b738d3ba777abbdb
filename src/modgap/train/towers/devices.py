"""What to say when the place where a network computes is too small."""

from __future__ import annotations

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is used up.

    torch says it in two ways: a class of its own on a GPU, words on a CPU.
    """
    known = isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error)
