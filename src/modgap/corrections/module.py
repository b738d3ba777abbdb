"""A correction as a torch module, for models and serving code that run on torch."""

from __future__ import annotations

import torch

from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Role


class CorrectionModule(torch.nn.Module):
    """Applies a correction to batches of rows; its maps are buffers and move with ``.to``."""

    def __init__(self, correction: Correction) -> None:
        super().__init__()
        self._maps: dict[tuple[str, str], tuple[str, Affine]] = {}
        self._correction, self.names = correction, correction.names
        for place, ((name, role), affine) in enumerate(correction.maps.items()):
            key = f"map{place}"  # buffer names may not hold the dots or spaces of a modality name
            matrix = None if affine.matrix is None else torch.tensor(affine.matrix)
            offset = None if affine.offset is None else torch.tensor(affine.offset)
            self.register_buffer(f"{key}_matrix", matrix)
            self.register_buffer(f"{key}_offset", offset)
            self._maps[name, role] = (key, affine)

    def forward(self, rows: torch.Tensor, modality: str, role: Role = "document") -> torch.Tensor:
        """Corrected rows, in the precision of the given ones; gradients flow through."""
        self._correction.map(modality, role)  # refuses what it does not serve
        default = self._maps[modality, "document"]
        key, affine = self._maps.get((modality, role), default)
        matrix = getattr(self, f"{key}_matrix")
        offset = getattr(self, f"{key}_offset")
        mapped = torch.nn.functional.normalize(rows, dim=-1) if affine.normalise else rows
        if matrix is not None:
            mapped = mapped @ matrix.to(rows.dtype).T
        if affine.scale != 1.0:
            mapped = mapped * affine.scale
        if offset is not None:
            mapped = mapped + offset.to(rows.dtype)
        if affine.renormalise:
            mapped = torch.nn.functional.normalize(mapped, dim=-1)
        if affine.blocks is not None:
            mapped = torch.cat([mapped * factor for factor in affine.blocks], dim=-1)
        return mapped
