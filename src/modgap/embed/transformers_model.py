"""``hf:NAME``: CLIP, SigLIP, SigLIP 2, CLAP, ALIGN, BLIP and their like, through transformers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from modgap.core.checks import InputValueError, require
from modgap.core.results import spoken
from modgap.embed.model import Options, Role
from modgap.embed.opening import reading_model
from modgap.embed.processors import Processors
from modgap.embed.torch_model import (
    PoolingRule,
    TorchModel,
    end_token_of,
    rule_of,
    temperature_and_bias,
)
from modgap.train.towers.build import seeded
from modgap.train.towers.foreign import NO_CODE, TENSORS_ONLY, check_config, quiet

EXTRA = "embed"


def open_by_name(name: str, options: Options) -> TransformersModel:
    """A model of transformers by its name on the hub, from its cache, or from a folder.

    As in ``openai/clip-vit-base-patch32``. The hub's own variables are honoured, such as HF_HOME
    and HF_HUB_OFFLINE. A random network needs no weights, only the configuration and the
    processors.
    """
    transformers = require("transformers", EXTRA, "A model of transformers")
    with reading_model("hf", name, "transformers"), quiet(transformers):
        config = check_config(transformers.AutoConfig.from_pretrained(name, **NO_CODE), name)
        if options.random is None:
            network = transformers.AutoModel.from_pretrained(name, config=config, **TENSORS_ONLY)
        else:
            with seeded(options.random):
                network = transformers.AutoModel.from_config(config, **NO_CODE)
        modalities = _modalities(name, network)
        processors = Processors(
            transformers, name, config, modalities, normalise=options.input_normalisation
        )
        return TransformersModel(f"hf:{name}", network, processors, modalities, options)


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
        options: Options,
    ) -> None:
        super().__init__(network, options)
        self.name = options.name(name)
        self.modalities, self.processors = modalities, processors
        self.image_side, self.sampling_rate = processors.image_side, processors.sampling_rate
        self.temperature, self.logit_bias = temperature_and_bias(network)
        self.end_token = end_token_of(network.config)
        towers = {modality: getattr(network, f"get_{modality}_features") for modality in modalities}
        # Processors may make more than a tower takes.
        self._takes = {m: inspect.signature(tower).parameters for m, tower in towers.items()}
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
