"""How entries are run, and where what they may need lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.results import Progress

if TYPE_CHECKING:
    from modgap.reproduce.flickr8k.results import Runs
    from modgap.reproduce.model_data import ModelData

# Names the folders of embeddings where --embeddings does not.
VARIABLE = "MODGAP_PUBLISHED"
T = TypeVar("T")


class NotAtHand(InputValueError):
    """What an entry needs is not there; the sentence says what, and how to provide it."""


def not_at_hand(files: str = "features_*.npy") -> str:
    """What to say where the authors' embeddings are missing."""
    return (
        f"The authors' embeddings {files} are not at hand. Download them from the repository of "
        "Liang et al. 2022 and name their folder with --embeddings DIR."
    )


NO_PAIRS = (
    "It needs pairs of images and texts: give captioned images, such as MS-COCO's, with --data."
)
# What rows of your own are read as: pairs, and images with classes.
YOUR_ROWS, YOUR_CLASSES = "your rows", "your classes"


@dataclass(eq=False)
class OwnRows:
    """Rows of your own: pairs row by row, and what zero-shot classification needs beside them.

    They are as they were given, which may be raw. ``taken`` says how they were chosen where they
    are not all; ``used`` becomes true when an entry reads them. ``classed`` are the images that
    the labels are of, where these are not X. Where a model embedded them, ``model`` has it and all
    data that it was put to, which may be no pairs.
    """

    X: np.ndarray | None = None
    Y: np.ndarray | None = None
    labels: np.ndarray | None = None
    class_texts: np.ndarray | None = None
    other_class_texts: np.ndarray | None = None
    taken: str = ""
    used: bool = False
    classed: np.ndarray | None = None
    temperature: float | None = None
    model: ModelData | None = None

    @property
    def words(self) -> str:
        """What they are, for reports."""
        by_model = "" if self.model is None else self.model.words
        if self.X is None or self.Y is None:
            return by_model
        lengths = [np.linalg.norm(rows, axis=1) for rows in (self.X, self.Y)]
        unit = all(np.allclose(each, 1, atol=1e-2) for each in lengths)
        n, d = self.X.shape
        kind = "at unit length" if unit else "not at unit length"
        return "; ".join(filter(None, (by_model, f"your rows ({n:,} × {d}, {kind})", self.taken)))


@dataclass(frozen=True)
class Setting:
    """How to run an entry: quickly or as published, and where what it may need lies.

    Parameters
    ----------
    full
        As published, which may take hours, not minutes.
    embeddings
        Folders of embeddings that others published: those of Liang et al. 2022 (features_*.npy),
        and others as safetensors.
    trained
        A file of results of training runs, in place of the one that comes with the package.
    seed, seeds
        Where random numbers start, and with how many seeds from there what is drawn is drawn.
    progress
        Called with the name of a step, how much of it is done, and of how much.
    rows
        Rows of your own, in place of all others.
    planted
        Is given the name and the value of everything that is read, and returns what is read in its
        place: for tests that a check can fail.
    """

    full: bool = False
    embeddings: tuple[Path, ...] = ()
    trained: Path | None = None
    seed: int = 0
    seeds: int = 1
    progress: Progress | None = None
    rows: OwnRows | None = None
    planted: Callable[[str, Any], Any] | None = None

    def say(self, step: str, done: int = 0, total: int = 1) -> None:
        """Report progress to whoever listens."""
        if self.progress is not None:
            self.progress(step, done, total)

    def steps(self, step: str) -> Progress:
        """Progress under a name of one's own, whatever the function calls its steps."""
        return lambda _, done, total: self.say(step, done, total)

    @property
    def words(self) -> str:
        """Which of the two settings it is, and whose trained models."""
        words = "full" if self.full else "fast"
        return words if self.trained is None else f"{words}, trained models of {self.trained}"

    @property
    def model(self) -> ModelData | None:
        """The model that was given with data, if any; the entry that asks for it uses it."""
        if self.rows is None or self.rows.model is None:
            return None
        self.rows.used = True
        return self.rows.model

    def lacking(self, rows: str, data: str) -> NotAtHand:
        """What to say of something that the user did not give, as files of rows or as data."""
        by_model = self.rows is not None and self.rows.model is not None
        return NotAtHand(data if by_model else rows)

    @property
    def data(self) -> tuple[str, ...]:
        """What is at hand, by name; "your rows" take the place of all else."""
        if self.rows is not None:
            return (YOUR_ROWS,)
        return tuple(
            sorted({path.stem for folder in self.embeddings for path in _files_in(folder)})
        )

    def read(self, name: str, value: T) -> T:
        """A value that a check reads; everything that is judged passes through here."""
        if self.rows is not None and name in (YOUR_ROWS, YOUR_CLASSES):
            self.rows.used = True
        return value if self.planted is None else self.planted(name, value)

    def file(self, name: str) -> Path | None:
        """A file of embeddings by its name, where a folder has it; none beside your own rows."""
        if self.rows is not None:
            return None
        found = (path for folder in self.embeddings for path in _files_in(folder))
        return next((path for path in found if path.name == name), None)

    def runs(self) -> Runs:
        """What was measured of the models trained on Flickr8k, on pretrained towers or your own."""
        from modgap.reproduce.flickr8k.results import PRETRAINED, read_runs

        if self.rows is not None:
            raise NotAtHand(
                "It reads models that were trained for it, which rows of your own cannot replace. "
                "Run it without --rows and --model."
            )
        return self.read("runs", read_runs(self.trained or PRETRAINED))

    def digit_swaps(self) -> Runs:
        """The towers of the digits, with rows swapped at several shares of the steps."""
        from modgap.reproduce.flickr8k.results import DIGIT_SWAPS, read_runs

        return self.read("digit swaps", read_runs(DIGIT_SWAPS))

    def after_passes(self, prefix: str) -> dict[str, np.ndarray]:
        """Metrics of the baseline of 100 passes, seed by seed; none beside rows of your own."""
        from modgap.reproduce.flickr8k.methods import BASELINE, PASSES_SUFFIX

        if self.rows is not None:
            return {}
        return self.runs_from_scratch().by_seed(f"{BASELINE}{PASSES_SUFFIX}", prefix)

    def networks(self) -> dict[str, Any]:
        """What was measured of networks at full size, by the name of the run."""
        from modgap.reproduce.networks import read_networks

        return self.read("networks", read_networks())

    def runs_from_scratch(self) -> Runs:
        """The same from random weights: your own, if they hold the first steps of such."""
        from modgap.reproduce.flickr8k.results import FIRST, FROM_SCRATCH, read_runs

        own = self.runs()
        return own if FIRST in own else self.read("runs from scratch", read_runs(FROM_SCRATCH))

    def arrays(self, system: str) -> tuple[np.ndarray, np.ndarray]:
        """The authors' embeddings of one system: clip, clip_random, videoclip, videoclip_random."""
        from modgap.io import open_pair

        path = self.file(f"features_{system}.npy")
        if path is None:
            raise NotAtHand(not_at_hand(f"features_{system}.npy"))
        pair = open_pair(path)
        return self.read(system, (np.asarray(pair.x.rows()), np.asarray(pair.y.rows())))

    def tensors(self, name: str) -> dict[str, np.ndarray] | None:
        """A safetensors file of embeddings by its name without the suffix, where it is at hand."""
        from safetensors.numpy import load_file

        path = self.file(f"{name}.safetensors")
        return None if path is None else self.read(name, load_file(path))


def find_embeddings(folders: Sequence[Path] = ()) -> tuple[Path, ...]:
    """The folders of embeddings: those given, else those of the environment."""
    named = {f"--embeddings {folder}": folder for folder in folders}
    if not folders and (from_environment := os.environ.get(VARIABLE)):
        named = {f"{VARIABLE}={part}": Path(part) for part in from_environment.split(os.pathsep)}
    for said, folder in named.items():
        if not folder.is_dir():
            raise InputValueError(f"{said} must be a folder with features_clip.npy and the like.")
        if not _files_in(folder):
            raise InputValueError(
                f"{said} holds no embeddings (features_clip.npy and the like, or .safetensors)."
            )
    return tuple(named.values())


def _files_in(folder: Path) -> list[Path]:
    """Files of embeddings in a folder and in the folders right below it."""
    return sorted(
        path
        for pattern in ("features_*.npy", "*.safetensors")
        for path in (*folder.glob(pattern), *folder.glob(f"*/{pattern}"))
    )
