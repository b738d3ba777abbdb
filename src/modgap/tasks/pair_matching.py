"""Two images and two statements that differ in a detail: does each find its own?

The data set is MMVP-VLM, published with Tong et al. 2024, *Eyes Wide Shut? Exploring the Visual
Shortcomings of Multimodal LLMs* (arXiv 2401.06209). Its folder holds Questions.csv, with the
columns Question ID, Type and Statement, and "MLLM_VLM Images", a folder for each type with the
images, 1.jpg and so on. Two rows that follow each other are a pair.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from modgap.core.checks import Array, InputValueError, check_choice
from modgap.core.door import check_pairs
from modgap.core.results import Brief
from modgap.corrections import Metric
from modgap.io.images import ImageFolder
from modgap.io.items import Item, Items
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.exact import given_scores
from modgap.tasks.command import (
    COLUMN,
    IMAGES,
    MODEL,
    ROWS,
    EncodeTexts,
    Option,
    Prepared,
    TaskCommand,
    TaskInputs,
    read_rows,
    rows_with,
)
from modgap.tasks.files import check_home, check_once, table_of, the_file
from modgap.tasks.task import Published, Task, check_labels

# Yaras et al. 2024, table 1: modality gap and accuracy (%) on MMVP-VLM of models trained on
# MS-COCO, each the mean of three trainings.
_YARAS = {
    "baseline": (0.294, 14.321),
    "FLT 0.04": (0.122, 11.852),
    "FLT 0.07": (0.033, 14.074),
    "FLT 0.1": (0.019, 14.817),
    "TS S1": (0.198, 14.074),
    "TS S2": (0.137, 14.321),
    "TS S3": (0.088, 13.087),
}
PUBLISHED = tuple(
    Published(
        accuracy / 100,
        f"MMVP-VLM, {name} (modality gap {gap:g})",
        "Yaras et al. 2024, table 1",
    )
    for name, (gap, accuracy) in _YARAS.items()
)

# Who chooses between the two of the other kind.
Asking = Literal["text", "image"]
# Tong et al. put this before each statement of MMVP-VLM.
PHOTO_OF = "a photo of "
_ID, _PATTERN, _STATEMENT, _IMAGES = "Question ID", "Type", "Statement", "MLLM_VLM Images"


def pair_matching_task(
    X: Array,
    Y: Array,
    patterns: Any = None,
    *,
    asking: Asking = "text",
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
) -> Task:
    """Are both pairs of a set matched (Tong et al. 2024, MMVP-VLM)? One outcome a set.

    Rows 0 and 1 are the first set, rows 2 and 3 the second, and so on; row i of X belongs to row i
    of Y. A tie is no match. The query modality comes first in the task: text and image when the
    texts choose. Yaras et al. print the mean over the patterns (table 1, E), which is the mean over
    the sets where all patterns have as many, as those of MMVP-VLM do.

    Parameters
    ----------
    X, Y : (2n, d) arrays
        Rows of images and of statements.
    patterns : (2n,) labels, optional
        The visual pattern of each row, the same for both rows of a set; reported separately.
    asking : {"text", "image"}
        Who chooses: each text between the two images, as in the published evaluation, or each image
        between the two texts.
    names : pair of str
        The names of the modalities of X and Y.
    metric : {"cosine", "inner_product", "euclidean"}
        How uncorrected rows are ranked.

    >>> task = pair_matching_task(np.eye(4), np.eye(4)[[0, 1, 3, 2]], [*"aabb"])
    >>> task.score().parts
    {'a': 1.0, 'b': 0.0}
    """
    X, Y = check_pairs(X, Y)
    check_choice(asking, "asking", get_args(Asking))
    labels = _check_patterns(patterns, X.shape[0])
    sides = ((names[0], X), (names[1], Y))
    (first, queries), (second, documents) = sides if asking == "image" else sides[::-1]
    kinds = np.unique(labels) if patterns is not None else ()
    return Task(
        name="pair_matching",
        names=(first, second),
        X=queries,
        Y=documents,
        judge=_matched,
        chance=1 / 4,
        groups=np.arange(len(labels)),
        x_groups=np.repeat(np.arange(len(labels)), 2),
        metric=metric,
        parts={str(kind): labels == kind for kind in kinds},
        published=PUBLISHED,
    )


def _matched(queries: Array, documents: Array, metric: Metric) -> np.ndarray:
    """Whether both queries of each set are nearer to their own document than to the other, (n,)."""
    rows = np.arange(queries.shape[0])
    own = given_scores(queries, documents, rows, metric)
    # The document beside it is asked for by the query of its neighbour.
    other = given_scores(queries, documents, rows ^ 1, metric)[rows ^ 1]
    return np.asarray((own > other).reshape(-1, 2).all(axis=1))


def _check_patterns(patterns: Any, n: int) -> np.ndarray:
    """The pattern of each set of two rows."""
    if n % 2:
        raise InputValueError(f"X and Y must hold sets of two rows, got {n} rows.")
    if patterns is None:
        return np.full(n // 2, "all")
    labels = check_labels(patterns, n, "patterns").reshape(-1, 2)
    odd = np.flatnonzero(labels[:, 0] != labels[:, 1])
    if len(odd):
        first, second = labels[odd[0]].tolist()
        raise InputValueError(
            f"Both rows of a set must be of one pattern, but rows {2 * odd[0]} and "
            f"{2 * odd[0] + 1} are of {first!r} and {second!r}."
        )
    return np.asarray(labels[:, 0])


@dataclass(frozen=True, eq=False)
class MMVP(Brief):
    """Images, each with its statement as caption and its pattern as label."""

    source: str
    images: Items

    def __len__(self) -> int:
        return len(self.images)

    @property
    def statements(self) -> tuple[str, ...]:
        """The statement of each image."""
        return tuple(self.images.captions(row)[0] for row in range(len(self)))

    @property
    def pairs(self) -> np.ndarray:
        """The rows of each pair, (n, 2)."""
        return np.arange(len(self)).reshape(-1, 2)

    def inputs(
        self, X: np.ndarray, kept: Sequence[int], encode: EncodeTexts, *, prefix: str = PHOTO_OF
    ) -> TaskInputs:
        """What ``pair_matching_task`` takes, with ``prefix`` before each statement.

        A set with an image that cannot be read is left out.
        """
        place = {image: row for row, image in enumerate(kept)}
        rows = [row for pair in self.pairs.tolist() if place.keys() >= set(pair) for row in pair]
        if not rows:
            raise InputValueError(f"No set of {self.source} has two images that can be read.")
        inputs = {
            "X": X[[place[row] for row in rows]],
            "Y": encode([f"{prefix}{self.images.captions(row)[0]}" for row in rows]),
            "patterns": tuple((self.images.labels or ())[row] for row in rows),
        }
        return TaskInputs(inputs, items=tuple(self.images.names[row] for row in rows))


def open_mmvp(
    path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None
) -> MMVP:
    """Read MMVP-VLM as it is published.

    Parameters
    ----------
    path : path
        The folder with Questions.csv.
    images : path, optional
        The folder with a folder for each pattern, by default "MLLM_VLM Images" beside the table.
    """
    file = the_file(Path(path), "Questions.csv", "MMVP-VLM")
    rows = table_of(file, (_ID, _PATTERN, _STATEMENT))
    if len(rows) % 2:
        raise InputValueError(f"{file} must hold pairs of rows, got {len(rows)} rows.")
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        if first[_PATTERN] != second[_PATTERN]:
            raise InputValueError(
                f"{file}: rows {first[_ID]} and {second[_ID]} must be a pair of one Type, got "
                f"{first[_PATTERN]!r} and {second[_PATTERN]!r}."
            )
    home = check_home(images) or file.parent / _IMAGES
    if not home.is_dir():
        raise InputValueError(f"{file.parent} must hold the folder {_IMAGES!r} of MMVP-VLM.")
    # Downloads can have underscores for spaces.
    folders = {_key(one.name): one.name for one in sorted(home.iterdir()) if one.is_dir()}
    folder = ImageFolder(home)
    names = [f"{folders.get(_key(row[_PATTERN]), row[_PATTERN])}/{row[_ID]}.jpg" for row in rows]
    check_once(names, file)
    items = [
        Item(name, (row[_STATEMENT],), None, folder.reader(name, file), row[_PATTERN])
        for name, row in zip(names, rows, strict=True)
    ]
    return MMVP(str(file.parent), Items(str(file.parent), items))


def _key(name: str) -> str:
    return name.replace("_", " ").strip().lower()


# What the command line offers.


def _read(given: Any) -> dict[str, Any]:
    labels = None
    if given.patterns is not None:
        labels = rows_with(given.rows, given.patterns)[1]
    X, Y = read_rows(given.rows, given.column), read_rows(given.text)
    return {"X": X, "Y": Y, "patterns": labels}


COMMAND = TaskCommand(
    name="pair_matching",
    help="""Match two images with two statements that differ in a detail; both must be right.

    DATA is MMVP-VLM. The first modality has the queries, for --fit-on and --bank.

    Example: modgap task pair_matching --model hf:openai/clip-vit-base-patch32 --data MMVP_VLM

    Example: modgap task pair_matching images.npy --text statements.npy --patterns patterns.txt
    """,
    options=(
        Option("text", Path, panel=ROWS, needed=True),
        Option("patterns", panel=ROWS),
        COLUMN,
        IMAGES,
        Option("prefix", str, PHOTO_OF, panel=MODEL),
        Option("asking", Asking, "text"),
    ),
    read=_read,
    open=lambda given: open_mmvp(given.data, images=given.images),
    settings=("prefix",),
    prepare=lambda inputs, given, progress: Prepared(
        pair_matching_task(**inputs, asking=given.asking, names=given.names, metric=given.metric)
    ),
)
