"""Runs that need processes of their own: one that is killed, and two that share every batch.

    python training_worker.py FOLDER

FOLDER/killed is the run that was killed after the number of steps in FOLDER/after, or a little
later. Each of the two processes writes FOLDER/RANK.pt, the loss and the gradients of every case;
together they write FOLDER/NAME, a run.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what both need is imported once
import torch.distributed as dist
from torch import nn

from modgap.train import train
from modgap.train.loss import ContrastiveLoss
from modgap.train.loss_sigmoid import SigmoidLoss
from modgap.train.swap import make_swap
from training import digits_config, few_digits

KILLED = digits_config(train={"steps": 10, "checkpoint_every": 1, "keep_checkpoints": 2})
# Batches of 27: parts of unequal size, too.
SIZE = {"batch_size": 27, "steps": 3}
RUNS = {
    "plain": digits_config(train=SIZE),
    "parts": digits_config(
        train={**SIZE, "accumulation_steps": 2},
        temperature={"name": "learned", "value": None},
        swap={"kind": "hard", "probability": 1.0},
    ),
    "masked": digits_config(train=SIZE, loss={"mask_identical": True}),
}


class Towers(nn.Module):
    """Two linear towers, and a bias, which a softmax does not depend on."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.image = nn.Parameter(weights["image"].clone())
        self.text = nn.Parameter(weights["text"].clone())
        self.bias = nn.Parameter(weights["bias"].clone())

    def forward(self, X: torch.Tensor, Y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return X @ self.image, Y @ self.text, self.bias


def loss_of(case: dict, rows: slice, distributed: bool) -> dict:
    """The loss of a case over the given rows and the gradients of all that is learned."""
    towers = Towers(case["weights"])
    # Outside DDP on purpose: its gradient must be right without anyone averaging it.
    scale = case["weights"]["scale"].clone().requires_grad_()
    model = nn.parallel.DistributedDataParallel(towers) if distributed else towers
    swap = case["swap"] and make_swap(case["swap"], 1.0, seed=5)
    form = SigmoidLoss if case["form"] == "sigmoid" else ContrastiveLoss
    loss = form(swap=swap, block_bytes=case["block_bytes"], **case["settings"])
    image, text, bias = model(case["X"][rows], case["Y"][rows])
    value = loss(image, text, scale, bias, step=3)
    value.backward()
    gradients = {name: weight.grad for name, weight in towers.named_parameters()}
    return {"value": value.detach(), **gradients, "scale": scale.grad}


def make_cases() -> dict[str, dict]:
    """Every setting of each loss, with rows that the two processes share evenly or not."""
    cases = {}
    for form, dtype, sizes, chunked, swap in itertools.product(
        ("softmax", "sigmoid"), (torch.float32, torch.float64), ((12, 12), (5, 14)),
        (False, True), (None, "hard", "soft", "feature"),
    ):  # fmt: skip
        draw = {"generator": torch.Generator().manual_seed(8), "dtype": dtype}
        n = sum(sizes)
        weights = {
            "image": torch.randn(10, 6, **draw),
            "text": torch.randn(9, 6, **draw),
            "bias": torch.tensor(-10.0, dtype=dtype),
            "scale": torch.tensor(0.5 if swap == "soft" else 14.3, dtype=dtype),
        }
        name = f"{form} {dtype} {sizes} {'chunked' if chunked else 'plain'} {swap}"
        cases[name] = {
            "form": form,
            "weights": weights,
            "X": torch.randn(n, 10, **draw),
            "Y": torch.randn(n, 9, **draw),
            "sizes": sizes,
            "settings": {
                "chunked": chunked,
                "normalise": swap != "soft",
                "align": 0.5,
                "uniform": 0.0 if chunked else 0.25,
            },
            "swap": swap,
            "block_bytes": 3 * n * 8,
        }
    return cases


CASES = make_cases()


def kill_a_run(folder: Path, data: Any) -> None:
    """Start a run in a process of its own and kill it at any moment."""
    child = os.fork()
    if not child:
        train(KILLED, output=folder / "killed", data=data)
        os._exit(0)
    after = 1 + random.randrange(6)
    (folder / "after").write_text(str(after))
    log = folder / "killed" / "log.jsonl"
    while not log.exists() or log.read_bytes().count(b'"loss"') < after:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(folder: Path) -> None:
    data = few_digits()
    kill_a_run(folder, data)
    nn.Dropout.forward = lambda self, x: x  # each process would draw for itself
    other = os.fork()
    rank = 0 if other else 1
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    found = {}
    for name, case in CASES.items():
        first = sum(case["sizes"][:rank])
        found[name] = loss_of(case, slice(first, first + case["sizes"][rank]), True)
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()
    for name, config in RUNS.items():
        assert train(config, output=folder / name, data=data).processes == 2
    assert not other or os.waitpid(other, 0)[1] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
