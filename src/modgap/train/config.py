"""What a run is made of: frozen sections read from TOML, with presets and overrides.

A preset is a TOML file in `presets/`. `extends` names a preset whose values hold where the file
says nothing; `description`, `command`, `time` and `expected` tell readers what to expect.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modgap._validate import InputTypeError, InputValueError, check_choice

PRESETS = Path(__file__).with_name("presets")
ABOUT = ("extends", "description", "command", "time", "expected")

SCHEDULES = ("cosine", "one-cycle", "constant")
PRECISIONS = ("auto", "float32", "bf16")
STARTS = ("random", "amended")
SINKS = ("auto", "tensorboard", "wandb")
MOST_SEED = 2**32 - 1  # scikit-learn, which splits the digits, takes no larger one
# What may change between a run and its resumption: nothing here moves a weight.
FREE = (
    "data.path", "data.images", "data.test_path", "data.test_images", "data.workers",
    "data.keep_on_device", "evaluate", "train.device", "train.log", "train.log_every",
    "train.checkpoint_every", "train.keep", "train.threads",
)  # fmt: skip


@dataclass(frozen=True)
class DataConfig:
    """Where images and captions come from, and how they are made into numbers.

    ``path`` is anything `open_image_captions` reads, or "digits" for the embedded scans, and
    ``images`` the folder its image names start from. Held out is its ``test_split``, or what
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
    held_out: float = 0.1
    split_seed: int = 0
    tokenizer: str = ""
    image_size: int = 96
    augment: bool = True
    crop: float = 0.9
    context_length: int = 32
    vocab_size: int = 8192
    workers: int = 0
    max_corrupt: float = 0.01
    keep_on_device: str = "auto"


@dataclass(frozen=True)
class ModelConfig:
    """The two towers; ``weights`` is a finished run or its model.safetensors to start from.

    ``start`` "amended" turns the text rows by the orthogonal matrix that brings them nearest to
    the image rows before the first step (Liang et al. 2022, sec. 4.4). ``dimension`` 0 is the
    preset's own.
    """

    name: str = "resnet18"
    dimension: int = 0
    start: str = "random"
    weights: str = ""


@dataclass(frozen=True)
class TemperatureConfig:
    """A class or preset of `temperature.py` by name; what is None is left at its default."""

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
        """What was set, besides the name."""
        values = dataclasses.asdict(self)
        return {k: v for k, v in values.items() if k != "name" and v is not None}


@dataclass(frozen=True)
class SwapConfig:
    """Exchange between the modalities' features on a share of the steps (Yaras et al. 2024, D.2).

    ``kind`` is none, hard, soft or feature.
    """

    kind: str = "none"
    probability: float = 0.01


@dataclass(frozen=True)
class LossConfig:
    """``mask_identical``: two images that share a caption are not negatives of each other."""

    normalise: bool = True
    lean: bool = False
    mask_identical: bool = False


@dataclass(frozen=True)
class TrainConfig:
    """Optimiser, schedule, and what is kept. ``steps`` above 0 takes the place of ``epochs``.

    A step sees ``batch_size`` images, over all processes, ``accumulate`` parts one after another;
    the loss is always that of the whole batch. ``warmup`` is a share of all steps. Gains and biases
    do not decay unless ``decay_all``. ``precision`` "auto" is bf16 on a GPU. ``threads`` 0 leaves
    torch's own number. JSON lines are always logged; ``log`` adds "tensorboard" and "wandb",
    "auto" TensorBoard where it is installed.
    """

    epochs: int = 80
    steps: int = 0
    batch_size: int = 1000
    accumulate: int = 1
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    decay_all: bool = False
    betas: tuple[float, ...] = (0.9, 0.98)
    epsilon: float = 1e-6
    clip_norm: float = 0.0
    schedule: str = "cosine"
    warmup: float = 0.1
    seed: int = 0
    precision: str = "auto"
    device: str = "auto"
    threads: int = 0
    log: tuple[str, ...] = ("auto",)
    log_every: int = 10
    checkpoint_every: int = 500
    keep: int = 2


@dataclass(frozen=True)
class EvaluateConfig:
    """``every`` steps the held-out split is measured; ``pairs`` random pairs give uniformity."""

    every: int = 0
    pairs: int = 512
    metric: str = "cosine"
    batch_size: int = 500
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


def load_config(source: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Config:
    """A config from a TOML file (or a run's config.json), or from a preset's name.

    ``overrides`` are settings such as ``"train.epochs=5"``; the value is written as in TOML, and
    what is not TOML is taken as text. A temperature that is named anew loses the settings of the
    one before it.

    >>> load_config("digits", ["train.epochs=5"]).train.epochs
    5
    """
    given: dict[str, dict[str, Any]] = {}
    for setting in overrides:
        section, name, value = _setting(setting)
        given.setdefault(section, {})[name] = value
    return make_config(_over(_without_about(_read(source)), given))


def make_config(sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """A config from sections of plain values; unknown names are refused with the nearest one."""
    hints = typing.get_type_hints(Config)
    made: dict[str, Any] = {}
    for section, values in sections.items():
        _check_section(section, values)
        kind = hints[section]
        types_of = typing.get_type_hints(kind)
        for name in values:
            _check_known(name, f"setting of [{section}]", types_of)
        made[section] = kind(**{k: _typed(v, types_of[k], section, k) for k, v in values.items()})
    config = Config(**made)
    _check(config)
    return config


def list_presets() -> dict[str, dict[str, str]]:
    """Every preset by name, with what its file says of itself."""
    found = {}
    for path in sorted(PRESETS.glob("*.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = {key: str(about[key]) for key in ABOUT if key in about}
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings that differ between two configs and change the run, as "train.epochs (5, now 6)"."""
    changed = []
    for section in sorted({*old, *new}):
        before, after = old.get(section, {}), new.get(section, {})
        for name in sorted({*before, *after}):
            if section in FREE or f"{section}.{name}" in FREE:
                continue
            if before.get(name) != after.get(name):
                changed.append(f"{section}.{name} ({before.get(name)}, now {after.get(name)})")
    return changed


def _read(source: str | os.PathLike[str], above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The sections of a file or preset, with those it extends; ``above`` are those extending it."""
    path = Path(source)
    preset = PRESETS / f"{source}.toml"
    if not path.is_file():
        if not preset.is_file() or os.sep in str(source):
            names = [p.stem for p in sorted(PRESETS.glob("*.toml"))]
            near = difflib.get_close_matches(str(source), names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputValueError(
                f"There is no config file {str(source)!r}, and no preset of that name "
                f"(presets: {', '.join(names)}).{hint}"
            )
        path = preset
    if path.resolve() in above:
        raise InputValueError(f"{path} extends itself; extends must name another preset.")
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InputValueError(f"{path} cannot be read as a config: {error}.") from error
    if not isinstance(values, dict):
        raise InputValueError(f"{path} must hold sections such as [train], got {values!r}.")
    for section, settings in _without_about(values).items():
        _check_section(section, settings)
    if "extends" in values:
        if not isinstance(values["extends"], str):
            raise InputTypeError(f"extends must name a preset, got {values['extends']!r}.")
        below = _read(values["extends"], (*above, path.resolve()))
        values = _over(_without_about(below), _without_about(values))
    return values


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections with those above in place of those below, setting by setting."""
    merged = dict(below)
    for section, settings in above.items():
        _check_known(section, "section", typing.get_type_hints(Config))
        anew = section == "temperature" and "name" in settings
        merged[section] = {**({} if anew else below.get(section, {})), **settings}
    return merged


def _without_about(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in ABOUT}


def _setting(setting: str) -> tuple[str, str, Any]:
    """Section, name and value of "train.epochs=5"."""
    key, equals, text = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not dot:
        raise InputValueError(
            f"A setting is written section.name=value, such as train.epochs=5, got {setting!r}."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    return section, name, value


def _check_section(section: str, settings: Any) -> None:
    _check_known(section, "section", typing.get_type_hints(Config))
    if not isinstance(settings, Mapping):
        raise InputTypeError(f"[{section}] must be a section of settings, got {settings!r}.")


def _check_known(name: str, what: str, known: Mapping[str, Any]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputValueError(f"{name!r} is no {what}; known are {', '.join(known)}.{hint}")


def _typed(value: Any, wanted: Any, section: str, name: str) -> Any:
    """The value as the type its field has; whole numbers may stand for fractions."""
    if isinstance(wanted, types.UnionType):
        if value is None:
            return None
        wanted = typing.get_args(wanted)[0]
    if typing.get_origin(wanted) is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputTypeError(f"{section}.{name} must be a list, got {value!r}.")
        return tuple(_typed(v, typing.get_args(wanted)[0], section, name) for v in value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputTypeError(f"{section}.{name} must be {words[wanted]}, got {value!r}.")
    if wanted is float and not math.isfinite(value):
        raise InputValueError(f"{section}.{name} must be a finite number, got {value}.")
    return value


def _check(config: Config) -> None:
    """Refuse values that cannot be meant, before any work is done."""
    train, data = config.train, config.data
    choices: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
        ("train.schedule", train.schedule, SCHEDULES),
        ("train.precision", train.precision, PRECISIONS),
        ("model.start", config.model.start, STARTS),
        ("data.keep_on_device", data.keep_on_device, ("auto", "yes", "no")),
        ("swap.kind", config.swap.kind, ("none", "hard", "soft", "feature")),
        ("evaluate.metric", config.evaluate.metric, ("cosine", "inner_product", "euclidean")),
        *(("train.log", sink, SINKS) for sink in train.log),
    )
    for key, value, allowed in choices:
        check_choice(value, key, allowed)
    least: tuple[tuple[str, float, float], ...] = (
        ("train.epochs", train.epochs, 0),
        ("train.steps", train.steps, 0),
        ("train.batch_size", train.batch_size, 2),
        ("train.accumulate", train.accumulate, 1),
        ("train.weight_decay", train.weight_decay, 0),
        ("train.epsilon", train.epsilon, 0),
        ("train.clip_norm", train.clip_norm, 0),
        ("train.warmup", train.warmup, 0),
        ("train.seed", train.seed, 0),
        ("train.threads", train.threads, 0),
        ("train.log_every", train.log_every, 1),
        ("train.checkpoint_every", train.checkpoint_every, 1),
        ("train.keep", train.keep, 1),
        ("data.image_size", data.image_size, 1),
        ("data.context_length", data.context_length, 1),
        ("data.workers", data.workers, 0),
        ("data.split_seed", data.split_seed, 0),
        ("data.max_corrupt", data.max_corrupt, 0),
        ("evaluate.every", config.evaluate.every, 0),
        ("evaluate.pairs", config.evaluate.pairs, 2),
        ("evaluate.batch_size", config.evaluate.batch_size, 1),
        ("model.dimension", config.model.dimension, 0),
        ("swap.probability", config.swap.probability, 0),
    )
    for key, number, bound in least:
        if not number >= bound:
            raise InputValueError(f"{key} must be at least {bound}, got {number}.")
    if not train.learning_rate > 0:
        raise InputValueError(f"train.learning_rate must be above 0, got {train.learning_rate}.")
    if len(train.betas) != 2:
        raise InputValueError(f"train.betas must be two numbers, got {list(train.betas)}.")
    for beta in train.betas:
        if not 0 <= beta < 1:
            raise InputValueError(f"train.betas must be from 0 to below 1, got {beta}.")
    for key, number in (("train.seed", train.seed), ("data.split_seed", data.split_seed)):
        if number > MOST_SEED:
            raise InputValueError(f"{key} must be at most {MOST_SEED}, got {number}.")
    for key, share in (
        ("train.warmup", train.warmup),
        ("swap.probability", config.swap.probability),
        ("data.crop", data.crop),
        ("data.max_corrupt", data.max_corrupt),
    ):
        if share > 1:
            raise InputValueError(f"{key} must be a share of at most 1, got {share}.")
    if not data.crop > 0:
        raise InputValueError(f"data.crop must be above 0, got {data.crop}.")
    if not 0 < data.held_out < 1:
        raise InputValueError(
            f"data.held_out must be a share above 0 and below 1, got {data.held_out}."
        )
    if config.loss.mask_identical and config.loss.lean:
        raise InputValueError(
            "loss.mask_identical needs the whole matrix of logits, which loss.lean never holds. "
            "Choose one."
        )
