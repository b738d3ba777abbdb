"""The training loop, top to bottom: read this file to know what a run does.

Everything random in a step is drawn from (seed, epoch) or (seed, step), never from a generator
that runs on: a run that is interrupted and resumed ends exactly as one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from modgap.core.results import Progress, silent
from modgap.train.checkpoint import TOKENIZER, checkpoint_to_resume
from modgap.train.config import Config
from modgap.train.data import Batches, Data, load_data, mix_seeds
from modgap.train.hooks import Hook, own_hooks
from modgap.train.learner import Learner, temperature_of
from modgap.train.loggers import check_loggers
from modgap.train.loss import identical
from modgap.train.processes import join_processes, torch_settings, whole_steps
from modgap.train.run import Run, TrainResult, stops_in_words
from modgap.train.start import sources, tokenizer_of
from modgap.train.towers.encoders import open_encoder


def train(
    config: Config,
    *,
    output: str | Path,
    resume: bool = False,
    hooks: Sequence[Hook] = (),
    progress: Progress | None = None,
    data: Data | None = None,
) -> TrainResult:
    """Train two towers, measure them on the held-out split, and leave everything in ``output``.

    Under torchrun every process calls this; the first one writes. Files: config.json,
    tokenizer.json, log.jsonl, checkpoints/, model.safetensors, embeddings.safetensors and
    result.json.

    Parameters
    ----------
    config : Config
        What to train, from `load_config`.
    output : path
        Folder for the run.
    resume : bool
        Resume from the newest checkpoint in the folder; without one, start.
    hooks : sequence of Hook
        Functions that look at the run between its steps; what they return is logged.
    progress : callable, optional
        Called as ``progress(what, done, total)``.
    data : Data, optional
        Data that was loaded before, for many runs on the same.
    """
    began, output = time.perf_counter(), Path(output)
    processes = join_processes(config.train.device)
    say = progress if progress is not None and processes.first else silent
    with torch_settings(processes, config.train.threads), stops_in_words(output, processes.device):
        saved = checkpoint_to_resume(output, config, resume)
        # Names that mean nothing are found now, and not once every image is decoded.
        check_loggers(config.train.loggers)
        temperature_of(config.temperature, 1)
        for side, source in sources(config.model).items():
            open_encoder(source, side)

        if data is None:
            known = output / TOKENIZER if saved is not None else tokenizer_of(config.model)
            data = load_data(config.data, tokenizer=known, progress=say)
        data = data.to(processes.device, config.data.keep_on_device)
        batches = Batches(data.train, config.train, processes.count)
        say("making the model", 0, 0)
        total = config.train.total_steps(len(data.train))
        learner = Learner(config, data, total, processes)
        hooks = (*hooks, *own_hooks(config), *data.hooks)
        run = Run(config, output, processes, data, learner, hooks, saved)
        with run.opened():
            train_steps(run, batches, say)
            say("measuring the held-out split", total, total)
            return run.finish(began)


def train_steps(run: Run, batches: Batches, say: Progress) -> None:
    """Every step that is still to do: rates, batch, backward, update; then log, look and save."""
    settings, learner, total = run.config.train, run.learner, run.total
    for part in (learner.model, learner.temperature, learner.loss):
        part.train()
    if run.step == 0:
        run.call_hooks()
    with whole_steps() as told_to_stop:
        while run.step < total:
            rows, captions = batches[run.step]
            learner.set_rates(run.step)
            loss = backward(run, rows, captions)
            if settings.grad_clip_norm:
                nn.utils.clip_grad_norm_(learner.model.parameters(), settings.grad_clip_norm)
            learner.optimiser.step()
            learner.optimiser.zero_grad()
            run.record(loss, len(rows))

            if run.step % settings.log_every == 0 or run.step == total:
                log_step(run, batches, say)
            run.call_hooks()
            stop = told_to_stop()
            if stop or run.step == total or run.step % settings.checkpoint_every == 0:
                run.save()
            if stop:
                break


def backward(run: Run, rows: Tensor, captions: Tensor) -> Tensor:
    """The loss of a batch, with its gradients in the weights; every process takes its rows."""
    step, learner, processes = run.step, run.learner, run.processes
    n_micro_batches = run.config.train.accumulation_steps
    same = None
    if run.config.loss.mask_identical:
        same = identical(run.data.train.tokens[captions])
    micro_batches = list(
        zip(
            processes.shard(rows).tensor_split(n_micro_batches),
            processes.shard(captions).tensor_split(n_micro_batches),
            strict=True,
        )
    )

    def loss_of(X: Tensor, Y: Tensor) -> Tensor:
        return learner.loss(X, Y, learner.temperature(step), step=step, same=same)

    if n_micro_batches == 1:
        loss = loss_of(*forward(run, *micro_batches[0]))
        loss.backward()
        return loss
    # The loss of the whole batch with the memory of a micro-batch (GradCache, Gao et al. 2021):
    # rows without gradients first, the loss's gradient with respect to them, then each micro-batch
    # once more, with the same draws, to carry it to the weights. Each runs twice; batch norm
    # counts it once.
    with torch.no_grad(), forgetful_batch_norms(learner.model):
        made = [forward(run, *inputs, k) for k, inputs in enumerate(micro_batches)]
    X, Y = (torch.cat(side).requires_grad_() for side in zip(*made, strict=True))
    loss = loss_of(X, Y)
    loss.backward()
    sizes = [len(images) for images, _ in micro_batches]
    gradients = zip(X.grad.split(sizes), Y.grad.split(sizes), strict=True)
    for k, (inputs, gradient) in enumerate(zip(micro_batches, gradients, strict=True)):
        waits = processes.count > 1 and k + 1 < n_micro_batches
        with learner.towers.no_sync() if waits else nullcontext():
            torch.autograd.backward(forward(run, *inputs, k), gradient)
    return loss


@contextmanager
def forgetful_batch_norms(model: nn.Module) -> Iterator[None]:
    """Batch norms use their batch for a while, but do not remember it."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, old in zip(norms, before, strict=True):
            norm.momentum = old


def forward(
    run: Run, rows: Tensor, captions: Tensor, micro_batch: int = 0
) -> tuple[Tensor, Tensor]:
    """Some images and captions through both towers."""
    data, device = run.data, run.processes.device
    # Augmentation and dropout draw from the global generators: set for this micro-batch alone.
    torch.manual_seed(mix_seeds(run.config.train.seed, run.step, micro_batch, run.processes.rank))
    images = data.augment(data.train.pixels[rows].to(device, non_blocking=True))
    tokens = data.train.tokens[captions].long()
    with torch.autocast(device.type, torch.bfloat16, enabled=run.learner.use_bf16):
        X, Y = run.learner.towers(images, tokens)
    return X.float(), Y.float()


def log_step(run: Run, batches: Batches, say: Progress) -> None:
    """Log a step for the dashboard."""
    learner, loss = run.learner, run.last_loss()
    run.log(
        {
            "epoch": run.step / batches.per_epoch,
            "loss": loss,
            "learning_rate": learner.optimiser.param_groups[0]["lr"],
            "temperature": learner.temperature.temperature(run.step - 1),
            "images_per_second": run.images_per_second(),
        }
    )
    say(f"training, loss {loss:.3f}", run.step, run.total)
