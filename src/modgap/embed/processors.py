"""The image processor, tokenizer and feature extractor of a model of the hub."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from modgap.train.towers.foreign import NO_CODE

# SigLIP was trained on texts that are padded to the full length.
_PADDED = ("siglip", "siglip2")


class Processors:
    """The processors of a model on the hub or in a folder, as transformers reads them.

    Parameters
    ----------
    transformers : module
        The library.
    name : str
        A model of the hub, or a folder.
    config : PretrainedConfig
        Its configuration.
    modalities : sequence of str
        What to read processors for.
    tensors : {"pt", "np"}
        What to return: torch's tensors or arrays.
    normalise : bool
        False leaves pixels in [0, 1] as they are.
    """

    def __init__(
        self,
        transformers: Any,
        name: str,
        config: Any,
        modalities: Sequence[str],
        tensors: Literal["pt", "np"] = "pt",
        normalise: bool = True,
    ) -> None:
        self.tensors = tensors
        self.sampling_rate: int | None = None
        self.image_side: int | None = None
        if "image" in modalities:
            # Those that use Pillow alone, as the papers' did: the others need torchvision.
            is_new = int(transformers.__version__.split(".")[0]) >= 5
            pillow = {"backend": "pil"} if is_new else {"use_fast": False}
            self.images = transformers.AutoImageProcessor.from_pretrained(name, **pillow, **NO_CODE)
            if not normalise:
                self.images.do_normalize = False
            self.image_side = image_side(self.images, config)
        if "audio" in modalities:
            self.sounds = transformers.AutoFeatureExtractor.from_pretrained(name, **NO_CODE)
            self.sampling_rate = int(self.sounds.sampling_rate)
        if "text" in modalities:
            self.texts = transformers.AutoTokenizer.from_pretrained(name, **NO_CODE)
            self.padding = "max_length" if config.model_type in _PADDED else True
            self.max_tokens = max_tokens(self.texts, config)
        # A tokenizer of transformers sets how it pads in each call, and may not be shared in one.
        self._tokenizing = threading.Lock()

    def __call__(self, items: Sequence[Any], modality: str) -> dict[str, Any]:
        """What the network takes, by name."""
        found: Mapping[str, Any]
        if modality == "text":
            with self._tokenizing:
                found = self.texts(
                    list(items),
                    padding=self.padding,
                    truncation=True,
                    max_length=self.max_tokens,
                    return_tensors=self.tensors,
                )
        elif modality == "audio":
            found = self._sounds(items)
        else:
            found = self.images(images=list(items), return_tensors=self.tensors)
        return dict(found)

    def _sounds(self, items: Sequence[np.ndarray]) -> dict[str, Any]:
        """Sounds longer than the network takes are cut to their beginning.

        CLAP's own extractor cuts a random part out of them, and of a batch of short ones calls one
        long at random: the same sound would have other rows in the next run.
        """
        most = getattr(self.sounds, "nb_max_samples", None)
        cut = [np.asarray(sound, np.float32)[:most] for sound in items]
        found = dict(
            self.sounds(cut, sampling_rate=self.sampling_rate, return_tensors=self.tensors)
        )
        if "is_longer" in found:
            found["is_longer"] = found["is_longer"] & False
        return found


def max_tokens(tokenizer: Any, config: Any) -> int:
    """Tokens of the longest text: what tokenizer and network both take."""
    of_network = getattr(
        getattr(config, "text_config", config),
        "max_position_embeddings",
        tokenizer.model_max_length,
    )
    return int(min(tokenizer.model_max_length, of_network))


def image_side(processor: Any, config: Any) -> int | None:
    """The larger side that images are scaled to; None where it is unknown."""
    sides = [getattr(getattr(config, "vision_config", config), "image_size", None)]
    for name in ("size", "crop_size"):
        size = getattr(processor, name, None)
        known_size = size if isinstance(size, Mapping) else getattr(size, "__dict__", {"": size})
        sides += known_size.values()
    known = [int(side) for side in sides if isinstance(side, (int, float)) and side > 0]
    if known:
        return max(known)
    patches = getattr(processor, "max_num_patches", None)  # SigLIP 2 keeps proportions
    return None if patches is None else int(processor.patch_size * patches**0.5)
