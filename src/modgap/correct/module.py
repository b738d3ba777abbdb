"""A correction as a torch module, for models and serving code that run on torch."""

from __future__ import annotations

import torch

from modgap._validate import check_choice
from modgap.correct.correction import ROLES, Correction


class CorrectionModule(torch.nn.Module):
    """Applies a correction to batches of rows; its maps are buffers and move with ``.to``."""

    def __init__(self, correction: Correction) -> None:
        super().__init__()
        self._maps: dict[tuple[str, str], tuple[str, float, bool]] = {}
        self.names = correction.names
        for place, ((name, role), affine) in enumerate(correction.maps.items()):
            key = f"map{place}"  # buffer names may not hold the dots or spaces of a modality name
            matrix = None if affine.matrix is None else torch.tensor(affine.matrix)
            offset = None if affine.offset is None else torch.tensor(affine.offset)
            self.register_buffer(f"{key}_matrix", matrix)
            self.register_buffer(f"{key}_offset", offset)
            self._maps[name, role] = (key, affine.scale, affine.renormalise)

    def forward(self, rows: torch.Tensor, modality: str, role: str = "document") -> torch.Tensor:
        """Corrected rows, in the precision of the given ones; gradients flow through."""
        check_choice(modality, "modality", self.names)
        check_choice(role, "role", ROLES)
        default = self._maps[modality, "document"]
        key, scale, renormalise = self._maps.get((modality, role), default)
        matrix = getattr(self, f"{key}_matrix")
        offset = getattr(self, f"{key}_offset")
        mapped = rows
        if matrix is not None:
            mapped = mapped @ matrix.to(rows.dtype).T
        if scale != 1.0:
            mapped = mapped * scale
        if offset is not None:
            mapped = mapped + offset.to(rows.dtype)
        return torch.nn.functional.normalize(mapped, dim=-1) if renormalise else mapped
