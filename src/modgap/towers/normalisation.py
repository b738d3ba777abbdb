"""A model without its normalisation layers (Liang et al., fig. 15)."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from modgap._validate import InputValueError, require
from modgap.towers.build import EXTRA, Tower


def without_normalisation(model: Any) -> Any:
    """A copy of a tower or of a torch model whose normalisation layers do nothing.

    Layer, batch, group and instance norms become the identity. The given model stays as it is.
    A batch norm with random weights already does nothing when a model answers, for it divides by
    a stored variance of 1: removing it matters in trained models, and while training.
    """
    if isinstance(model, Tower):
        return dataclasses.replace(model, model=without_normalisation(model.model))
    nn = require("torch", EXTRA, "Removing normalisation layers").nn
    # _BatchNorm and _InstanceNorm are what the layers for 1, 2 and 3 dimensions have in common.
    common = (
        nn.modules.batchnorm._BatchNorm,
        nn.modules.instancenorm._InstanceNorm,
        nn.LayerNorm,
        nn.GroupNorm,
    )
    kinds = (*common, nn.RMSNorm) if hasattr(nn, "RMSNorm") else common
    if isinstance(model, kinds):
        return nn.Identity()
    changed = copy.deepcopy(model)
    found = 0
    for parent in list(changed.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, kinds):
                setattr(parent, name, nn.Identity())
                found += 1
    if not found:
        raise InputValueError(
            "The model has no normalisation layer to remove. Use it as it is: removing them "
            "would change nothing."
        )
    return changed
