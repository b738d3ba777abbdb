"""How entries are run, and where what they may need lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modgap._results import Progress
from modgap._validate import InputValueError

if TYPE_CHECKING:
    from modgap.io import Modalities
    from modgap.reproduce.flickr8k.results import Runs

# Names the folder of the authors' embeddings where --embeddings does not.
VARIABLE = "MODGAP_PUBLISHED"


class NotAtHand(InputValueError):
    """What an entry needs is not there; the sentence says what, and how to provide it."""


def not_at_hand(files: str = "features_*.npy") -> str:
    """What to say where the authors' embeddings are missing."""
    return (
        f"The authors' embeddings {files} are not at hand. Download them from the repository of "
        "Liang et al. 2022 and name their folder with --embeddings DIR."
    )


@dataclass(frozen=True)
class Setting:
    """How to run an entry: quickly or as published, and where what it may need lies.

    Parameters
    ----------
    full
        As published, which may take hours, not minutes.
    embeddings
        The folder of the embeddings that Liang et al. 2022 published.
    trained
        A file of results of training runs, in place of the one that comes with the package.
    seed
        Where random numbers start.
    progress
        Is told the name of a step, how much of it is done, and of how much.
    """

    full: bool = False
    embeddings: Path | None = None
    trained: Path | None = None
    seed: int = 0
    progress: Progress | None = None

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

    def runs(self) -> Runs:
        """What was measured of the models trained on Flickr8k, on pretrained towers or your own."""
        from modgap.reproduce.flickr8k.results import PRETRAINED, read_runs

        return read_runs(self.trained or PRETRAINED)

    def runs_from_scratch(self) -> Runs:
        """The same from random weights: your own, if they hold the first steps of such."""
        from modgap.reproduce.flickr8k.results import FIRST, FROM_SCRATCH, read_runs

        own = self.runs()
        return own if FIRST in own else read_runs(FROM_SCRATCH)

    def pair(self, system: str) -> Modalities:
        """The authors' embeddings of one system: clip, clip_random, videoclip, videoclip_random."""
        from modgap.io import open_pair

        name = f"features_{system}.npy"
        if self.embeddings is None or not (self.embeddings / name).exists():
            raise NotAtHand(not_at_hand(name))
        return open_pair(self.embeddings / name)

    def arrays(self, system: str) -> tuple[np.ndarray, np.ndarray]:
        """The same as two arrays."""
        pair = self.pair(system)
        return np.asarray(pair.x.rows()), np.asarray(pair.y.rows())


def find_embeddings(folder: Path | None = None) -> Path | None:
    """The folder of the authors' embeddings: the one given, else that of the environment."""
    named = f"--embeddings {folder}"
    if folder is None:
        from_environment = os.environ.get(VARIABLE)
        if not from_environment:
            return None
        folder, named = Path(from_environment), f"{VARIABLE}={from_environment}"
    if not folder.is_dir():
        raise InputValueError(f"{named} must be a folder with features_clip.npy and the like.")
    if not any(folder.glob("features_*.npy")):
        raise InputValueError(
            f"{named} holds none of the authors' embeddings (features_clip.npy and the like)."
        )
    return folder
