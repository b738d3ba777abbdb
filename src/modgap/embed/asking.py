"""Words and image files as queries: embedded as the model wants queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modgap._validate import InputValueError
from modgap.embed.model import Model
from modgap.io.images import ImageError, ImageFolder, unpack_image


def text_queries(model: Model, texts: Sequence[str]) -> np.ndarray:
    """The rows of texts that ask."""
    return model.encode_texts(texts, role="query")


def image_queries(model: Model, files: Sequence[Path]) -> np.ndarray:
    """The rows of image files that ask; one that cannot be read is refused."""
    images = []
    for file in files:
        try:
            images.append(unpack_image(ImageFolder(file.parent).read(file.name)))
        except ImageError as error:
            raise InputValueError(f"{file} cannot be searched with: {error}.") from error
    return model.encode_images(images)
