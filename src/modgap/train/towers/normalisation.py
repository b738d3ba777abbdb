"""How pixels are normalised, and networks without any normalisation."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from modgap.core.checks import InputValueError
from modgap.train.towers.config import CLIP_MEAN, CLIP_STD

# _NormBase is what batch and instance norms for 1, 2 and 3 dimensions have in common.
_NORMS: tuple[type, ...] = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
if hasattr(nn, "RMSNorm"):
    _NORMS += (nn.RMSNorm,)
# Libraries write their own besides: T5LayerNorm, LlamaRMSNorm, …
_NORM_NAMES = ("LayerNorm", "RMSNorm")


class PixelNormalisation(nn.Module):
    """Pixels normalised as one network wants them, from those normalised as CLIP's."""

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        super().__init__()
        own_mean, own_std = torch.tensor(mean), torch.tensor(std)
        factor = torch.tensor(CLIP_STD) / own_std
        shift = (torch.tensor(CLIP_MEAN) - own_mean) / own_std
        self.register_buffer("_factor", factor[:, None, None], persistent=False)
        self.register_buffer("_shift", shift[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels as the network wants them."""
        return pixels * self._factor + self._shift


def without_normalisation(model: nn.Module) -> nn.Module:
    """A copy of a torch model whose normalisation layers do nothing (Liang et al., fig. 15).

    Layer, batch, group and instance norms become the identity, and so does what a network does to
    its pixels. The given model stays as it is.
    A batch norm with random weights already does nothing when a model answers, for it divides by
    a stored variance of 1: removing it matters in trained models, and while training.
    """
    if _is_norm(model):
        return nn.Identity()
    changed = copy.deepcopy(model)
    norms = [
        (parent, name)
        for parent in changed.modules()
        for name, child in parent.named_children()
        if _is_norm(child)
    ]
    if not norms:
        raise InputValueError(
            "The model has no normalisation layer to remove. Use it as it is: removing them "
            "would change nothing."
        )
    for parent, name in norms:
        setattr(parent, name, nn.Identity())
    return changed


def _is_norm(module: nn.Module) -> bool:
    known = isinstance(module, (*_NORMS, PixelNormalisation))
    return known or type(module).__name__.endswith(_NORM_NAMES)


def pixel_scale() -> tuple[Tensor, Tensor]:
    """Factor and shift, (channels, 1, 1) each, that turn bytes into what a tower takes.

    Pixels from 0 to 1, less CLIP's mean, over its standard deviation of each channel.
    """
    centre, deviation = (torch.tensor(of)[:, None, None] for of in (CLIP_MEAN, CLIP_STD))
    return 1 / (255 * deviation), -centre / deviation
