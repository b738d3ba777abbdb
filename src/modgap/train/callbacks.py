"""Watch the gap in other people's training loops: Hugging Face, Lightning, sentence-transformers.

Each is given `embed`, a function that turns the model into two matrices of rows (images, texts;
held-out ones, without gradients), and measures them every so many steps with `evaluate_rows`.
The temperature is logged with them, of a loss that is part of the model or is given as ``loss``.
Every process measures, for a model may be spread over all of them, and the first one logs.
The libraries are loaded when a callback is made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from modgap.core.checks import Array, check_count, require
from modgap.train.loggers import Logger
from modgap.train.metrics import evaluate_rows

Embed = Callable[[Any], tuple[Array, Array]]
Groups = tuple[Any, Any] | None


class _Monitor:
    """Measures a model's rows, hands the metrics to loggers, and leaves the model as it was."""

    def __init__(
        self, embed: Embed, groups: Groups, pairs: int, loggers: Sequence[Logger], loss: Any
    ) -> None:
        self.embed, self.groups, self.pairs, self.loggers = embed, groups, pairs, tuple(loggers)
        self.loss = loss

    def __call__(self, model: Any, step: int, prefix: str = "") -> dict[str, float]:
        """Metrics by name, without those that are not a number here: loggers refuse them."""
        import torch
        from torch import distributed

        from modgap.train.loss import ContrastiveLoss

        # A frozen module may be in evaluation mode while the rest trains.
        modes = [(module, module.training) for module in model.modules()]
        was_training = model.training
        model.eval()
        try:
            # A DataLoader draws from the generator that the training draws from.
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                X, Y = self.embed(model)
        finally:
            # Called, not only set below: there are layers that merge weights to evaluate (LoRA).
            model.train(was_training)
            for module, mode in modes:
                module.training = mode
        metrics = evaluate_rows(X, Y, self.groups, pairs=self.pairs).flat()
        parts = model.modules() if self.loss is None else self.loss.modules()
        losses = [part for part in parts if isinstance(part, ContrastiveLoss)]
        if losses and losses[0].temperature_value is not None:
            metrics["temperature"] = losses[0].temperature_value
        several = distributed.is_available() and distributed.is_initialized()
        if not several or distributed.get_rank() == 0:
            for logger in self.loggers:
                logger.log(step, metrics)
        return {f"{prefix}{name}": value for name, value in metrics.items() if value is not None}


def hugging_face_callback(
    embed: Embed,
    *,
    trainer: Any = None,
    every: int = 500,
    groups: Groups = None,
    pairs: int = 512,
    loggers: Sequence[Logger] = (),
    loss: Any = None,
) -> Any:
    """A `TrainerCallback` for transformers' `Trainer` and for sentence-transformers' trainers.

        trainer.add_callback(hugging_face_callback(embed, trainer=trainer))

    Metrics are logged as the trainer logs its loss: they are in its log history, and on the
    dashboards that it reports to. After an evaluation the same is done as ``eval_gap_distance``
    and so on, and they join the metrics that the evaluation returns.

    Parameters
    ----------
    embed : callable
        ``embed(model)`` gives the held-out rows of both sides.
    trainer : Trainer, optional
        A trainer does not tell its callbacks where it reports to. Without it, as in
        ``Trainer(callbacks=[…])``, metrics go to the log history and to ``loggers`` only.
    every : int
        Steps between two measurements.
    groups, pairs
        As in `evaluate_rows`.
    loggers : sequence of Logger
        Loggers of modgap that get the metrics too.
    loss : module, optional
        The loss whose temperature is logged, where it is no part of the model: a `ContrastiveLoss`
        or what holds one.
    """
    transformers = _library("transformers", "transformers")
    monitor = _Monitor(embed, groups, pairs, loggers, loss)
    every = check_count(every, "every")

    def log(metrics: dict[str, float], state: Any, control: Any) -> None:
        if trainer is None:
            state.log_history.append({**metrics, "step": state.global_step})
            return
        # Logging takes back the wish to log, and the loss of this step is still to come.
        wished = control.should_log
        trainer.log({**metrics})
        control.should_log = wished

    class GapCallback(transformers.TrainerCallback):  # type: ignore[name-defined]
        """Measures the gap while a Trainer trains."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Say so where a dashboard will not show the gap."""
            if trainer is None and not loggers and args.report_to and state.is_world_process_zero:
                warnings.warn(
                    f"The gap will be in the trainer's log history, but not in what it reports to "
                    f"({', '.join(args.report_to)}). For that, add the callback with: "
                    f"trainer.add_callback(hugging_face_callback(embed, trainer=trainer))",
                    stacklevel=2,
                )

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measure every so many steps."""
            if state.global_step % every == 0:
                log(monitor(kwargs["model"], state.global_step), state, control)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Add the metrics to those of the evaluation, which are logged by now."""
            metrics = monitor(kwargs["model"], state.global_step, "eval_")
            (kwargs.get("metrics") or {}).update(metrics)
            log(metrics, state, control)

    return GapCallback()


def lightning_callback(
    embed: Embed,
    *,
    every: int = 500,
    groups: Groups = None,
    pairs: int = 512,
    loggers: Sequence[Logger] = (),
    loss: Any = None,
) -> Any:
    """A `Callback` for Lightning's `Trainer(callbacks=[…])`.

    Its loggers get the metrics as ``gap/…``, at the number of steps made, whatever
    ``log_every_n_steps`` is. They are in ``trainer.callback_metrics`` too, where
    `ModelCheckpoint(monitor="gap/gap_distance")` finds them.

    Parameters
    ----------
    embed, groups, pairs, loggers, loss
        As in `hugging_face_callback`.
    every : int
        Steps of the optimiser between two measurements.
    """
    library = _library("lightning", "lightning.pytorch", "pytorch_lightning")
    monitor = _Monitor(embed, groups, pairs, loggers, loss)
    every = check_count(every, "every")

    class GapCallback(library.Callback):  # type: ignore[name-defined]
        """Measures the gap while Lightning trains."""

        def __init__(self) -> None:
            super().__init__()
            self._step = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Begin where the run begins; it may be a resumed one."""
            self._step = trainer.global_step

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Measure every so many steps of the optimiser."""
            # A batch may be no step, where gradients are accumulated, or one of each optimiser.
            before, self._step = self._step, trainer.global_step
            if self._step // every == before // every:
                return
            metrics = monitor(pl_module, self._step, "gap/")
            # Through `log_dict` they would be dropped, or repeated later, by log_every_n_steps.
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=self._step)
            pl_module.log_dict(metrics, logger=False, batch_size=1)

    return GapCallback()


def sentence_transformers_evaluator(
    images: Sequence[Any],
    texts: Sequence[str],
    *,
    groups: Groups = None,
    pairs: int = 512,
    batch_size: int = 32,
    name: str = "",
    loggers: Sequence[Logger] = (),
    loss: Any = None,
) -> Any:
    """A `SentenceEvaluator` that measures the gap between what a model makes of images and texts.

    Its primary metric is the recall of images by texts.

    Parameters
    ----------
    images, texts : sequence
        What goes through ``model.encode``.
    batch_size : int
        Rows encoded together.
    name : str
        Put before the names of the metrics, with an underscore.
    groups, pairs, loggers, loss
        As in `hugging_face_callback`.
    """
    library = _library(
        "sentence-transformers",
        "sentence_transformers.sentence_transformer.evaluation",
        "sentence_transformers.evaluation",  # before 5.4
    )

    def embed(model: Any) -> tuple[Array, Array]:
        return (
            model.encode(list(images), batch_size=batch_size),
            model.encode(list(texts), batch_size=batch_size),
        )

    monitor = _Monitor(embed, groups, pairs, loggers, loss)
    prefix = f"{name}_" if name else ""

    class GapEvaluator(library.SentenceEvaluator):  # type: ignore[name-defined]
        """Measures the gap when sentence-transformers evaluates."""

        def __init__(self) -> None:
            super().__init__()
            self.greater_is_better = True
            self.primary_metric = f"{prefix}image_retrieval_recall@1"

        def __call__(
            self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
        ) -> dict[str, float]:
            """Metrics by name; ``output_path`` is not used, loggers are."""
            return monitor(model, steps, prefix)

    return GapEvaluator()


def _library(package: str, *modules: str) -> Any:
    return require(modules, "", "This callback", package=package)
