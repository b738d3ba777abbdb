"""What the explorer holds, as the models that the API gives."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from modgap._results import plain
from modgap._version import __version__
from modgap.corrections import METHODS
from modgap.evaluation.metrics import metric_descriptions
from modgap.serve.bench import Fitted
from modgap.serve.explorer import RECOMMENDED, Answer, Explorer, Found, Item
from modgap.serve.jobs import Job
from modgap.serve.models import (
    CorrectionView,
    HitView,
    Info,
    ItemView,
    JobView,
    MethodInfo,
    ModalityInfo,
    SearchAnswer,
    Working,
)


def info_view(explorer: Explorer) -> Info:
    """What is being explored."""
    data = explorer.data
    modalities = [_modality(explorer, name) for name in data.names]
    return Info(
        version=__version__,
        names=list(data.names),
        modalities=modalities,
        dim=data.dim,
        paired=data.paired,
        metric=explorer.metric,
        model=explorer.model,
        seed=explorer.seed,
        sampling=[
            f"The live index holds {m.live_rows:,} of the {m.rows:,} {m.name} rows, a sample drawn "
            f"with seed {explorer.seed}."
            for m in modalities
            if m.live_rows < m.rows
        ],
        metrics=metric_descriptions(data.names),
        methods=[
            MethodInfo(available=data.paired or not method.needs_pairs, **asdict(method))
            for method in METHODS.values()
        ],
    )


def _modality(explorer: Explorer, name: str) -> ModalityInfo:
    side = explorer.side(name)
    return ModalityInfo(
        name=name,
        rows=side.n_rows,
        live_rows=len(explorer.index.live[name]),
        captions="captions" in side.columns,
        ids="ids" in side.columns,
        thumbnails=explorer.has_thumbnails(name),
    )


def item_view(explorer: Explorer, item: Item) -> ItemView:
    """A row, and where its image is."""
    return ItemView(**_item(explorer, item))


def answer_view(explorer: Explorer, answer: Answer) -> SearchAnswer:
    """The hits of a search."""
    corrected = answer.corrected
    return SearchAnswer(
        query=None if answer.query is None else item_view(explorer, answer.query),
        metric=answer.metric,
        raw=[_hit(explorer, found) for found in answer.raw],
        corrected_metric=answer.corrected_metric,
        corrected=None if corrected is None else [_hit(explorer, found) for found in corrected],
    )


def _hit(explorer: Explorer, found: Found) -> HitView:
    return HitView(**_item(explorer, found.item), score=found.score, match=found.match)


def _item(explorer: Explorer, item: Item) -> dict[str, Any]:
    at = None
    if explorer.has_thumbnails(item.modality):
        at = f"/api/thumbnails/{quote(item.modality, safe='')}/{item.row}"
    return {**asdict(item), "thumbnail": at}


def correction_view(identifier: str, fitted: Fitted) -> CorrectionView:
    """A correction and its metrics."""
    return CorrectionView(
        id=identifier,
        name=fitted.name,
        metric=fitted.correction.metric,
        recommended=identifier == RECOMMENDED,
        about=plain(fitted.correction.about),
        n_groups=fitted.n_groups,
        raw=plain(fitted.raw),
        corrected=plain(fitted.corrected),
    )


def job_view(job: Job) -> JobView:
    """Where a job stands."""
    shown = ("id", "title", "state", "step", "done", "total", "result", "error")
    return JobView(**{name: getattr(job, name) for name in shown})


def working_view(job: Job) -> Working:
    """How far the report is."""
    said = "The report is being made"
    if job.step:
        said += f": {job.step}"
    if job.total:
        said += f" ({min(job.done + 1, job.total)} of {job.total})"
    return Working(
        detail=f"{said}.",
        state="queued" if job.state == "queued" else "running",
        step=job.step,
        done=job.done,
        total=job.total,
    )
