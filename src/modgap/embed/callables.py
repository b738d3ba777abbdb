"""Two functions of one's own as a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import InputValueError
from modgap.embed.model import Model, Role

Encode = Callable[[Sequence[Any]], Any]


class CallableModel(Model):
    """A model made of functions, each from a list of items to a matrix of rows.

    Parameters
    ----------
    images, texts, sounds : callable, optional
        Take Pillow's images in RGB, texts, or sounds; at least two of them. The dimension is that
        of what ``texts`` gives for one text, so that is called once.
    name : str
        What to call the model.
    temperature : float, optional
        By which it was trained to divide cosines.
    image_side, sampling_rate : int, optional
        See `Model`.

    >>> model = CallableModel(
    ...     images=lambda images: np.array([image.size for image in images], float),
    ...     texts=lambda texts: np.array([[len(t), t.count(" ")] for t in texts], float),
    ... )
    >>> model.dim, model.encode_texts(["a dog runs"])
    (2, array([[10.,  2.]], dtype=float32))
    """

    def __init__(
        self,
        images: Encode | None = None,
        texts: Encode | None = None,
        sounds: Encode | None = None,
        *,
        name: str = "functions",
        temperature: float | None = None,
        image_side: int | None = None,
        sampling_rate: int | None = None,
    ) -> None:
        given = {"image": images, "audio": sounds, "text": texts}
        self._encode_by = {modality: found for modality, found in given.items() if found}
        if texts is None or len(self._encode_by) < 2:
            raise InputValueError("A model needs texts and one of images and sounds, as functions.")
        self.name, self.temperature = name, temperature
        self.image_side, self.sampling_rate = image_side, sampling_rate
        self.modalities = tuple(self._encode_by)
        shape = to_numpy(texts(["one"])).shape
        if len(shape) != 2 or shape[0] != 1:
            raise InputValueError(f"texts must give a row for a text, got shape {shape} for one.")
        self.dim = int(shape[1])

    def prepare(self, items: Sequence[Any], modality: str, role: Role = "document") -> Any:
        """The items as they are."""
        return list(items)

    def rows(self, prepared: Any, modality: str) -> np.ndarray:
        """What the function gives for them."""
        return to_numpy(self._encode_by[modality](prepared))
