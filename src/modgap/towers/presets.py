"""How large the towers are. All towers of one preset share their inputs and their dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Size = Literal["tiny", "small"]


@dataclass(frozen=True)
class Preset:
    """Sizes of the four kinds of tower; ``dimension`` is that of the rows they give."""

    dimension: int
    layers: int
    heads: int
    image_size: int
    channels: int
    patch_size: int
    stages: tuple[int, ...]
    vocab_size: int
    context_length: int

    # Captions stand between these token ids; CLIP, too, ends with the largest.
    pad_token_id: int = 0
    bos_token_id: int = 1

    @property
    def eos_token_id(self) -> int:
        """The token id that ends a caption, at which a text tower reads out its row."""
        return self.vocab_size - 1


PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        dimension=64,
        layers=4,
        heads=4,
        image_size=16,
        channels=1,
        patch_size=4,
        stages=(16, 32, 64),
        vocab_size=256,
        context_length=48,
    ),
    "small": Preset(
        dimension=256,
        layers=8,
        heads=8,
        image_size=64,
        channels=3,
        patch_size=8,
        stages=(32, 64, 128, 256),
        vocab_size=4096,
        context_length=64,
    ),
}
