"""A correction inside mteb: an encoder around any other, which reports on what it embedded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import Any

import numpy as np
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.models import EncoderProtocol, ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.similarity_functions import select_pairwise_similarity, select_similarity
from mteb.types import PromptType

from modgap.adapters.mteb_report import MtebReport, MtebRows, report_pairs, task_modalities
from modgap.adapters.vectors import VectorCorrection
from modgap.arrays import to_numpy
from modgap.core.checks import InputTypeError, InputValueError, check_choice
from modgap.core.results import spoken
from modgap.corrections import Correction, Metric, Role, label
from modgap.corrections.fingerprints import fingerprint
from modgap.io import Modalities

_SCORING: dict[Metric, ScoringFunction] = {
    "cosine": ScoringFunction.COSINE,
    "inner_product": ScoringFunction.DOT_PRODUCT,
    "euclidean": ScoringFunction.EUCLIDEAN,
}
_METRICS = {scoring: metric for metric, scoring in _SCORING.items()}
# The columns of mteb that hold what is embedded; others repeat the text or describe it.
_COLUMNS = ("image", "text", "audio", "video")


class MtebEncoder:
    """Corrected embeddings of another encoder of mteb, and a report on the gap in its tasks.

    mteb says which inputs are queries; all others are documents. The modality is that of the input:
    one with an image and a text is "image+text", and refused by a correction without that name.
    ``mteb_model_meta`` names the correction and its metric, so that mteb keeps results with and
    without it apart.

    Parameters
    ----------
    model : EncoderProtocol
        What embeds: ``mteb.get_model(name)``.
    correction : Correction, optional
        Fitted on embeddings of the same model. Without one, embeddings stay as they are.
    trust_rows : bool
        Warn of documents of another model or modality where they would be refused.
    keep_rows : bool
        Keep the embeddings of the model in memory, for ``report`` and ``modalities``.
    """

    def __init__(
        self,
        model: EncoderProtocol,
        correction: Correction | None = None,
        *,
        trust_rows: bool = False,
        keep_rows: bool = True,
    ) -> None:
        if not isinstance(model, EncoderProtocol):
            raise InputTypeError(
                f"model must be an encoder of mteb, got {type(model).__name__}. Open one: "
                "mteb.get_model(name)."
            )
        self.model, self._keep_rows = model, keep_rows
        self._rows: dict[tuple[str, str, str], MtebRows] = {}
        meta = model.mteb_model_meta or ModelMeta.create_empty()
        self._raw_metric = _METRICS.get(meta.similarity_fn_name, "cosine")
        self._vectors: VectorCorrection | None = None
        if correction is not None:
            self._vectors = VectorCorrection(correction, trust_rows=trust_rows)
            meta = _corrected_meta(meta, correction)
        self.mteb_model_meta: ModelMeta = meta

    def encode(self, inputs: Any, *, prompt_type: PromptType | None = None, **options: Any) -> Any:
        """Corrected embeddings (n, d) of what a loader of mteb gives."""
        task = options["task_metadata"].name
        modalities = _modalities_of(inputs.dataset, task)
        if self._vectors is not None:
            _check_served(self._vectors.correction, {*modalities}, task, prompt_type)
        found = self.model.encode(inputs, prompt_type=prompt_type, **options)
        rows = to_numpy(found)
        if rows.ndim != 2 or len(rows) != len(modalities):
            raise InputValueError(
                f"The model must give one vector for each of the {len(modalities)} inputs of "
                f"{task}, got shape {rows.shape}."
            )
        role: Role = "query" if prompt_type == PromptType.query else "document"
        if self._keep_rows:
            ids = inputs.dataset["id"] if "id" in inputs.dataset.features else None
            split = task, options["hf_subset"], options["hf_split"]
            self._rows.setdefault(split, MtebRows(*split)).add(modalities, role, ids, rows)
        if self._vectors is None:
            return found
        correct = self._vectors.queries if role == "query" else self._vectors.documents
        made = np.empty((len(rows), self._vectors.correction.dim_out), np.float32)
        for modality in {*modalities}:
            own = np.array(modalities) == modality
            made[own] = correct(rows[own], modality)
        return made

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of every two embeddings, by the metric of the correction."""
        if self._vectors is None:
            return self.model.similarity(embeddings1, embeddings2)
        return select_similarity(embeddings1, embeddings2, _SCORING[self._vectors.metric])

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of embeddings row by row, by the metric of the correction."""
        if self._vectors is None:
            return self.model.similarity_pairwise(embeddings1, embeddings2)
        return select_pairwise_similarity(embeddings1, embeddings2, _SCORING[self._vectors.metric])

    def modalities(self, task: AbsTask, subset: str = "default", split: str = "test") -> Modalities:
        """What the model embedded in a task, and what matches: rows to fit a correction on."""
        held = {(one.subset, one.split): one for one in self._rows_of(task)}
        rows = held[check_choice((subset, split), "(subset, split)", tuple(held))]
        return task_modalities([rows], rows.names)

    def report(self, tasks: AbsTask | Iterable[AbsTask]) -> MtebReport:
        """The gap, the cones and mixed search for every two modalities of tasks that were run.

        Rows are as the model gave them; mixed search is also reported after the correction.
        """
        several = [tasks] if isinstance(tasks, AbsTask) else tasks
        rows = [
            one
            for task in several
            for single in getattr(task.metadata, "tasks", [task])  # those of an aggregate
            for one in self._rows_of(single)
        ]
        correction = None if self._vectors is None else self._vectors.correction
        name = str(self.mteb_model_meta.model_name_with_experiment)
        return MtebReport(name, report_pairs(rows, self._raw_metric, correction))

    def _rows_of(self, task: AbsTask) -> list[MtebRows]:
        """What was embedded in each subset and split of a task, with its matches."""
        name = task.metadata.name
        found = [rows for key, rows in self._rows.items() if key[0] == name]
        if not found:
            raise InputValueError(
                f"No rows of {name} were kept. Run mteb.evaluate with this encoder first; with "
                "cache=None, because mteb does not embed again what its cache has."
            )
        if isinstance(task, AbsTaskRetrieval):
            loaded = task.data_loaded
            if not loaded:
                task.load_data()
            task.convert_v1_dataset_format_to_v2(num_proc=None)
            for rows in found:
                rows.match(task.dataset[rows.subset][rows.split]["relevant_docs"])
            if not loaded:
                task.unload_data()
        return found


def _corrected_meta(meta: ModelMeta, correction: Correction) -> ModelMeta:
    """The model with its correction: mteb files results by ``experiment_kwargs``."""
    maps = fingerprint(correction)[:8], fingerprint(correction, "query", correction.queries)[:8]
    name = f"{label(correction)} {'-'.join(maps)}"
    return meta.model_copy(
        update={
            "similarity_fn_name": _SCORING[correction.metric],
            "embed_dim": correction.dim_out,
            "experiment_kwargs": {**(meta.experiment_kwargs or {}), "modgap": name},
        }
    )


def _modalities_of(dataset: Any, task: str) -> list[str]:
    """The modality of each input; several at once are joined with a plus."""
    columns = [name for name in _COLUMNS if name in dataset.features]
    if not columns:
        raise InputValueError(
            f"The inputs of {task} are none of {spoken(_COLUMNS)}: {', '.join(dataset.features)}."
        )
    if len(columns) == 1 or not hasattr(dataset, "with_format"):
        return ["+".join(columns)] * len(dataset)
    found: list[str] = []
    for batch in dataset.select_columns(columns).with_format("arrow").iter(1000):
        # An empty text stands for none, because loaders of mteb refuse None.
        there = [
            [value.is_valid and (name != "text" or value.as_py() != "") for value in batch[name]]
            for name in columns
        ]
        found += ["+".join(compress(columns, item)) for item in zip(*there, strict=True)]
    return found


def _check_served(
    correction: Correction, modalities: set[str], task: str, prompt_type: PromptType | None
) -> None:
    """Refuse what the correction is not for, before it is embedded."""
    others = sorted(modalities - {*correction.names})
    if others:
        raise InputValueError(
            f"{task} has {spoken(others)} inputs, and the correction is for "
            f"{spoken(correction.names)}. Leave this task out, or run it without a correction."
        )
    if prompt_type is None and correction.roles_differ:
        raise InputValueError(
            f"{task} does not say which inputs are queries, and {label(correction)} maps queries "
            "and documents differently. Leave this task out, or use a correction that maps both "
            "alike, such as Center()."
        )
    if prompt_type == PromptType.query:
        for modality in sorted(modalities):
            correction.check_serves(modality)
