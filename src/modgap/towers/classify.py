"""Teach a tower to tell classes apart, so that trained cones can be compared (Liang, fig. 13)."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np

from modgap._validate import InputValueError, check_count, check_positive, require
from modgap.towers.build import EXTRA, Tower, check_inputs


def fit_classifier(
    tower: Tower,
    inputs: Any,
    labels: Any,
    epochs: int = 5,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> tuple[Tower, float]:
    """A trained copy of the tower, and its accuracy on what it was trained on.

    A linear layer on top of the rows is trained with it by cross-entropy and Adam; the copy is
    returned without that layer. The same seed gives the same training.
    """
    torch = require("torch", EXTRA, "Training a tower")
    epochs = check_count(epochs, "epochs")
    batch_size = check_count(batch_size, "batch_size", at_least=2)
    learning_rate = check_positive(learning_rate, "learning_rate")
    inputs = check_inputs(tower, inputs, torch)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.shape != (len(inputs),) or len(classes) < 2:
        raise InputValueError(
            f"labels must give one of at least two classes to each of {len(inputs)} inputs, "
            f"got shape {codes.shape} with {len(classes)}."
        )
    targets = torch.from_numpy(codes).to(inputs.device)
    trained = dataclasses.replace(tower, model=copy.deepcopy(tower.model))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = torch.nn.Linear(tower.preset.dimension, len(classes)).to(inputs.device)
        parameters = [*trained.model.parameters(), *head.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=learning_rate)
        trained.model.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs)).split(batch_size):
                if len(rows) < 2:
                    continue  # a batch norm cannot normalise over one input
                loss = torch.nn.functional.cross_entropy(head(trained(inputs[rows])), targets[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    trained.model.eval()
    with torch.no_grad():
        right = [
            (head(trained(part)).argmax(1) == target).float()
            for part, target in zip(inputs.split(256), targets.split(256), strict=True)
        ]
    return trained, float(torch.cat(right).mean())
