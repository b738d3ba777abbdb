"""A batch over several copies of a network, one on each device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from modgap._validate import InputError, InputValueError
from modgap.embed.model import Model, Role
from modgap.io.images import MAX_PIXELS


class OutOfMemory(InputError, RuntimeError):
    """A batch does not fit; the message says what to do."""


class ReplicatedModel(Model):
    """A model with ``n_replicas`` copies of its network; a batch is split before it is prepared.

    Subclasses say how some items are prepared and how one copy makes rows of them.
    """

    n_replicas = 1

    @abstractmethod
    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> Any:
        """What one copy of the network takes."""

    @abstractmethod
    def part_rows(self, replica: int, prepared: Any, modality: str) -> np.ndarray:
        """Rows of what ``prepare_part`` gives, by one copy."""

    def prepare(self, items: Sequence[Any], modality: str, role: Role = "document") -> list[Any]:
        """A batch for ``rows``: a part for each copy of the network."""
        bounds = np.linspace(0, len(items), min(self.n_replicas, len(items)) + 1).astype(int)
        return [
            self.prepare_part(list(items[start:stop]), modality, role)
            for start, stop in pairwise(bounds)
        ]

    def rows(self, prepared: Sequence[Any], modality: str) -> np.ndarray:
        """The rows of a prepared batch as the network gives them."""
        if len(prepared) == 1:
            return self.part_rows(0, prepared[0], modality)
        with ThreadPoolExecutor(len(prepared)) as pool:
            found = pool.map(
                lambda k: self.part_rows(k, prepared[k], modality), range(len(prepared))
            )
            return np.concatenate(list(found))

    def blank(self, modality: str) -> Any:
        """An item that every model of the modality takes: a grey image, a short text, silence."""
        if modality == "text":
            return "a"
        if modality == "audio":
            return np.zeros(self.sampling_rate or 48_000, np.float32)
        from PIL import Image

        if (self.image_side or 0) ** 2 > MAX_PIXELS:
            raise InputValueError(
                f"{self.name} asks for images of {self.image_side} pixels a side, too many."
            )
        return Image.new("RGB", (self.image_side or 224,) * 2, (128, 128, 128))

    def find_dim(self) -> int:
        """Columns of a row, by one item of each modality; they must agree."""
        found = {
            modality: self.rows(self.prepare([self.blank(modality)], modality), modality).shape
            for modality in self.modalities
        }
        for modality, shape in found.items():
            if len(shape) != 2:
                raise InputValueError(
                    f"{self.name} gives no row for {modality}: one item has shape {shape}."
                )
        if len({shape[1] for shape in found.values()}) > 1:
            sizes = " and ".join(f"{modality} rows of {n}" for modality, (_, n) in found.items())
            raise InputValueError(
                f"{self.name} gives {sizes} columns: its modalities do not share one space. Take "
                "a model whose towers end in one dimension."
            )
        return int(next(iter(found.values()))[1])
