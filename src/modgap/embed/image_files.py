"""Image files that a user names, as rows of a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.embed.model import Model
from modgap.io.images import ImageError, ImageFolder, unpack_image


def image_rows(model: Model, files: Sequence[Path]) -> np.ndarray:
    """The rows of image files, which may be links; one that cannot be read is refused."""
    require("PIL.Image", "embed", "Embedding images")
    model.check_modality("image")
    images = []
    for file in files:
        place = file.resolve()
        try:
            images.append(unpack_image(ImageFolder(place.parent).read(place.name)))
        except ImageError as error:
            raise InputValueError(f"{file} cannot be used as an image: {error}.") from error
    return model.encode_images(images)
