"""The training loop, top to bottom: read this file to know what a run does.

Everything random in a step is drawn from (seed, epoch) or (seed, step), never from a generator
that runs on: a run that is killed and resumed goes on exactly as one that was not.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from modgap._files import sole_writer, write_text
from modgap._results import document, to_json
from modgap._validate import InputError, InputValueError
from modgap.io import write_pair
from modgap.towers.config import find_config
from modgap.train.checkpoint import (
    checkpoints,
    load_optimiser,
    named,
    optimiser_tensors,
    read_newest,
    sweep,
    write_checkpoint,
)
from modgap.train.config import Config, differences
from modgap.train.data import Data, fingerprint, fits, load_data
from modgap.train.evaluation import evaluate_rows
from modgap.train.hooks import Hook, State, every, gap_monitor
from modgap.train.loss import ContrastiveLoss, identical
from modgap.train.processes import (
    Processes,
    borrowed_machine,
    join_processes,
    whole_steps,
)
from modgap.train.result import TrainResult
from modgap.train.schedule import Schedule
from modgap.train.sinks import check_sinks, open_sinks
from modgap.train.start import (
    MODEL,
    TOKENIZER,
    make_model,
    make_optimiser,
    swap_of,
    temperature_of,
    tokenizer_of,
)

Progress = Callable[..., None]
EMBEDDINGS, DIGITS, RESULT = "embeddings.safetensors", "digits.safetensors", "result.json"


class TrainingStopped(InputError, RuntimeError):
    """A run cannot go on; the message says why, and what to do."""


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

    ``resume`` goes on from the newest checkpoint there; without one it starts. ``hooks`` look at
    the run between its steps. ``progress(name, done, total)`` is told how far it is. ``data``
    saves reading it again, for many runs on the same. Under torchrun every process calls this;
    the first one writes. Files: config.json, tokenizer.json, log.jsonl, checkpoints/,
    model.safetensors, embeddings.safetensors and result.json.
    """
    output = Path(output)
    processes = join_processes(config.train.device)
    with (
        borrowed_machine(processes, config.train.threads),
        ExitStack() as closing,
    ):
        try:
            return _train(config, output, resume, tuple(hooks), progress, data, processes, closing)
        except OSError as error:
            if error.filename is not None or isinstance(error, InputError):
                raise
            found = checkpoints(output)
            left = f"The newest checkpoint is {found[-1].name}." if found else "No checkpoint yet."
            raise TrainingStopped(
                f"The run cannot write to {output}: {error.strerror or error}. {left} "
                "Mend that, and go on with --resume."
            ) from error
        except (RuntimeError, MemoryError) as error:
            if not _out_of_memory(error):
                raise
            raise TrainingStopped(
                f"There is not enough memory on {processes.device} ({_first_line(error)}). Raise "
                "train.accumulate, which leaves the loss that of the whole batch, or lower "
                "train.batch_size, evaluate.batch_size or model.dimension."
            ) from error


def _train(
    config: Config,
    output: Path,
    resume: bool,
    hooks: tuple[Hook, ...],
    progress: Progress | None,
    data: Data | None,
    processes: Processes,
    closing: ExitStack,
) -> TrainResult:
    began = time.perf_counter()
    device, first = processes.device, processes.rank == 0
    settings, seed = config.train, config.train.seed
    say = progress if progress is not None and first else lambda *_: None

    # -- where the run stands -------------------------------------------------------------------
    if checkpoints(output) and not resume:
        raise InputValueError(
            f"{output} holds a run already. Go on with it by --resume, or write to another folder."
        )
    saved = read_newest(output) if resume else None
    finished = [name for name in (MODEL, EMBEDDINGS, DIGITS, RESULT) if (output / name).exists()]
    if saved is None and finished:
        raise InputValueError(
            f"{output} holds {finished[0]} already, and no checkpoint to go on from. Move it away, "
            "or write to another folder."
        )
    if saved is not None and (changed := differences(saved[0]["config"], config.to_dict())):
        raise InputValueError(
            f"The run in {output} was started with other settings: {', '.join(changed)}. "
            "Resume it with its own config, or start a new one in another folder."
        )

    # Names that mean nothing are found now, and not once every image is decoded.
    check_sinks(settings.log)
    temperature_of(config.temperature, 1)
    find_config({"name": config.model.name})

    # -- data: uint8 on the device when it fits -------------------------------------------------
    if data is None:
        words = output / TOKENIZER if saved is not None else tokenizer_of(config.model)
        data = load_data(config.data, tokenizer=words, progress=say)
    on_device = fits(data, config.data.keep_on_device, device)
    train_split = data.train.to(device, pixels=on_device)
    test_split = data.test.to(device, pixels=on_device)
    for images in (data.augment, data.prepare):
        if isinstance(images, nn.Module):
            images.to(device)
    n_images = [len(train_split), len(test_split)]
    machine = [processes.count, device.type]
    n_batches = max(1, math.ceil(len(train_split) / settings.batch_size))
    total = settings.steps or settings.epochs * n_batches
    least = len(train_split) // n_batches // processes.count // settings.accumulate
    if least < 2:
        raise InputValueError(
            f"Every part of a batch must have at least 2 images, but {len(train_split)} images in "
            f"batches of {settings.batch_size} leave {least} for each of {processes.count} "
            f"processes and {settings.accumulate} accumulated parts. Use larger batches."
        )

    # -- model, temperature, loss, optimiser ----------------------------------------------------
    say("making the model")
    model = make_model(config, data, device)
    temperature = temperature_of(config.temperature, total).to(device)
    criterion = ContrastiveLoss(
        swap=swap_of(config.swap, seed), normalise=config.loss.normalise, lean=config.loss.lean
    )
    schedule = Schedule(settings.schedule, total, settings.warmup, settings.betas[0])
    optimiser = make_optimiser(config.train, model, temperature, device)
    rates = [group["lr"] for group in optimiser.param_groups]
    step = 0
    if saved is not None:
        header, tensors = saved
        if header["images"] != n_images or header["data"] != fingerprint(data):
            holds = "others" if header["images"] == n_images else n_images
            raise InputValueError(
                f"The run in {output} has {header['images']} images to train on and to measure, "
                f"but the data holds {holds}. Resume it on the data it was started with."
            )
        if header["machine"] != machine:
            warnings.warn(
                f"The run in {output} was started on {' × '.join(map(str, header['machine']))} "
                f"and goes on on {' × '.join(map(str, machine))}: not exactly as it would have.",
                stacklevel=3,
            )
        step = int(header["step"])
        model.load_state_dict(named(tensors, "model."))
        temperature.load_state_dict(named(tensors, "temperature."))
        load_optimiser(optimiser, tensors)
    first_step = step
    towers: nn.Module = model
    if processes.count > 1:
        towers = DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None
        )
    half = settings.precision == "bf16" or (settings.precision, device.type) == ("auto", "cuda")

    # -- what a run leaves while it goes --------------------------------------------------------
    if config.evaluate.every:
        hooks = (*hooks, every(config.evaluate.every, gap_monitor))
    sinks = []
    if first:
        try:
            closing.enter_context(sole_writer(output))
        except BlockingIOError as error:
            raise TrainingStopped(
                f"Another process is training into {output}. Wait for it, or write to another "
                "folder."
            ) from error
        sweep(output)
        write_text(output / "config.json", to_json(config.to_dict()))
        if data.tokenizer is not None:
            data.tokenizer.save(output / TOKENIZER)
        sinks = open_sinks(output, settings.log, config.to_dict(), step if saved else None)
        for sink in sinks:
            closing.callback(sink.close)
    losses: list[float] = []
    pending: list[Tensor] = []
    paused = 0.0

    def settle() -> None:
        """Fetch the losses not yet looked at; stop at the first that is no number."""
        if not pending:
            return
        for loss in torch.stack(pending).tolist():
            if not math.isfinite(loss):
                kept = checkpoints(output)
                left = f" {kept[-1].name} is from before it." if kept else ""
                raise TrainingStopped(
                    f"The loss is {loss} at step {first_step + len(losses) + 1} of {total}.{left} "
                    "Lower train.learning_rate, raise train.warmup or set train.clip_norm=1."
                )
            losses.append(loss)
        pending.clear()

    def log(step: int, figures: Any) -> None:
        for sink in sinks:
            sink.write(step, figures)

    def look(step: int) -> None:
        """Run the hooks that are due; they see the model, not the wrapper around it."""
        nonlocal paused
        due = [h for h in hooks if not isinstance(h, every) or h.due(step, total)]
        if not (first and due):
            return
        settle()
        started = time.perf_counter()
        state = State(
            config, step, total, model, temperature, train_split, test_split, data.prepare
        )
        for hook in due:
            if figures := hook(state):
                log(step, figures)
        paused += time.perf_counter() - started

    def save(step: int) -> None:
        nonlocal paused
        settle()
        started = time.perf_counter()
        if first:
            tensors = {
                **{f"model.{k}": v for k, v in model.state_dict().items()},
                **{f"temperature.{k}": v for k, v in temperature.state_dict().items()},
                **optimiser_tensors(optimiser),
            }
            state = {
                "tensors": tensors,
                "config": config.to_dict(),
                "images": n_images,
                "data": fingerprint(data),
                "machine": machine,
            }
            write_checkpoint(output, step, state, settings.keep)
        paused += time.perf_counter() - started

    # -- one part of a batch through both towers ------------------------------------------------
    def features(rows: Tensor, captions: Tensor, step: int, part: int) -> tuple[Tensor, Tensor]:
        # Augmentation and dropout draw from the global generators: set for this part alone.
        torch.manual_seed(mix(seed, step, part, processes.rank))
        pixels = train_split.pixels[rows].to(device, non_blocking=True)
        tokens = train_split.tokens[captions].long()
        images = data.augment(pixels)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            X, Y = towers(images, tokens)
        return X.float(), Y.float()

    def loss_of(X: Tensor, Y: Tensor, step: int, whole_captions: Tensor) -> Tensor:
        same = None
        if config.loss.mask_identical:
            same = identical(train_split.tokens[whole_captions])
        return criterion(X, Y, temperature(step), step=step, same=same)

    # -- the loop -------------------------------------------------------------------------------
    model.train()
    temperature.train()
    criterion.train()
    if step == 0:
        look(step)
    epoch = -1
    batches: list[tuple[Tensor, Tensor]] = []
    images_seen = 0
    loop_began, paused = time.perf_counter(), 0.0
    with whole_steps() as stopped:
        while step < total:
            if epoch != step // n_batches:
                # The images in a new order, and one caption for each, drawn anew.
                epoch = step // n_batches
                generator = torch.Generator().manual_seed(mix(seed, epoch, 2**31))
                order = torch.randperm(len(train_split), generator=generator)
                drawn = train_split.draw_captions(order, generator)
                place = train_split.pixels.device
                batches = list(
                    zip(
                        order.to(place).tensor_split(n_batches),
                        drawn.to(device).tensor_split(n_batches),
                        strict=True,
                    )
                )
            whole_rows, whole_captions = batches[step % n_batches]
            images_seen += len(whole_rows)
            rows, captions = processes.share(whole_rows), processes.share(whole_captions)
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * schedule.share(step)
                group["betas"] = (schedule.beta_1(step), settings.betas[1])

            if settings.accumulate == 1:
                X, Y = features(rows, captions, step, 0)
                loss = loss_of(X, Y, step, whole_captions)
                loss.backward()
            else:
                # The loss of the whole batch with the memory of a part (GradCache, Gao et al.
                # 2021): rows without gradients first, the loss's gradient with respect to them,
                # then each part once more, with the same draws, to carry it to the weights.
                parts = list(
                    zip(
                        rows.tensor_split(settings.accumulate),
                        captions.tensor_split(settings.accumulate),
                        strict=True,
                    )
                )
                with torch.no_grad(), still_statistics(model):
                    made = [features(*part, step, k) for k, part in enumerate(parts)]
                X, Y = (torch.cat(side).requires_grad_() for side in zip(*made, strict=True))
                loss = loss_of(X, Y, step, whole_captions)
                loss.backward()
                sizes = [len(part[0]) for part in parts]
                for k, (part, gX, gY) in enumerate(
                    zip(parts, X.grad.split(sizes), Y.grad.split(sizes), strict=True)
                ):
                    waits = processes.count > 1 and k + 1 < len(parts)
                    with towers.no_sync() if waits else nullcontext():
                        torch.autograd.backward(features(*part, step, k), (gX, gY))
            if settings.clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimiser.step()
            optimiser.zero_grad()
            pending.append(loss.detach())
            step += 1

            if step % settings.log_every == 0 or step == total:
                settle()
                seconds = time.perf_counter() - loop_began - paused
                log(
                    step,
                    {
                        "epoch": step / n_batches,
                        "loss": losses[-1],
                        "learning_rate": optimiser.param_groups[0]["lr"],
                        "temperature": temperature.temperature(step - 1),
                        "images_per_second": images_seen / seconds,
                    },
                )
                say(f"training, loss {losses[-1]:.3f}", step, total)
            look(step)
            ending = step == total or stopped()
            if ending or step % settings.checkpoint_every == 0:
                save(step)
            if ending:
                break
    seconds = time.perf_counter() - loop_began - paused

    # -- what it has come to --------------------------------------------------------------------
    say("measuring the held-out split", total, total)
    state = State(config, step, total, model, temperature, train_split, test_split, data.prepare)
    X, Y, groups = state.embed()
    evaluation = evaluate_rows(
        X,
        Y,
        groups,
        pairs=config.evaluate.pairs,
        metric=config.evaluate.metric,  # type: ignore[arg-type]
    )
    result = TrainResult(
        output=str(output),
        config=config.to_dict(),
        first_step=first_step,
        steps=total,
        losses=tuple(losses),
        temperature=temperature.temperature(max(0, total - 1)),
        evaluation=evaluation,
        n_corrupt=len(data.corrupt),
        seconds=time.perf_counter() - began,
        images_per_second=images_seen / seconds if images_seen else 0.0,
        device=str(device),
        processes=processes.count,
    )
    if first and first_step == total and (output / RESULT).exists():
        return result  # it was finished, and its record says more
    if first:
        if not config.evaluate.every:  # else its hook has just logged the same
            log(total, {**evaluation.figures(), "temperature": result.temperature})
        model.save(output / MODEL)
        if config.evaluate.save_embeddings:
            unit = [nn.functional.normalize(rows, dim=1).cpu().numpy() for rows in (X, Y)]
            write_pair(output / EMBEDDINGS, *unit, groups=groups, dtype="float16")
            if config.data.path == "digits":
                from modgap.train.digits import write_digits

                whole = total % n_batches == 0
                epochs = total // n_batches if whole else total / n_batches
                write_digits(
                    output / DIGITS, model, data, config, epochs, temperature=result.temperature
                )
        write_text(output / RESULT, to_json(document("train", result, seed=seed)))
    return result


def mix(*numbers: int) -> int:
    """One seed out of several numbers, such that close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _out_of_memory(error: BaseException) -> bool:
    # torch says it in two ways: a class of its own on a GPU, words on a CPU.
    known = isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


@contextmanager
def still_statistics(model: nn.Module) -> Iterator[None]:
    """Batch norms that use their batch but do not remember it: a part is seen twice in a step."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
