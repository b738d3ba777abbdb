"""Processes that share a batch: each computes the loss of each case and its gradients.

    python loss_worker.py RANK PROCESSES FOLDER

Reads FOLDER/cases.pt and writes FOLDER/RANK.pt, one result per case.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from modgap.train.loss import ContrastiveLoss
from modgap.train.loss_sigmoid import SigmoidLoss
from modgap.train.swap import make_swap

SWAPS = (None, "hard", "soft", "feature")


class Towers(nn.Module):
    """Two linear towers, and a bias, which a softmax does not depend on."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.image = nn.Parameter(weights["image"].clone())
        self.text = nn.Parameter(weights["text"].clone())
        self.bias = nn.Parameter(weights["bias"].clone())

    def forward(self, X: torch.Tensor, Y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return X @ self.image, Y @ self.text, self.bias


def run(case: dict, rows: slice, distributed: bool) -> dict:
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


def main(rank: int, processes: int, folder: Path) -> None:
    cases = torch.load(folder / "cases.pt", weights_only=True)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=processes
    )
    results = []
    for case in cases:
        first = sum(case["sizes"][:rank])
        results.append(run(case, slice(first, first + case["sizes"][rank]), True))
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


def make_cases(form: str) -> list[dict]:
    """Every setting of a loss, with rows that the two processes share evenly or not."""
    cases = []
    for dtype, sizes, chunked, swap in itertools.product(
        (torch.float32, torch.float64), ((12, 12), (5, 14)), (False, True), SWAPS
    ):
        generator = torch.Generator().manual_seed(8)
        draw = {"generator": generator, "dtype": dtype}
        n = sum(sizes)
        weights = {
            "image": torch.randn(10, 6, **draw),
            "text": torch.randn(9, 6, **draw),
            "bias": torch.tensor(-10.0, dtype=dtype),
            "scale": torch.tensor(0.5 if swap == "soft" else 14.3, dtype=dtype),
        }
        X, Y = torch.randn(n, 10, **draw), torch.randn(n, 9, **draw)
        cases.append(
            {
                "form": form,
                "weights": weights,
                "X": X,
                "Y": Y,
                "sizes": sizes,
                "settings": {"chunked": chunked, "normalise": swap != "soft"},
                "swap": swap,
                "block_bytes": 3 * n * 8,
            }
        )
    return cases


@cache
def in_two_processes() -> list[tuple[dict, list[dict]]]:
    """Every case of both losses, and what each of two processes found with its own rows."""
    cases = [*make_cases("softmax"), *make_cases("sigmoid")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save(cases, folder / "cases.pt")
        running = [
            subprocess.Popen(
                [sys.executable, __file__, str(rank), "2", name],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            said = [process.communicate(timeout=300)[0] for process in running]
        finally:
            for process in running:
                process.kill()
        assert [process.returncode for process in running] == [0, 0], "\n".join(said)
        found = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]
    return list(zip(cases, map(list, zip(*found, strict=True)), strict=True))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
