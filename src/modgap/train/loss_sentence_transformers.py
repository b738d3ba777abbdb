"""The losses of modgap for the trainer of sentence-transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from modgap.core.checks import InputValueError
from modgap.train.loss import ContrastiveLoss
from modgap.train.temperature import LearnedTemperature


class SentenceTransformersLoss(nn.Module):
    """A loss for ``SentenceTransformerTrainer``: its data sets have two columns, which are pairs.

    Parameters
    ----------
    model : SentenceTransformer
        What is trained.
    loss : ContrastiveLoss, optional
        With a temperature; by default CLIP's, learned. The trainer trains its parameters too.
    """

    def __init__(self, model: Any, loss: ContrastiveLoss | None = None) -> None:
        super().__init__()
        self.model = model
        self.loss = ContrastiveLoss(temperature=LearnedTemperature()) if loss is None else loss

    def forward(
        self, sentence_features: Iterable[Mapping[str, Any]], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """The loss of a batch of pairs; there are no labels."""
        rows = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(rows) != 2:
            raise InputValueError(
                f"The data set must have two columns, which are pairs, got {len(rows)}. Choose "
                'them: data.select_columns(["image", "text"]).'
            )
        return self.loss(rows[0], rows[1])
