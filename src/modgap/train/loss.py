"""The symmetric contrastive loss, as a function and as a module with open_clip's call.

½ (row + column cross-entropy) of logit_scale · X Yᵀ with each row's own pair as its class
(Radford et al. 2021; Yaras et al. 2024, eq. 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modgap.core.checks import (
    InputTypeError,
    InputValueError,
    check_count,
    check_finite,
    check_positive,
)
from modgap.train.described import Described
from modgap.train.gather import RankRows, average_gradient, gather_rows, rank_rows, sum_over
from modgap.train.loss_chunked import chunked_loss
from modgap.train.loss_together import align_true_pairs, centroid_uniformity
from modgap.train.swap import Swap, check_features
from modgap.train.temperature import LearnedTemperature, Temperature


def contrastive(
    X: Tensor,
    Y: Tensor,
    logit_scale: Tensor | float,
    logit_bias: Tensor | float | None = None,
    *,
    chunked: bool = False,
    block_bytes: int | None = None,
) -> Tensor:
    """Symmetric contrastive loss of the pairs (X[i], Y[i]); 0 for one pair.

    Half precision is widened to float32, under autocast too: logits of a scale of 100 are off by
    up to half in bfloat16.

    Parameters
    ----------
    X, Y : Tensor (n, d)
        Features of the two sides, used as given.
    logit_scale : Tensor or float
        1/temperature.
    logit_bias : Tensor or float, optional
        Added to every logit, and so it cancels; it is there for open_clip's call.
    chunked : bool
        Never hold the n × n logits: compute blocks of them, and again in the backward pass.
    block_bytes : int, optional
        The most that a block may take; by default 16 MiB on a CPU and 512 MiB on a GPU.

    >>> X = torch.eye(2)
    >>> round(contrastive(X, X, 1.0).item(), 4)  # log(1 + exp(−1))
    0.3133
    """
    X, Y = widened(X, Y, ("X", "Y"))
    with torch.autocast(X.device.type, enabled=False):
        scale, bias = scalar(logit_scale, "logit_scale", X), scalar(logit_bias, "logit_bias", X)
        return softmax_part(X, Y, scale, bias, RankRows((len(X),)), chunked, block_bytes)


def softmax_part(
    X: Tensor,
    Y: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    held: RankRows,
    chunked: bool,
    block_bytes: int | None,
    same: Tensor | None = None,
) -> Tensor:
    """This process's part of the loss of the whole batch; all of it where there is one process."""
    if chunked:
        part = chunked_loss(X, gather_rows(Y, held), scale, held, block_bytes)
        # Keeps the bias in the graph, for DDP waits for every parameter's gradient, here 0.
        return part if bias is None else part + 0.0 * bias

    def logits(A: Tensor, B: Tensor) -> Tensor:
        # The scale goes to the rows, which are fewer than the logits.
        found = (A * scale) @ B.T
        found = found if bias is None else found + bias
        return found if same is None else found.masked_fill(same[held.rows], -torch.inf)

    classes = torch.arange(held.rows.start, held.rows.stop, device=X.device)
    if held.processes == 1:
        both = logits(X, Y)
        return (F.cross_entropy(both, classes) + F.cross_entropy(both.T, classes)) / 2
    total = F.cross_entropy(logits(X, gather_rows(Y, held)), classes, reduction="sum")
    total = total + F.cross_entropy(logits(Y, gather_rows(X, held)), classes, reduction="sum")
    return total / (2 * held.total_rows)


class ContrastiveLoss(Described):
    """The contrastive loss of a training step, in place of open_clip's ``ClipLoss``.

    Under ``torch.distributed`` the loss covers the whole batch, the rows of all processes, and
    every process gets the same value. Gradients are such that their mean over the processes,
    which DDP takes, is that of one process with the whole batch; the scale's is already the mean.
    Every process must call the loss; their counts of rows may differ.

    The step for swap and temperature is counted by the calls in training, and is part of the
    ``state_dict``; a loop that does not keep it calls ``set_step`` when it resumes.

    Parameters
    ----------
    swap : Swap, optional
        Mixes the two sides, after they are normalised.
    normalise : bool
        Scale rows to unit length; False is the paper's "remove normalization".
    chunked, block_bytes
        As in `contrastive`.
    gather : "auto", None or a process group
        Whether the rows of other processes count: "auto" whenever there are several, None never.
    temperature : Temperature, optional
        Gives the scale of each step in place of the one in the call, for loops that know only
        their model's. A learned one must be added to the optimiser (`parameter_group`).
    calls_per_step : int
        Calls that make one step, where gradients are accumulated.
    align, uniform : float
        Weights with which `align_true_pairs` and `centroid_uniformity` are added, of the rows
        before they are swapped.
    """

    # This process's part of the loss of the whole batch.
    _formula = staticmethod(softmax_part)

    def __init__(
        self,
        swap: Swap | None = None,
        normalise: bool = True,
        chunked: bool = False,
        gather: Any = "auto",
        block_bytes: int | None = None,
        temperature: Temperature | None = None,
        calls_per_step: int = 1,
        align: float = 0.0,
        uniform: float = 0.0,
    ) -> None:
        super().__init__()
        if temperature is not None and not isinstance(temperature, Temperature):
            raise InputTypeError(
                f"temperature must be a Temperature such as FixedTemperature(0.04) or None, "
                f"got {type(temperature).__name__}."
            )
        if swap is not None and not isinstance(swap, nn.Module):
            raise InputTypeError(
                f"swap must be a module such as HardSwap(0.01) or None, got {type(swap).__name__}."
            )
        if isinstance(gather, (str, bool)) and gather != "auto":
            raise InputValueError(
                f'gather must be "auto", None or a process group, got {gather!r}.'
            )
        self.swap = swap
        self.temperature = temperature
        self.normalise = bool(normalise)
        self.chunked = bool(chunked)
        self.gather = gather
        self.block_bytes = block_bytes
        self.calls_per_step = check_count(calls_per_step, "calls_per_step")
        self.align = check_finite(align, "align")
        self.uniform = check_finite(uniform, "uniform")
        if self.uniform and self.chunked:
            raise InputValueError(
                "uniform needs the distances of all items, which a chunked loss never holds. "
                "Choose one."
            )
        self._calls = 0

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float | None = None,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
        *,
        step: int | None = None,
        same: Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """The loss, or ``{"contrastive_loss": loss}``, called as open_clip's.

        ``logit_scale`` may be left out where there is a ``temperature``. ``step`` takes the place
        of the step that is counted. ``same`` (N, N), symmetric and for the whole batch over all
        processes, says which pairs are not negatives of each other, their texts being `identical`
        for instance.
        """
        X, Y = widened(image_features, text_features, ("image_features", "text_features"))
        if logit_scale is None and self.temperature is None:
            raise InputTypeError(
                "logit_scale is missing: pass that of the model, or give the loss a temperature, "
                "as in ContrastiveLoss(temperature=LearnedTemperature())."
            )
        if same is not None and self.chunked:
            raise InputValueError(
                "same needs the whole matrix of logits, which a chunked loss never holds. "
                "Choose one."
            )
        step = self._count(step)
        with torch.autocast(X.device.type, enabled=False):
            given = None if logit_scale is None else scalar(logit_scale, "logit_scale", X)
            bias = scalar(self._bias(logit_bias), "logit_bias", X)
            scale = given
            if self.temperature is not None:
                scale = scalar(self.temperature(step), "logit_scale", X)
            if self.normalise:
                X, Y = F.normalize(X, dim=1), F.normalize(Y, dim=1)
            held = RankRows((len(X),))
            if self.gather is not None:
                held = rank_rows(X, None if isinstance(self.gather, str) else self.gather)
            together = self._together(X, Y, held)
            if self.swap is not None:
                first, total = held.rows.start, held.total_rows
                X, Y = self.swap(X, Y, step, first_row=first, total_rows=total)
            if held.processes > 1:
                scale = average_gradient(scale, held)
                bias = None if bias is None else average_gradient(bias, held)
            loss = self._formula(X, Y, scale, bias, held, self.chunked, self.block_bytes, same)
            loss = loss + together
            if held.processes > 1:
                # The value is the sum of the parts; the gradient this process's part, times the
                # number of processes because DDP divides by it.
                loss = sum_over(loss, held) + held.processes * (loss - loss.detach())
            if self.temperature is not None and given is not None:
                # The caller's own scale stays in the graph, for DDP waits for its gradient, 0.
                loss = loss + 0.0 * given
        return {"contrastive_loss": loss} if output_dict else loss

    def _together(self, X: Tensor, Y: Tensor, held: RankRows) -> Tensor | float:
        """This process's part of what is added to the contrastive loss."""
        added: Tensor | float = 0.0
        if self.align:
            added = self.align * align_true_pairs(X, Y) * len(X) / held.total_rows
        if self.uniform:
            everyone = [gather_rows(rows, held) for rows in (X, Y)]
            added = added + self.uniform * centroid_uniformity(*everyone) / held.processes
        return added

    def parameter_group(self, learning_rate: float) -> dict[str, Any] | None:
        """The optimiser's group for parameters of the loss, temperature apart: none here."""
        return None

    def _bias(self, given: Tensor | float | None) -> Tensor | float | None:
        return given

    def _count(self, step: int | None) -> int:
        if step is not None:
            step = check_count(step, "step", at_least=0)
            if self.training:
                self.set_step(step + 1)
            return step
        step = self._calls // self.calls_per_step
        if self.training:
            self._calls += 1
        return step

    @property
    def temperature_value(self) -> float | None:
        """The loss's own temperature in the last step, or in the first before it; else None."""
        if self.temperature is None:
            return None
        return self.temperature.temperature(max(0, self._calls - 1) // self.calls_per_step)

    def set_step(self, step: int) -> None:
        """Continue at a step."""
        self._calls = check_count(step, "step", at_least=0) * self.calls_per_step

    def get_extra_state(self) -> Tensor:
        """How often it was called in training, for the ``state_dict``."""
        return torch.tensor(self._calls)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from a ``state_dict``."""
        self._calls = int(state)


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


def identical(tokens: Tensor) -> Tensor:
    """Which captions of a batch (n, context_length) are the same word for word, beside themselves.

    >>> identical(torch.tensor([[1, 2], [3, 0], [1, 2]])).int().tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    _, kind = torch.unique(tokens, dim=0, return_inverse=True)
    same = kind[:, None] == kind
    return same.fill_diagonal_(False)


def widened(X: Any, Y: Any, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    """The features of both sides in one precision, float32 at least."""
    check_features(X, Y, names)
    wide = torch.promote_types(torch.promote_types(X.dtype, Y.dtype), torch.float32)
    return X.to(wide), Y.to(wide)


def scalar(value: Any, name: str, X: Tensor) -> Any:
    """One number as a tensor without dimensions, in the precision and place of the features."""
    if value is None and name == "logit_bias":
        return None
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise InputValueError(
                f"{name} must be one number, got shape {tuple(value.shape)}. "
                "Give the scale of the step, not one per row."
            )
        return value.reshape(()).to(device=X.device, dtype=X.dtype)
    value = check_positive(value, name) if name == "logit_scale" else check_finite(value, name)
    return torch.full((), value, device=X.device, dtype=X.dtype)
