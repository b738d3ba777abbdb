"""``hf:NAME``: CLIP, SigLIP, SigLIP 2, CLAP, ALIGN, BLIP and their like, through transformers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from modgap._results import spoken
from modgap._validate import InputValueError, require
from modgap.embed.model import Role
from modgap.embed.names import opening
from modgap.embed.opening import Precision
from modgap.embed.pooling import PoolingRule, end_token_of, pool, rule_of
from modgap.embed.processors import Processors
from modgap.embed.torch_model import TorchModel
from modgap.embed.variants import variant_name
from modgap.train.towers.build import seeded
from modgap.train.towers.encoder import quiet
from modgap.train.towers.foreign import NO_CODE, TENSORS_ONLY, check_config

EXTRA = "embed"


def open_model(
    name: str,
    *,
    device: str | None = None,
    precision: Precision = "auto",
    random: int | None = None,
    norm_layers: bool = True,
    input_normalisation: bool = True,
) -> TransformersModel:
    """A model of transformers by its name on the hub, from its cache, or from a folder.

    Parameters
    ----------
    name : str
        As in ``openai/clip-vit-base-patch32``, or a folder. The hub's own variables are honoured,
        such as HF_HOME and HF_HUB_OFFLINE.
    device, precision, random
        See `modgap.embed.open_model`. A random network needs no weights, only the configuration
        and the processors.
    norm_layers : bool
        False makes every normalisation layer the identity.
    input_normalisation : bool
        False leaves pixels in [0, 1] as they are.
    """
    transformers = require("transformers", EXTRA, "A model of transformers")
    with opening("hf", name, "transformers"), quiet(transformers):
        config = check_config(transformers.AutoConfig.from_pretrained(name, **NO_CODE), name)
        if random is None:
            network = transformers.AutoModel.from_pretrained(name, config=config, **TENSORS_ONLY)
        else:
            with seeded(random):
                network = transformers.AutoModel.from_config(config, **NO_CODE)
        modalities = _modalities(name, network)
        processors = Processors(
            transformers, name, config, modalities, input_normalisation=input_normalisation
        )
        return TransformersModel(
            variant_name(f"hf:{name}", random, norm_layers, input_normalisation),
            network,
            processors,
            modalities,
            device=device,
            precision=precision,
            norm_layers=norm_layers,
        )


class TransformersModel(TorchModel):
    """A model with ``get_text_features`` and one of ``get_image_features``, ``get_audio_features``.

    ``logit_bias`` is SigLIP's, which it adds to cosines over the temperature; None elsewhere.
    """

    logit_bias: float | None = None

    def __init__(
        self,
        name: str,
        network: Any,
        processors: Processors,
        modalities: tuple[str, ...],
        **options: Any,
    ) -> None:
        super().__init__(network, **options)
        self.name, self.modalities, self.processors = name, modalities, processors
        self.image_side, self.sampling_rate = processors.image_side, processors.sampling_rate
        self.temperature, self.logit_bias = logits_of(network)
        self._takes = {modality: _inputs_of(network, modality) for modality in modalities}
        self.dim = self.find_dim()

    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> dict[str, Tensor]:
        """What the model's own processor makes of them."""
        takes = self._takes[modality]
        found = self.processors(items, modality)
        return {name: value for name, value in found.items() if name in takes}

    def features(self, network: Any, inputs: Any, modality: str) -> Tensor:
        """What the library gives."""
        found = getattr(network, f"get_{modality}_features")(**inputs)
        rows = getattr(found, "pooler_output", found)  # transformers 5 returns more than rows
        if not isinstance(rows, Tensor):
            raise InputValueError(
                f"{self.name} gives no row for {modality}: it is no model of two towers."
            )
        return rows

    def pooling(self, modality: str) -> PoolingRule:
        """As the type of the model pools."""
        network = self.networks[0]
        return rule_of(network, network.config.model_type, modality)

    def pool(self, states: Tensor, inputs: Any, modality: str) -> Tensor:
        """A row of each item, from the states of a hidden layer."""
        end = end_token_of(self.networks[0].config)
        return pool(states, self.pooling(modality), inputs, end)


def _modalities(name: str, network: Any) -> tuple[str, ...]:
    """What a model embeds; refuses one without a text tower, or with nothing else."""
    found = tuple(
        modality
        for modality in ("image", "audio", "text")
        if hasattr(network, f"get_{modality}_features")
    )
    if len(found) < 2 or "text" not in found:
        kind = type(network).__name__
        has = f"embeds {spoken(found)} only" if found else "embeds no modality in a shared space"
        raise InputValueError(
            f"hf:{name} is a {kind}, which {has}: a model needs a text tower and one for images "
            "or sounds, as CLIP, SigLIP and CLAP have. For texts alone there is st:NAME."
        )
    return found


def _inputs_of(network: Any, modality: str) -> tuple[str, ...]:
    """What a tower takes, by name; processors may make more than that."""
    parameters = inspect.signature(getattr(network, f"get_{modality}_features")).parameters
    return tuple(parameters)


def logits_of(network: Any) -> tuple[float | None, float | None]:
    """Temperature and bias of a network's logits, as far as it has them.

    exp(logit_scale) is 1/temperature. CLAP has one scale for each direction; this is that of texts
    that look for sounds.
    """
    bias = getattr(network, "logit_bias", None)
    for name in ("logit_scale", "logit_scale_t"):
        if isinstance(scale := getattr(network, name, None), Tensor):
            return _positive(torch.exp(-scale.double())), None if bias is None else float(bias)
    temperature = getattr(network, "temperature", None)  # ALIGN's
    return (_positive(temperature) if isinstance(temperature, Tensor) else None), None


def _positive(temperature: Tensor) -> float | None:
    """A temperature; None for what is none, such as NaN or infinity."""
    found = float(temperature)
    return found if 0 < found < math.inf else None
