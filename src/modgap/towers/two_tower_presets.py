"""How large two-tower models are: configurations by name, and their changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from modgap._validate import InputTypeError, InputValueError, check_choice, check_count
from modgap.io._contents import nearest

ImageKind = Literal["vit", "resnet", "mlp"]
TextKind = Literal["transformer", "words"]
Block = Literal["basic", "bottleneck"]


@dataclass(frozen=True)
class TwoTowerConfig:
    """Sizes of an image tower and a text tower that end in rows of one ``dimension``.

    ``image`` is CLIP's vision transformer (``image_width``, ``image_layers``, ``image_heads``,
    ``patch_size``), a residual network (``stages``, ``depths``, ``block``) or a perceptron
    (``image_width``, ``image_layers``). ``text`` is CLIP's text transformer (``text_width``,
    ``text_layers``, ``text_heads``) or a perceptron (``text_width``, ``text_layers``) on the mean
    of word vectors (``word_width``). ``context_length`` is the most tokens a caption may have, and
    ``dropout`` that of perceptrons and of attention.
    """

    name: str
    image: ImageKind
    text: TextKind
    dimension: int
    image_size: int
    context_length: int
    text_width: int
    text_layers: int
    text_heads: int = 1
    word_width: int = 1
    channels: int = 3
    image_width: int = 1
    image_layers: int = 1
    image_heads: int = 1
    patch_size: int = 1
    stages: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    block: Block = "basic"
    dropout: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON carries them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}


PRESETS: dict[str, TwoTowerConfig] = {
    config.name: config
    for config in (
        # For tests: a step takes milliseconds on one core.
        TwoTowerConfig(
            name="clip-tiny",
            image="vit",
            text="transformer",
            dimension=32,
            image_size=32,
            context_length=32,
            text_width=32,
            text_layers=2,
            text_heads=2,
            image_width=32,
            image_layers=2,
            image_heads=2,
            patch_size=8,
        ),
        TwoTowerConfig(
            name="resnet-tiny",
            image="resnet",
            text="transformer",
            dimension=32,
            image_size=32,
            context_length=32,
            text_width=32,
            text_layers=2,
            text_heads=2,
            stages=(16, 32),
            depths=(1, 1),
        ),
        TwoTowerConfig(
            name="clip-small",
            image="vit",
            text="transformer",
            dimension=256,
            image_size=112,
            context_length=32,
            text_width=256,
            text_layers=6,
            text_heads=4,
            image_width=256,
            image_layers=8,
            image_heads=4,
            patch_size=16,
        ),
        # He et al. 2015, table 1. At 96 to 112 pixels the last stage sees 3 × 3 or 4 × 4 places.
        TwoTowerConfig(
            name="resnet18",
            image="resnet",
            text="transformer",
            dimension=512,
            image_size=96,
            context_length=32,
            text_width=256,
            text_layers=4,
            text_heads=4,
            stages=(64, 128, 256, 512),
            depths=(2, 2, 2, 2),
        ),
        # Sizes of open_clip's RN50, which Yaras et al. train. Theirs has a stem of three
        # convolutions, attention pooling and 1,024 dimensions; this is the network of He et al.
        TwoTowerConfig(
            name="resnet50",
            image="resnet",
            text="transformer",
            dimension=512,
            image_size=224,
            context_length=77,
            text_width=512,
            text_layers=12,
            text_heads=8,
            stages=(256, 512, 1024, 2048),
            depths=(3, 4, 6, 3),
            block="bottleneck",
        ),
        # The towers that embedded the digits which ship with modgap.
        TwoTowerConfig(
            name="digits",
            image="mlp",
            text="words",
            dimension=64,
            image_size=8,
            channels=1,
            context_length=32,
            text_width=256,
            text_layers=3,
            word_width=128,
            image_width=256,
            image_layers=3,
            dropout=0.1,
        ),
    )
}


def find_config(name_or_config: str | Mapping[str, Any] | TwoTowerConfig) -> TwoTowerConfig:
    """A preset by name, or one with changes: {"name": "resnet18", "dimension": 256}.

    >>> find_config({"name": "resnet18", "dimension": 256}).dimension
    256
    """
    if isinstance(name_or_config, TwoTowerConfig):
        return _checked(name_or_config)
    changes: dict[str, Any]
    changes = {"name": name_or_config} if isinstance(name_or_config, str) else {**name_or_config}
    if "name" not in changes:
        raise InputValueError(
            f"A configuration of two towers must say which it changes: name, one of "
            f"{', '.join(map(repr, PRESETS))}."
        )
    preset = PRESETS[check_choice(changes["name"], "name", tuple(PRESETS))]
    known = [field.name for field in dataclasses.fields(TwoTowerConfig)]
    for key in changes:
        if key not in known:
            raise InputValueError(
                f"{key!r} is no setting of two towers.{nearest(key, known)} "
                f"They have {', '.join(known)}."
            )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
    return _checked(dataclasses.replace(preset, **values))


def _checked(config: TwoTowerConfig) -> TwoTowerConfig:
    """The configuration, or why no model can be made from it."""
    check_choice(config.image, "image", get_args(ImageKind))
    check_choice(config.text, "text", get_args(TextKind))
    check_choice(config.block, "block", get_args(Block))
    for field in dataclasses.fields(config):
        if field.type == "int":
            check_count(getattr(config, field.name), field.name)
    for name in ("stages", "depths"):
        sizes = getattr(config, name)
        if not isinstance(sizes, tuple):
            raise InputTypeError(f"{name} must be a list of whole numbers, got {sizes!r}.")
        for size in sizes:
            check_count(size, name)
    if config.image == "resnet" and not len(config.stages) == len(config.depths) > 0:
        raise InputValueError(
            f"stages and depths must have one number per stage, got {config.stages} and "
            f"{config.depths}."
        )
    if config.image == "vit":
        _divides("patch_size", config.patch_size, "image_size", config.image_size)
        _divides("image_heads", config.image_heads, "image_width", config.image_width)
    if config.text == "transformer":
        _divides("text_heads", config.text_heads, "text_width", config.text_width)
    if not 0 <= config.dropout < 1:
        raise InputValueError(f"dropout must be a share from 0 to below 1, got {config.dropout}.")
    return config


def _divides(small: str, divisor: int, large: str, number: int) -> None:
    if number % divisor:
        raise InputValueError(f"{small} must divide {large}, got {divisor} and {number}.")
