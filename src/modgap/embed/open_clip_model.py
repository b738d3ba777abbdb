"""``open_clip:NAME/WEIGHTS``: models of open_clip, which needs torchvision."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from modgap._validate import InputValueError, did_you_mean, first_line, require
from modgap.embed.model import Role
from modgap.embed.opening import Precision
from modgap.embed.pooling import PoolingRule
from modgap.embed.torch_model import TorchModel
from modgap.embed.transformers_model import logits_of
from modgap.embed.variants import variant_name
from modgap.train.towers.build import seeded
from modgap.train.towers.foreign import never_asked

EXTRA = "open-clip"
# What open_clip calls where it reads a row, as pooling calls it.
_POOLING: dict[str, PoolingRule] = {
    "tok": "first", "first": "first", "last": "last", "argmax": "end", "eos": "end", "avg": "mean",
}  # fmt: skip


def open_model(
    name: str,
    *,
    device: str | None = None,
    precision: Precision = "auto",
    random: int | None = None,
    norm_layers: bool = True,
    input_normalisation: bool = True,
) -> OpenClipModel:
    """A model of open_clip by its name and weights.

    Parameters
    ----------
    name : str
        As in ``ViT-B-32/laion2b_s34b_b79k``; ``ViT-B-32//home/me/weights.pt`` takes a file. What
        open_clip itself names ``hf-hub:OWNER/NAME`` and ``local-dir:FOLDER`` will do too.
    device, precision, random
        See `modgap.embed.open_model`. With ``random`` the weights may be left out: ``ViT-B-32``.
    norm_layers : bool
        False makes every normalisation layer the identity.
    input_normalisation : bool
        False leaves pixels in [0, 1] as they are.
    """
    library = require("open_clip", EXTRA, "A model of open_clip")
    has_schema = name.startswith(("hf-hub:", "local-dir:"))
    architecture, _, weights = (name, "", "") if has_schema else name.partition("/")
    if not has_schema:
        _check_known(library, architecture, weights, random)
    try:
        with never_asked():
            network, process = _open(library, architecture, weights, random)
            tokenize = library.get_tokenizer(architecture)
    except (OSError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
        raise InputValueError(
            f"open_clip:{name} cannot be opened: {first_line(error)}. Without a connection, name "
            f"a file of weights: open_clip:{architecture}//path/to/weights.pt"
        ) from error
    if not input_normalisation:
        process = _without_normalize(process)
    return OpenClipModel(
        variant_name(f"open_clip:{name}", random, norm_layers, input_normalisation),
        network,
        process,
        tokenize,
        device=device,
        precision=precision,
        norm_layers=norm_layers,
    )


class OpenClipModel(TorchModel):
    """A model of open_clip with its own transform of images and its own tokenizer."""

    def __init__(
        self, name: str, network: Any, process: Any, tokenize: Any, **options: Any
    ) -> None:
        super().__init__(network, **options)
        self.name, self._process, self._tokenize = name, process, tokenize
        self._tokenizing = threading.Lock()
        self.temperature, self.logit_bias = logits_of(network)
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


def _without_normalize(process: Any) -> Any:
    """The transform of images without its last step, mean and standard deviation."""
    kept = [step for step in process.transforms if type(step).__name__ != "Normalize"]
    return type(process)(kept)
