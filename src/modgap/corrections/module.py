"""A correction as a torch module, for models and serving code that run on torch."""

from __future__ import annotations

import torch

from modgap.core.checks import InputValueError
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Role


class CorrectionModule(torch.nn.Module):
    """Applies a correction to batches of rows; its maps are buffers and move with ``.to``.

    A row of zeros, which has no direction, is left at zero where the maps bring rows to unit
    length; nothing is refused on the way through a network. With hubs, ``keys`` of documents leave
    bank rows of their own group out, as in ``Correction.apply``.
    """

    bank: torch.Tensor
    bank_keys: torch.Tensor | None

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
        hubs = correction.hubs
        bank = None if hubs is None or hubs.bank is None else torch.tensor(hubs.bank).float()
        self.register_buffer("bank", bank)
        keys = None if hubs is None or hubs.keys is None else torch.tensor(hubs.keys)
        self.register_buffer("bank_keys", keys)

    def forward(
        self,
        rows: torch.Tensor,
        modality: str,
        role: Role = "document",
        keys: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Corrected rows, in the precision of the given ones; gradients flow through."""
        self._correction.map(modality, role)  # refuses what it does not serve
        default = self._maps[modality, "document"]
        key, affine = self._maps.get((modality, role), default)
        if rows.shape[-1] != affine.dim_in:
            raise InputValueError(
                f"The correction is for rows of {affine.dim_in} columns, got {rows.shape[-1]}. "
                "It must be fitted on embeddings of the same model."
            )
        matrix = getattr(self, f"{key}_matrix")
        offset = getattr(self, f"{key}_offset")
        mapped = _unit(rows) if affine.normalise else rows
        if matrix is not None:
            mapped = mapped @ matrix.to(rows.dtype).T
        if affine.scale != 1.0:
            mapped = mapped * affine.scale
        if offset is not None:
            mapped = mapped + offset.to(rows.dtype)
        if affine.renormalise:
            mapped = _unit(mapped)
        if affine.blocks is not None:
            mapped = torch.cat([mapped * factor for factor in affine.blocks], dim=-1)
        return mapped if self._correction.hubs is None else self._with_column(mapped, role, keys)

    def _with_column(
        self, mapped: torch.Tensor, role: Role, keys: torch.Tensor | None
    ) -> torch.Tensor:
        """One more column: 1 for queries, −α times the mean of the k best of the bank."""
        hubs = self._correction.hubs
        assert hubs is not None
        if role == "query":
            column = torch.ones_like(mapped[..., :1])
        else:
            hubs.check_bank()
            scores = mapped @ self.bank.to(mapped.dtype).T
            if keys is not None and self.bank_keys is not None:
                own = keys[..., None] == self.bank_keys
                scores = scores.masked_fill(own, -float("inf"))
            best = scores.topk(hubs.neighbours, dim=-1).values
            column = -hubs.weight * best.mean(dim=-1, keepdim=True)
        return torch.cat([mapped, column], dim=-1)


def _unit(rows: torch.Tensor) -> torch.Tensor:
    # By the largest entry first: squares of very long or short rows leave the range of floats. A
    # constant does not change the unit row, so gradients need not pass through it.
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    scaled = rows / torch.where(largest == 0, torch.ones_like(largest), largest)
    return torch.nn.functional.normalize(scaled, dim=-1)
