"""What every model can do: prepare items on the processor, then turn them into rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import (
    InputError,
    InputValueError,
    check_choice,
    check_count,
    check_values,
    did_you_mean,
)
from modgap.core.results import Progress, silent, spoken
from modgap.corrections import Role
from modgap.io import Items
from modgap.io.images import MAX_PIXELS

Precision = Literal["auto", "float32", "bfloat16", "float16"]
BATCH = 64


@dataclass(frozen=True)
class Options:
    """How a model is opened; see `modgap.embed.open_model`."""

    device: str | None = None
    precision: Precision = "auto"
    random: int | None = None
    norm_layers: bool = True
    input_normalisation: bool = True

    def name(self, name: str) -> str:
        """The model's name, with how it differs from the one that the name alone opens.

        >>> Options(random=3, norm_layers=False).name("hf:openai/clip-vit-base-patch32")
        'hf:openai/clip-vit-base-patch32 (random weights, seed 3; no norm layers)'
        """
        changes = [] if self.random is None else [f"random weights, seed {self.random}"]
        changes += [] if self.norm_layers else ["no norm layers"]
        changes += [] if self.input_normalisation else ["no input normalisation"]
        return f"{name} ({'; '.join(changes)})" if changes else name


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
        By which it was trained to divide cosines; None where that is unknown.
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

    def encode_items(
        self,
        items: Items,
        *,
        batch_size: int = BATCH,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> tuple[np.ndarray, list[int], dict[str, str]]:
        """Rows (n, dim), the items that they are of, and by name why the others have none.

        Parameters
        ----------
        items : Items
            Images or sounds, or texts, of which those without a word have no row.
        batch_size : int
            Items that the network takes at once.
        workers : int, optional
            Threads that read and prepare, by default one for each processor.
        progress : callable, optional
            Called as ``progress(step, done, total)``.
        """
        from modgap.embed.item_batches import embed_items

        self.check_modality(items.kind)
        say = progress or silent
        is_text = items.kind == "text"
        which = [row for row in range(len(items)) if not is_text or items.captions(row)]
        rows, kept, skipped = embed_items(
            self,
            items,
            which,
            batch_size=check_count(batch_size, "batch_size"),
            workers=workers,
            count=lambda done: say(f"embedding {items.kind}", done, len(which)),
        )
        if skipped and not kept:
            name, reason = next(iter(skipped.items()))
            raise InputValueError(
                f"None of the {len(items)} items of {items.source} can be read; {name}: {reason}."
            )
        return rows, kept, skipped

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
        names = self.layers(modality) if layers is None else tuple(layers)
        self.check_modality(modality)
        size = check_count(batch_size, "batch_size")
        found: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for start in range(0, len(items), size):
            batch = list(items[start : start + size])
            for name, rows in self.layer_rows(names, batch, modality, role).items():
                found[name].append(rows)
        return {name: np.concatenate(rows) for name, rows in found.items()}

    def layer_rows(
        self, names: Sequence[str], items: Sequence[Any], modality: str, role: Role
    ) -> dict[str, np.ndarray]:
        """Rows of one batch at hidden layers, for networks whose layers can be read."""
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
