"""A model and data in place of files of rows: embedded once, kept, and read by the entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.results import Progress, silent, spoken
from modgap.embed import Model, embed, open_model
from modgap.io import Items, open_items, open_modality
from modgap.io.images import ImageError, unpack_image
from modgap.io.items import Item
from modgap.reproduce.own_rows import read_own_rows
from modgap.reproduce.setting import NO_PAIRS, NotAtHand, OwnRows
from modgap.tasks import (
    AOKVQA,
    MMVP,
    FairFace,
    LabelledItems,
    open_aokvqa,
    open_fairface,
    open_mmvp,
)
from modgap.tasks.zero_shot import one_row_per_class

# Another wording of a class than that of `modgap.tasks.zero_shot`.
OTHER_TEMPLATES = {"image": "a picture showing a {}.", "audio": "a recording of {}."}
# With fewer, the first item of each is no set of pairs that anything could be said of.
_CLASSES_AS_PAIRS = 20
# Images that cones are made of at the least, and the size of noise.
_FEWEST, _NOISE_SIDE, _NOISE_LETTERS = 4, 224, 40
# The data sets of tasks, by the file that tells them.
_TASKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "fairface_label_val.csv": ("faces", open_fairface),
    "aokvqa_v1p0_val.json": ("questions", open_aokvqa),
    "Questions.csv": ("matching", open_mmvp),
}


@dataclass(eq=False)
class ModelData:
    """A model, the data that it is put to, and the folder that its rows are kept in.

    ``items`` are images or sounds with captions or classes; ``generated`` are images or captions
    by what made them. ``random`` gives the same model with random weights, drawn with a seed.
    """

    name: str | Model
    folder: Path
    items: tuple[Items, ...] = ()
    faces: FairFace | None = None
    questions: AOKVQA | None = None
    matching: MMVP | None = None
    generated: Mapping[str, Items] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = None

    @cached_property
    def model(self) -> Model:
        """The model itself, opened when it is first needed."""
        return open_model(self.name, **self.options)

    def random(self, seed: int, **variants: Any) -> Model:
        """The same architecture with random weights; see `modgap.embed.open_model`."""
        if isinstance(self.name, Model):
            raise NotAtHand("Random weights need a model by its name, such as hf:NAME.")
        return open_model(self.name, random=seed, **self.options, **variants)

    @property
    def words(self) -> str:
        """What it is, for reports."""
        tasks = (self.faces, self.questions, self.matching)
        sets = [*self.items, *(each for each in tasks if each is not None)]
        sources = [Path(each.source).name for each in sets] + list(self.generated)
        return f"{self.model.name} on {spoken(sources)}"

    def embedded(self, items: Items, model: Model | None = None) -> Path:
        """The folder with the rows of items, embedded at the first call."""
        by = model or self.model
        told = [by.name, str(Path(items.source).resolve()), *map(str, items.splits()), len(items)]
        digest = hashlib.sha256("\n".join(map(str, told)).encode()).hexdigest()[:12]
        place = self.folder / f"{Path(items.source).stem}-{digest}"
        embed(by, items, place, progress=self.progress)
        return place

    def rows(self, items: Items, model: Model | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows of images, sounds or texts, and which of the items they are of.

        Items that cannot be read have none.
        """
        side = open_modality(self.embedded(items, model), items.kind)
        places = {name: place for place, name in enumerate(items.names)}
        assert side.ids is not None
        which = np.array([places[str(name)] for name in side.ids], dtype=np.int64)
        return np.array(side.rows(), dtype=np.float32), which

    def texts(self, texts: Sequence[str], model: Model | None = None) -> np.ndarray:
        """A row for each text, in the order given."""
        distinct = list(dict.fromkeys(texts))
        digest = hashlib.sha256("\n".join(distinct).encode()).hexdigest()[:12]
        items = Items(f"texts-{digest}", [Item(str(k), (t,)) for k, t in enumerate(distinct)],
                      "text")  # fmt: skip
        rows, which = self.rows(items, model)
        place = {distinct[k]: row for row, k in enumerate(which.tolist())}
        return rows[[place[text] for text in texts]]

    def inputs(self, data: AOKVQA | MMVP | FairFace, **options: Any) -> Mapping[str, Any]:
        """What a task takes of its data set; NotAtHand where nothing of that can be used."""
        X, which = self.rows(data.images)
        try:
            return data.inputs(X, which.tolist(), self.texts, **options).inputs
        except InputValueError as lacking:
            raise NotAtHand(str(lacking)) from lacking

    def pairs(self, model: Model | None = None) -> OwnRows | None:
        """Items with their first captions, of the first data set that has captions."""
        for items in self.items:
            if items.kind != "text" and any(items.captions(k) for k in range(len(items))):
                folder = self.embedded(items, model)
                return read_own_rows((folder, folder))
        return None

    def random_pairs(self, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The same pairs by the model with random weights; None where it has none to draw."""
        if isinstance(self.name, Model):
            return None
        found = self.pairs(self.random(seed))
        return None if found is None or found.X is None or found.Y is None else (found.X, found.Y)

    def initialised(
        self,
        seeds: Sequence[int],
        n_items: int,
        *,
        noise: bool = False,
        normalisation: bool = True,
        progress: Progress | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Some captioned images, or noise, by the model with random weights of each seed.

        Without ``normalisation`` its norm layers and that of its inputs are left out.
        """
        images, texts = _noise(n_items) if noise else self._some(n_items)
        variants = {} if normalisation else {"norm_layers": False, "input_normalisation": False}
        found = []
        for done, seed in enumerate(seeds):
            (progress or silent)(f"random weights, seed {seed}", done, len(seeds))
            model = self.random(seed, **variants)
            found.append((model.encode_images(images), model.encode_texts(texts)))
        return found

    def _some(self, count: int) -> tuple[list[Any], list[str]]:
        """The first images that can be read, with their first captions."""
        images: list[Any] = []
        texts: list[str] = []
        for items in self.items:
            for k in range(len(items) if items.kind == "image" else 0):
                if len(images) == count:
                    return images, texts
                if not items.captions(k):
                    continue
                with suppress(ImageError):
                    images.append(unpack_image(items.stored(k)))
                    texts.append(items.captions(k)[0])
        if len(images) < _FEWEST:
            raise NotAtHand(NO_PAIRS)
        return images, texts

    def classes(self) -> Items | None:
        """The first data set whose items have two classes or more."""
        return next((one for one in self.items if len({*(one.labels or ())} - {""}) > 1), None)


def _noise(count: int) -> tuple[list[Any], list[str]]:
    """Images of random pixels, and texts of random letters."""
    from PIL import Image

    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(count, _NOISE_SIDE, _NOISE_SIDE, 3), dtype=np.uint8)
    letters = rng.choice(list("abcdefghijklmnopqrstuvwxyz "), size=(count, _NOISE_LETTERS))
    return [Image.fromarray(one) for one in pixels], ["".join(one) for one in letters]


def open_model_data(
    model: str | Model,
    data: Sequence[Path],
    folder: Path,
    *,
    generated: Mapping[str, Path] | None = None,
    images: Path | None = None,
    split: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ModelData:
    """A model with data sets: tasks are known by their published layout, all else are items.

    Parameters
    ----------
    model : str or Model
        As for `modgap.embed.open_model`, which takes ``options``.
    data : sequence of paths
        FairFace, A-OKVQA and MMVP-VLM in their published layouts; captioned or classed items.
    folder : path
        Where embedded rows are kept.
    generated : mapping of str to paths, optional
        Images, or captions, by the name of what made them.
    images, split
        As for `modgap.io.open_items`, for items; ``images`` for tasks, too.
    progress : callable, optional
        Called with how many items are embedded.
    """
    found: dict[str, Any] = {}
    items = []
    for path in data:
        task = next((task for file, task in _TASKS.items() if (path / file).is_file()), None)
        if task is None:
            items.append(open_items(path, split=split, images=images))
            continue
        kind, opener = task
        if kind in found:
            raise InputValueError(f"{path} is a second data set of the same task. Give one.")
        found[kind] = opener(path, images=images)
    made = {name: open_items(path) for name, path in (generated or {}).items()}
    return ModelData(
        model, folder, tuple(items), generated=made, options=options, progress=progress, **found
    )


def own_rows_of(
    given: ModelData,
    templates: Sequence[str] = (),
    other_templates: Sequence[str] = (),
) -> OwnRows:
    """The rows of a model's data: pairs by captions, classes by labels and templates.

    Without captions the first item of each class and the text of its class are the pairs, where
    there are 20 classes at least.
    """
    rows = given.pairs() or OwnRows()
    rows.model, rows.temperature = given, given.model.temperature
    if (items := given.classes()) is None:
        return rows
    X, which = given.rows(items)
    labelled = np.array([bool(label) for label in items.labels or ()])
    kept = labelled[which]
    places = (np.cumsum(labelled) - 1)[which[kept]].tolist()
    worded = []
    for said in (templates, other_templates or (OTHER_TEMPLATES[items.kind],)):
        classes = LabelledItems(items, said or None)
        found = classes.inputs(X[kept], places, given.texts).inputs
        texts = found["class_texts"]
        worded.append(texts[:, 0] if texts.shape[1] == 1 else one_row_per_class(texts))
    rows.class_texts, rows.other_class_texts = worded
    rows.classed, rows.labels = found["X"], found["labels"]
    if rows.X is None and len(rows.class_texts) >= _CLASSES_AS_PAIRS:
        seen, at = np.unique(rows.labels, return_index=True)
        rows.X, rows.Y = rows.classed[at], rows.class_texts[seen]
        rows.taken = "the first item of each class with the text of its class"
    return rows
