"""What was measured of the runs: put together in one file, read, and summed up over seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.measures import concept_conformity
from modgap.reproduce.statistics import Interval, mean_interval
from modgap.simulate.cone_initialisations import compare_cones

# What comes with modgap: trained from random weights, on pretrained towers, and with other losses.
FROM_SCRATCH = Path(__file__).with_name("from_scratch.json")
PRETRAINED = Path(__file__).with_name("pretrained.json")
LOSSES = Path(__file__).with_name("losses.json")
DIGIT_SWAPS = Path(__file__).with_name("digit_swaps.json")
FIRST = "first steps"
# Shares of the steps at which whole rows are swapped.
ROW_SHARES = (1.0, 0.1, 0.01, 0.001)

# The gap of 512 random pairs, as Yaras et al. measure it, and that of all held-out rows.
GAP, WHOLE_GAP = "pairs_gap_distance", "gap_distance"

Run = Mapping[str, Any]


def rows_swapped(share: float) -> str:
    """The recipe that swaps whole rows at a share of the steps."""
    return f"hard swap of rows, {share:g}"


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation (n − 1) and number of the seeds; the deviation of one is NaN."""

    mean: float
    deviation: float
    n: int

    def times(self, factor: float) -> Spread:
        """The same in another unit."""
        return Spread(factor * self.mean, factor * self.deviation, self.n)


@dataclass(frozen=True, eq=False)
class Runs:
    """Every run of a results file, by recipe."""

    runs: Mapping[str, Sequence[Run]]

    def __contains__(self, recipe: object) -> bool:
        return recipe in self.runs

    def of(self, recipe: str) -> Sequence[Run]:
        """The runs of a recipe, one per seed."""
        found = self.runs.get(recipe, ())
        if not found:
            raise InputValueError(
                f"There is no run of {recipe!r} among the results; python -m "
                "modgap.reproduce.flickr8k makes it."
            )
        return found

    def metric(self, recipe: str, name: str) -> Spread:
        """A metric at the end of training, over the seeds."""
        return mean_and_deviation(self.values(recipe, name))

    def difference(self, recipe: str, name: str, reference: str) -> Interval:
        """How much a metric differs from that of another recipe, seed by seed."""
        pairs = self.paired(lambda run: run["metrics"][name], recipe, reference)
        return mean_interval([here - there for here, there in pairs])

    def share_warmer(self, recipe: str, reference: str) -> Interval:
        """For which share of the training a recipe is warmer than another, seed by seed."""
        courses = self.paired(lambda run: np.array(run["course"]["temperature"]), recipe, reference)
        return mean_interval([float(np.mean(here > there)) for here, there in courses])

    def paired(self, value: Callable[[Run], Any], *recipes: str) -> list[tuple[Any, ...]]:
        """A value of each recipe's run, seed by seed, of the seeds that all of them have."""
        found = [{run["seed"]: value(run) for run in self.of(each)} for each in recipes]
        seeds = sorted(set.intersection(*map(set, found)))
        if not seeds:
            raise InputValueError(f"{' and '.join(map(repr, recipes))} have no seed in common.")
        return [tuple(values[seed] for values in found) for seed in seeds]

    def values(self, recipe: str, name: str) -> list[float]:
        """A metric at the end of training, seed by seed."""
        return [run["metrics"][name] for run in self.of(recipe)]

    def by_seed(self, recipe: str, prefix: str) -> dict[str, np.ndarray]:
        """Every metric whose name begins so, seed by seed; none where the runs lack them."""
        runs = self.runs.get(recipe, ())
        names = {name for run in runs for name in run["metrics"] if name.startswith(prefix)}
        return {
            name.removeprefix(prefix): np.array(self.values(recipe, name)) for name in sorted(names)
        }

    def at_start(self, recipe: str) -> Spread:
        """The gap before the first step, over the seeds."""
        return mean_and_deviation([run["course"]["gap"][0] for run in self.of(recipe)])

    def course(self, recipe: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps, and the mean over the seeds of the gap or the temperature at each."""
        runs = self.of(recipe)
        values = [run["course"][name] for run in runs]
        return np.array(runs[0]["course"]["steps"]), np.mean(values, axis=0)


def mean_and_deviation(values: Sequence[float]) -> Spread:
    """Mean and deviation of some numbers.

    >>> mean_and_deviation([1.0, 2.0, 3.0])
    Spread(mean=2.0, deviation=1.0, n=3)
    """
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return Spread(float(np.mean(values)), deviation, len(values))


@cache
def read_runs(path: Path = PRETRAINED) -> Runs:
    """The runs of a results file: those that come with modgap, or your own."""
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))
        found: dict[str, list[Any]] = {}
        for run in runs:
            found.setdefault(run["recipe"], []).append(run)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputValueError(
            f"{path} cannot be read as results of training runs ({type(error).__name__}: {error}). "
            "python -m modgap.reproduce.flickr8k --gather writes such a file."
        ) from error
    return Runs(found)


CONES = "cones of the baseline"


def cones(folder: Path) -> dict[str, Any] | None:
    """The cones of the held-out images under every baseline kept in a folder, if there are two."""
    from modgap.io import open_pair

    files = sorted(folder.glob("baseline*.safetensors"))
    if len(files) < 2:
        return None
    found = compare_cones([np.asarray(open_pair(file).x.rows(), np.float32) for file in files])
    return {
        "recipe": CONES,
        "models": len(files),
        "mean_cosine": found.mean_cosine.tolist(),
        "separation": found.separation,
        "told_apart": found.told_apart,
        "neighbours": found.neighbours,
        "between": found.between,
    }


# How many weights the pretrained towers bring, and how many a projection adds.
WEIGHTS = "weights"
CONCEPTS = "concepts of the baseline"


def concepts(folder: Path, data: Path) -> dict[str, Any] | None:
    """Whether photos and captions of frequent words lie nearer the mean, under the baseline.

    Words are those of the held-out captions, without function words; a photo has those of its five.
    """
    import pyarrow.parquet as pq
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from modgap.io import open_pair

    file = folder / "baseline.safetensors"
    if not file.exists():
        return None
    table = pq.read_table(data, columns=["captions"], filters=[("split", "==", "test")])

    def content_words(caption: str) -> list[str]:
        words = re.findall("[a-z]{3,}", caption.lower())
        return [word for word in words if word not in ENGLISH_STOP_WORDS]

    words = [[content_words(said) for said in of] for of in table["captions"].to_pylist()]
    pair = open_pair(file)
    sides = {
        "photos": (pair.x, [sorted(set().union(*of)) for of in words]),
        "captions": (pair.y, [said for of in words for said in of]),
    }
    found = {
        side: asdict(concept_conformity(np.asarray(rows.rows()), own))
        for side, (rows, own) in sides.items()
    }
    return {"recipe": CONCEPTS, **found}
