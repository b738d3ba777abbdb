"""``run:FOLDER``: a model that ``modgap train`` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modgap.core.checks import InputValueError
from modgap.core.limits import read_json
from modgap.embed.model import Options, Role
from modgap.embed.opening import near_folder, reading_model
from modgap.embed.torch_model import PoolingRule, TorchModel
from modgap.io.images import square_pixels
from modgap.train.towers.build import TwoTower, seeded
from modgap.train.towers.encoders import TOKENIZER, WEIGHTS
from modgap.train.towers.normalisation import pixel_scale
from modgap.train.towers.tokenizer import Tokenizer

CONFIG, RESULT = "config.json", "result.json"
# How each kind of tower makes one row; the others have no tokens.
_POOLING: dict[str, PoolingRule] = {"vit": "first", "transformer": "end", "vision": "mean"}


def open_by_name(name: str, options: Options) -> RunModel:
    """The model of a run's folder, with the tokenizer, the pixels and the temperature of the run.

    The folder has model.safetensors and tokenizer.json. Random weights are random in towers that
    started from pretrained ones, too.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputValueError(f"There is no folder {name}.{near_folder(folder)}")
    for file in (WEIGHTS, TOKENIZER):
        if not (folder / file).is_file():
            raise InputValueError(
                f"{name} has no {file}, which a finished run of modgap train leaves. Finish it "
                "with modgap train --resume -o, or name another folder."
            )
    with reading_model("run", str(folder), "modgap"):
        network = TwoTower.load(folder / WEIGHTS)
        if options.random is not None:
            with seeded(options.random):
                network = TwoTower(network.config)
        return RunModel(f"run:{name}", network, folder, options)


class RunModel(TorchModel):
    """Two towers of modgap, given the pixels and tokens that evaluation in training gave them."""

    def __init__(self, name: str, network: TwoTower, folder: Path, options: Options) -> None:
        super().__init__(network, options)
        config = network.config
        self.name = options.name(name)
        self.dim, self.image_side = config.dimension, config.image.image_size
        record = _settings(folder / RESULT) if (folder / RESULT).is_file() else {}
        temperature = record.get("temperature")  # at the end of the run
        self.temperature = None if temperature is None else float(temperature)
        self.tokenizer = Tokenizer.load(folder)
        normalise = options.input_normalisation
        self.factor, self.shift = _pixel_scale(folder, config.image.channels, normalise)
        self._config, self.end_token = config, config.text.eos_token_id

    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> dict[str, Tensor]:
        """Squares of pixels, or token ids."""
        if modality == "text":
            length = self._config.text.context_length
            ids = self.tokenizer(list(items), length)
            return {"input_ids": ids, "attention_mask": ids != self.tokenizer.pad_token_id}
        if self._config.image.channels == 1:
            items = [image.convert("L") for image in items]
        size = self._config.image.image_size
        pixels = torch.stack([torch.tensor(square_pixels(image, size)) for image in items])
        return {"pixels": pixels.float() * self.factor + self.shift}

    def features(self, network: Any, inputs: Any, modality: str) -> Tensor:
        """Rows of the image tower or of the text tower."""
        if modality == "image":
            return network.encode_image(inputs["pixels"])
        return network.encode_text(inputs["input_ids"])

    def pooling(self, modality: str) -> PoolingRule:
        """As the kind of tower pools."""
        return _POOLING.get(getattr(self._config, modality).kind, "mean")


def _pixel_scale(folder: Path, channels: int, normalise: bool) -> tuple[Tensor, Tensor]:
    """Factor and shift of bytes; the digits' ink has neither mean nor deviation taken off."""
    config = _settings(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    on_digits = config.get("data", {}).get("path") == "digits"
    if normalise and not on_digits and channels == 3:
        return pixel_scale()
    return torch.tensor(1 / 255), torch.tensor(0.0)


def _settings(path: Path) -> dict[str, Any]:
    """The settings in a JSON file."""
    found = read_json(path, "settings")
    if not isinstance(found, dict):
        raise InputValueError(f"{path} must hold settings, got {type(found).__name__}.")
    return found
