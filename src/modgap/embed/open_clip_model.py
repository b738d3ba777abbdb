"""``open_clip:NAME/WEIGHTS``: models of open_clip, which needs torchvision."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from modgap.core.checks import InputValueError, did_you_mean, first_line, require
from modgap.embed.model import Options, Role
from modgap.embed.torch_model import PoolingRule, TorchModel, temperature_and_bias
from modgap.train.towers.build import seeded
from modgap.train.towers.foreign import never_asked

EXTRA = "open-clip"
# What open_clip calls where it reads a row, as pooling calls it.
_POOLING: dict[str, PoolingRule] = {
    "tok": "first", "first": "first", "last": "last", "argmax": "end", "eos": "end", "avg": "mean",
}  # fmt: skip


def open_by_name(name: str, options: Options) -> OpenClipModel:
    """A model of open_clip by its name and weights, as in ``ViT-B-32/laion2b_s34b_b79k``.

    ``ViT-B-32//home/me/weights.pt`` takes a file. A random network needs none: ``ViT-B-32``.
    What open_clip itself names ``hf-hub:OWNER/NAME`` and ``local-dir:FOLDER`` will do too.
    """
    library = require("open_clip", EXTRA, "A model of open_clip")
    has_schema = name.startswith(("hf-hub:", "local-dir:"))
    architecture, _, weights = (name, "", "") if has_schema else name.partition("/")
    if not has_schema:
        _check_known(library, architecture, weights, options.random)
    try:
        with never_asked():
            network, process = _open(library, architecture, weights, options.random)
            tokenize = library.get_tokenizer(architecture)
    except (OSError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
        raise InputValueError(
            f"open_clip:{name} cannot be opened: {first_line(error)}. Without a connection, name "
            f"a file of weights: open_clip:{architecture}//path/to/weights.pt"
        ) from error
    if not options.input_normalisation:
        kept = [step for step in process.transforms if type(step).__name__ != "Normalize"]
        process = type(process)(kept)
    return OpenClipModel(f"open_clip:{name}", network, process, tokenize, options)


class OpenClipModel(TorchModel):
    """A model of open_clip with its own transform of images and its own tokenizer."""

    def __init__(
        self, name: str, network: Any, process: Any, tokenize: Any, options: Options
    ) -> None:
        super().__init__(network, options)
        self.name, self._process, self._tokenize = options.name(name), process, tokenize
        self._tokenizing = threading.Lock()
        self.temperature, self.logit_bias = temperature_and_bias(network)
        size = getattr(getattr(network, "visual", None), "image_size", None)
        self.image_side = max(size) if isinstance(size, (tuple, list)) else size
        self.dim = self.find_dim()

    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> dict[str, Tensor]:
        """Pixels by the model's transform, or token ids by its tokenizer."""
        if modality == "image":
            return {"pixels": torch.stack([self._process(image) for image in items])}
        with self._tokenizing:
            return {"input_ids": self._tokenize(list(items))}

    def features(self, network: Any, inputs: Any, modality: str) -> Tensor:
        """Rows of the image tower or of the text tower, raw."""
        if modality == "image":
            return network.encode_image(inputs["pixels"])
        return network.encode_text(inputs["input_ids"])

    def pooling(self, modality: str) -> PoolingRule:
        """As the towers say."""
        network = self.networks[0]
        if modality == "image":
            found = getattr(network.visual, "pool_type", "avg")
        else:
            tower = getattr(network, "text", network)
            found = getattr(tower, "pool_type", getattr(network, "text_pool_type", "argmax"))
        return _POOLING.get(found, "mean")


def _open(library: Any, architecture: str, weights: str, random: int | None) -> tuple[Any, Any]:
    """The network, and what goes before it."""
    if random is None:
        network, process = library.create_model_from_pretrained(
            architecture, pretrained=weights or None
        )
        return network, process
    with seeded(random):
        network, _, process = library.create_model_and_transforms(
            architecture, pretrained=None, load_weights=False
        )
    return network, process


def _check_known(library: Any, architecture: str, weights: str, random: int | None) -> None:
    """Refuse unknown names in a sentence that knows near ones."""
    known = library.list_models()
    if architecture not in known:
        raise InputValueError(
            f"open_clip knows no model {architecture!r}.{did_you_mean(architecture, known)} "
            "open_clip.list_models() names all of them."
        )
    tags = library.list_pretrained_tags_by_model(architecture)
    if random is not None or weights in tags:
        return
    if not weights:
        raise InputValueError(
            f"open_clip:{architecture} must say which weights, as open_clip:{architecture}/"
            f"{tags[0] if tags else '/path/to/weights.pt'}, or random."
        )
    place = Path(weights).expanduser()
    if not place.is_file():
        beside = place.parent.iterdir() if "/" in weights and place.parent.is_dir() else ()
        near = did_you_mean(weights, tags) or did_you_mean(place.name, [f.name for f in beside])
        raise InputValueError(
            f"open_clip has no weights {weights!r} of {architecture}, and there is no such file."
            f"{near} It has {', '.join(tags) or 'none'}."
        )
