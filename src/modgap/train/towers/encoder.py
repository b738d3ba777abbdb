"""A pretrained network on disk, before it is built."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from modgap._claims import parse_json
from modgap._validate import InputValueError, MissingExtraError
from modgap.train.towers.config import TowerConfig
from modgap.train.towers.foreign import check_config

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
PREPROCESSOR = "preprocessor_config.json"
EXTRA = "pretrained"

# Fields of a transformers config that describe its files, not the network.
_NOT_ARCHITECTURE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype")


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
