"""What every model can do: prepare items on the processor, then turn them into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from modgap._arrays import unit
from modgap._results import spoken
from modgap._validate import InputValueError, check_choice, check_count, check_values, did_you_mean

# Some models take texts that are asked in another way than texts that are found.
Role = Literal["document", "query"]
BATCH = 64


class Model(ABC):
    """A model whose modalities share one space.

    Work is in two steps, so that one batch is prepared while the network has another: ``prepare``
    runs on the processor, may be called from several threads, and gives whatever ``rows`` takes.

    Attributes
    ----------
    name : str
        What `open_model` opens it by, or what it is called.
    dim : int
        Columns of a row.
    modalities : tuple of str
        What it embeds: "image", "audio", "text".
    temperature : float or None
        By which it was trained to divide cosines; None where it says nothing.
    image_side : int or None
        The larger side of the images that its network takes.
    sampling_rate : int or None
        Samples a second of the sounds that it takes.
    on_processor : bool
        Whether its network takes all processors, so that nothing else is done meanwhile.
    """

    name: str
    dim: int
    modalities: tuple[str, ...] = ("image", "text")
    temperature: float | None = None
    image_side: int | None = None
    sampling_rate: int | None = None
    on_processor: bool = False

    @abstractmethod
    def prepare(self, items: Sequence[Any], modality: str, role: Role = "document") -> Any:
        """A batch for ``rows``, of Pillow's images in RGB, of texts, or of sounds.

        A sound is float32 (samples,), from −1 to 1, at ``sampling_rate``.
        """

    @abstractmethod
    def rows(self, prepared: Any, modality: str) -> np.ndarray:
        """The rows of a prepared batch as the network gives them: float32 (n, dim), any length."""

    def encode_images(
        self, images: Sequence[Any], *, normalise: bool = False, batch_size: int = BATCH
    ) -> np.ndarray:
        """Rows (n, dim) of Pillow's images; at unit length on request."""
        rgb = [image if image.mode == "RGB" else image.convert("RGB") for image in images]
        return self._encode(rgb, "image", "document", normalise, batch_size)

    def encode_texts(
        self,
        texts: Sequence[str],
        *,
        role: Role = "document",
        normalise: bool = False,
        batch_size: int = BATCH,
    ) -> np.ndarray:
        """Rows (n, dim) of texts; ``role`` is for models that prompt queries in their own way."""
        if isinstance(texts, str):
            raise InputValueError("texts must be a list of texts, got one text. Write [text].")
        return self._encode(texts, "text", role, normalise, batch_size)

    def encode_sounds(
        self, sounds: Sequence[np.ndarray], *, normalise: bool = False, batch_size: int = BATCH
    ) -> np.ndarray:
        """Rows (n, dim) of sounds: float32 (samples,) at ``sampling_rate``, from −1 to 1."""
        return self._encode(sounds, "audio", "document", normalise, batch_size)

    def layers(self, modality: str) -> tuple[str, ...]:
        """Names of the blocks that a modality goes through, first to last."""
        raise InputValueError(f"{self.name} has no hidden layers that can be read.")

    def encode_layers(
        self,
        items: Sequence[Any],
        modality: str,
        layers: Sequence[str] | None = None,
        *,
        role: Role = "document",
        batch_size: int = BATCH,
    ) -> dict[str, np.ndarray]:
        """Rows (n, width) at hidden layers by their names, all of ``layers(modality)`` by default.

        Each is pooled over tokens or pixels as the tower pools its last one, before what the
        tower does after that.
        """
        raise InputValueError(f"{self.name} has no hidden layers that can be read.")

    def check_modality(self, modality: str) -> str:
        """A modality that this model embeds."""
        if modality not in self.modalities:
            near = did_you_mean(modality, self.modalities)
            raise InputValueError(
                f"{self.name} embeds {spoken(self.modalities)}, not {modality}.{near}"
            )
        return modality

    def _encode(
        self, items: Sequence[Any], modality: str, role: Role, normalise: bool, batch_size: int
    ) -> np.ndarray:
        self.check_modality(modality)
        check_choice(role, "role", get_args(Role))
        size = check_count(batch_size, "batch_size")
        found = np.empty((len(items), self.dim), np.float32)
        for start in range(0, len(items), size):
            prepared = self.prepare(items[start : start + size], modality, role)
            found[start : start + size] = self.checked_rows(prepared, modality, start)
        return unit(found) if normalise and len(found) else found

    def checked_rows(self, prepared: Any, modality: str, first_row: int = 0) -> np.ndarray:
        """``rows``, refused where they are not finite or not of ``dim`` columns."""
        rows = np.asarray(self.rows(prepared, modality), dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InputValueError(
                f"{self.name} must give {modality} rows of {self.dim} columns, got shape "
                f"{rows.shape}."
            )
        check_values(rows, f"{modality} of {self.name}", first_row=first_row)
        return rows
