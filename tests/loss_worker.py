"""One of several processes that share a batch: computes the loss of each case and its gradients.

    python loss_worker.py RANK PROCESSES FOLDER

Reads FOLDER/cases.pt and writes FOLDER/RANK.pt, one result per case.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from modgap.train.loss import ContrastiveLoss
from modgap.train.loss_sigmoid import SigmoidLoss
from modgap.train.swap import make_swap


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
    form = SigmoidLoss if case.get("form") == "sigmoid" else ContrastiveLoss
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


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
