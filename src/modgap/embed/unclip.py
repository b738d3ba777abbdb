"""Pictures of rows: decoded by an unCLIP pipeline of diffusers.

A decoder belongs to the model whose image rows it was trained on, and takes them raw: Karlo and
stable-diffusion-2-1-unclip-small those of CLIP ViT-L/14 (768 columns), stable-diffusion-2-1-unclip
those of OpenCLIP ViT-H/14 (1,024).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, first_line, require
from modgap.core.results import Progress, silent
from modgap.train.towers.foreign import never_asked

# The pipelines that take rows in place of an image, and what they call them.
PIPELINES = {
    "UnCLIPImageVariationPipeline": "image_embeddings",
    "StableUnCLIPImg2ImgPipeline": "image_embeds",
}
KARLO = "kakaobrain/karlo-v1-alpha-image-variations"


class UnCLIP:
    """Turns image rows into pictures.

    Parameters
    ----------
    name : str
        A model of the hub or a folder: ``kakaobrain/karlo-v1-alpha-image-variations``,
        ``stabilityai/stable-diffusion-2-1-unclip`` or its ``-small``.
    device : str, optional
        By default the first GPU, else the processor.
    """

    def __init__(self, name: str = KARLO, *, device: str | None = None) -> None:
        diffusers = require("diffusers", "unclip", "Decoding rows into pictures")
        torch = require("torch", "unclip", "Decoding rows into pictures")
        self.name = name
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = torch.float16 if self.device.startswith("cuda") else torch.float32
        try:
            with never_asked():
                pipeline = diffusers.DiffusionPipeline.from_pretrained(name, torch_dtype=dtype)
        except (OSError, ValueError) as error:
            raise InputValueError(
                f"The decoder {name!r} cannot be opened ({first_line(error)}). Download it with: "
                f"hf download {name}"
            ) from error
        kind = type(pipeline).__name__
        if kind not in PIPELINES:
            raise InputValueError(
                f"{name} is a {kind}, which takes no image rows. Use a decoder that is a "
                f"{' or a '.join(PIPELINES)}, such as {KARLO}."
            )
        self._takes, self._dtype, self._torch = PIPELINES[kind], dtype, torch
        self._pipeline = pipeline.to(self.device)
        self._pipeline.set_progress_bar_config(disable=True)
        self.dim = int(pipeline.image_encoder.config.projection_dim)

    def decode(
        self, rows: np.ndarray, *, seed: int = 0, progress: Progress | None = None
    ) -> Iterator[Any]:
        """A picture of Pillow for each row (n, d), all from the same noise.

        With the same noise, pictures differ only by what their rows differ by.
        """
        rows = np.asarray(rows)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InputValueError(
                f"{self.name} decodes rows of {self.dim} columns, got shape {rows.shape}. Embed "
                "with the model that it was trained on."
            )
        say = progress or silent
        for done, row in enumerate(rows):
            say("decoding", done, len(rows))
            given = self._torch.as_tensor(row[None].astype(np.float32))
            found = self._pipeline(
                **{self._takes: given.to(self.device, self._dtype)},
                generator=self._torch.Generator(self.device).manual_seed(seed),
            )
            yield found.images[0]
        say("decoding", len(rows), len(rows))
