"""The modality gap of a model in tasks of mteb, before and after a correction.

    python examples/mteb_report.py
    python examples/mteb_report.py MODEL TASK TASK

The names are those of mteb. The correction is fitted on what the model embeds in the first task,
and judged on the second, such as MSCOCOT2IRetrieval and Flickr30kT2IRetrieval.
Without arguments, a model that knows the digits of modgap runs two tasks made of them, offline
(pip install 'modgap[mteb]').
"""

from __future__ import annotations

import sys
from typing import Any

import mteb
import numpy as np
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from PIL import Image

import modgap
from datasets import Dataset
from modgap.adapters import MtebEncoder
from modgap.adapters.mteb_report import MtebReport


def main(model: Any, first: AbsTaskRetrieval, second: AbsTaskRetrieval) -> MtebReport:
    """Fit a correction on the first task, and report on the second with and without it."""
    raw = MtebEncoder(model)
    mteb.evaluate(raw, first, cache=None)
    correction = modgap.Calibrate().fit(raw.modalities(first)).correction_
    encoder = MtebEncoder(model, correction)
    mteb.evaluate(encoder, second, cache=None)
    report = encoder.report(second)
    print(report)
    return report


class DigitTask(AbsTaskRetrieval):
    """Captions of scans of digits ask for the scans; no download."""

    metadata = TaskMetadata(
        name="DigitsT2I",
        description="Captions of scans of digits, and the scans.",
        reference="https://scikit-learn.org/stable/datasets/toy_dataset.html",
        dataset={"path": "none", "revision": "none"},
        type="Any2AnyRetrieval",
        category="t2i",
        modalities=["image", "text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("1998-07-01", "1998-07-01"),
        domains=[],
        task_subtypes=[],
        license="cc-by-4.0",
        annotations_creators="derived",
        dialect=[],
        sample_creation="found",
        bibtex_citation="",
    )

    def __init__(self, n: int = 300, first: int = 0) -> None:
        super().__init__()
        self.scans = range(first, first + n)

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """One caption and one scan each."""
        digits = modgap.load_digits()
        captions = np.array(digits.captions).reshape(-1, 5)[:, 0]
        names = [str(scan) for scan in self.scans]
        pictures = [picture_of(digits.images[scan]) for scan in self.scans]
        queries = Dataset.from_dict({"id": names, "text": captions[self.scans].tolist()})
        corpus = Dataset.from_dict({"id": names, "image": pictures})
        relevant = {name: {name: 1} for name in names}
        self.dataset = {"default": {"test": RetrievalSplitData(
            queries=queries, corpus=corpus, relevant_docs=relevant, top_ranked=None
        )}}  # fmt: skip
        self.data_loaded = True


class DigitModel(AbsEncoder):
    """Gives the rows that ship with modgap, by caption and by the pixels of the scan."""

    mteb_model_meta = ModelMeta.create_empty(
        {
            "name": "modgap/digits",
            "modalities": ["text", "image"],
            "similarity_fn_name": ScoringFunction.COSINE,
        }
    )

    def __init__(self) -> None:
        digits = modgap.load_digits()
        pixels = [picture_of(image).tobytes() for image in digits.images]
        self.rows = dict(zip((*digits.captions, *pixels), (*digits.Y, *digits.X), strict=True))

    def encode(self, inputs: Any, **kwargs: Any) -> np.ndarray:
        """The row of each item."""
        items = [item for batch in inputs for item in batch.get("image") or batch["text"]]
        keys = [item if isinstance(item, str) else item.tobytes() for item in items]
        return np.stack([self.rows[key] for key in keys])


def picture_of(scan: np.ndarray) -> Image.Image:
    """A scan of 8 × 8 pixels as a picture."""
    return Image.fromarray((15 * scan).astype(np.uint8)).convert("RGB")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        name, *tasks = sys.argv[1:]
        main(mteb.get_model(name), *mteb.get_tasks(tasks))
    elif len(sys.argv) == 1:
        main(DigitModel(), DigitTask(300), DigitTask(300, first=300))
    else:
        sys.exit(__doc__)
