"""Watch the gap in other people's training loops: Hugging Face, Lightning, sentence-transformers.

Each is given `embed`, a function that turns the model into two matrices of rows (images, texts;
held-out ones, without gradients), and measures them every so many steps with `evaluate_rows`.
The libraries are loaded when a callback is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modgap._validate import Array, InputError, check_count
from modgap.train.evaluation import evaluate_rows
from modgap.train.sinks import Sink

Embed = Callable[[Any], tuple[Array, Array]]
Groups = tuple[Any, Any] | None


class _Monitor:
    """Measures a model's rows, and hands the figures to sinks."""

    def __init__(self, embed: Embed, groups: Groups, pairs: int, sinks: Sequence[Sink]) -> None:
        self.embed, self.groups, self.pairs, self.sinks = embed, groups, pairs, tuple(sinks)

    def __call__(self, model: Any, step: int, prefix: str = "") -> dict[str, float]:
        import torch

        was_training = getattr(model, "training", False)
        if hasattr(model, "eval"):
            model.eval()
        try:
            with torch.no_grad():
                X, Y = self.embed(model)
        finally:
            if was_training:
                model.train()
        figures = evaluate_rows(X, Y, self.groups, pairs=self.pairs).figures()
        for sink in self.sinks:
            sink.write(step, figures)
        return {f"{prefix}{name}": value for name, value in figures.items()}


def hugging_face_callback(
    embed: Embed,
    *,
    every: int = 500,
    groups: Groups = None,
    pairs: int = 512,
    sinks: Sequence[Sink] = (),
) -> Any:
    """A `TrainerCallback` for `Trainer(callbacks=[…])` and for sentence-transformers' trainer.

    Every ``every`` steps the figures go to the trainer's log history and to ``sinks``; after an
    evaluation they join its metrics as ``eval_gap_distance`` and so on.
    """
    transformers = _library("transformers", "A callback for its Trainer")
    monitor = _Monitor(embed, groups, pairs, sinks)
    every = check_count(every, "every")

    class GapCallback(transformers.TrainerCallback):  # type: ignore[name-defined]
        """Measures the gap while a Trainer trains."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measure every so many steps."""
            # One process is enough, and only its log is written.
            if state.global_step % every == 0 and state.is_world_process_zero:
                figures = monitor(kwargs["model"], state.global_step)
                state.log_history.append({**figures, "step": state.global_step})

        def on_evaluate(
            self,
            args: Any,
            state: Any,
            control: Any,
            metrics: dict[str, float] | None = None,
            **kwargs: Any,
        ) -> None:
            """Add the figures to those of the evaluation."""
            if metrics is not None and state.is_world_process_zero:
                metrics.update(monitor(kwargs["model"], state.global_step, "eval_"))

    return GapCallback()


def lightning_callback(
    embed: Embed,
    *,
    every: int = 500,
    groups: Groups = None,
    pairs: int = 512,
    sinks: Sequence[Sink] = (),
) -> Any:
    """A `Callback` for Lightning's `Trainer(callbacks=[…])`; figures are logged as ``gap/…``."""
    try:
        library = _library("lightning.pytorch", "A callback for its Trainer")
    except InputError:
        library = _library("pytorch_lightning", "A callback for Lightning's Trainer")
    monitor = _Monitor(embed, groups, pairs, sinks)
    every = check_count(every, "every")

    class GapCallback(library.Callback):  # type: ignore[name-defined]
        """Measures the gap while Lightning trains."""

        def __init__(self) -> None:
            super().__init__()
            self._measured = -1

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Measure every so many steps of the optimiser."""
            step = trainer.global_step
            # With accumulated gradients several batches end at the same step.
            if step % every == 0 and step != self._measured and trainer.is_global_zero:
                self._measured = step
                pl_module.log_dict(monitor(pl_module, step, "gap/"), rank_zero_only=True)

    return GapCallback()


def sentence_transformers_evaluator(
    images: Sequence[Any],
    texts: Sequence[str],
    *,
    groups: Groups = None,
    pairs: int = 512,
    batch_size: int = 32,
    name: str = "",
    sinks: Sequence[Sink] = (),
) -> Any:
    """A `SentenceEvaluator` that measures the gap between what a model makes of images and texts.

    Both go through ``model.encode``. Its primary metric is the recall of images by texts.
    """
    library = _library("sentence_transformers.evaluation", "An evaluator for it")

    def embed(model: Any) -> tuple[Array, Array]:
        return (
            model.encode(images, batch_size=batch_size),
            model.encode(texts, batch_size=batch_size),
        )

    monitor = _Monitor(embed, groups, pairs, sinks)
    prefix = f"{name}_" if name else ""

    class GapEvaluator(library.SentenceEvaluator):  # type: ignore[name-defined]
        """Measures the gap when sentence-transformers evaluates."""

        def __init__(self) -> None:
            super().__init__()
            self.greater_is_better = True
            self.primary_metric = f"{prefix}image_retrieval_recall@1"

        def __call__(
            self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
        ) -> Mapping[str, float]:
            """Figures by name; ``output_path`` is not used, sinks are."""
            return monitor(model, steps, prefix)

    return GapEvaluator()


class _MissingLibraryError(InputError, ImportError):
    pass


def _library(module: str, purpose: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise _MissingLibraryError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install {package}"
        ) from error
