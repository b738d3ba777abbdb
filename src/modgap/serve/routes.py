"""The routes under /api: each checks, asks the explorer and says what it found."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Path, Query, Response

from modgap._results import Progress
from modgap._validate import InputError
from modgap.corrections import make_corrector
from modgap.serve.document import LiveDocument
from modgap.serve.explorer import Explorer
from modgap.serve.jobs import Job, Jobs
from modgap.serve.models import (
    MAX_CONTAINS,
    MAX_LIMIT,
    MAX_ROW,
    Corrections,
    CorrectionView,
    FitRequest,
    Info,
    Items,
    JobStarted,
    JobView,
    Problem,
    Report,
    SearchAnswer,
    SearchRequest,
    Working,
)
from modgap.serve.views import (
    answer_view,
    correction_view,
    info_view,
    item_view,
    job_view,
    working_view,
)

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}

Identifier = Annotated[str, Path(description="As a list or a request gave it.", max_length=64)]


def _no(**said: str) -> dict[int | str, dict[str, Any]]:
    """Refusals of a route, declared: _no(s404="…")."""
    return {int(key[1:]): {"model": Problem, "description": text} for key, text in said.items()}


_DONE = "As asked."
_BAD = "The request cannot be used; detail says why."
_SEARCHES = {
    "row": {
        "summary": "A row of the data",
        "value": {"modality": "text", "row": 17, "k": 5, "correction": None},
    },
    "vector": {
        "summary": "A vector, here of three columns",
        "value": {"modality": "image", "vector": [0.1, -0.2, 0.3], "k": 5, "correction": None},
    },
}
_FITS = {
    "shift": {"summary": "A shift", "value": {"method": "Shift", "parameters": {"amount": 0.4}}},
    "calibrate": {
        "summary": "Calibrated scores",
        "value": {"method": "Calibrate", "parameters": {"mode": "mixed"}},
    },
}


def make_router(explorer: Explorer, document: LiveDocument, jobs: Jobs) -> APIRouter:
    """Every route of the API, for one explorer."""
    api = APIRouter(prefix="/api")

    @api.get("/info", summary="What is being explored", response_description=_DONE, tags=["data"])
    def info() -> Info:
        """Names, numbers of rows, what is known of them, and the methods that can be fitted."""
        return info_view(explorer)

    @api.get(
        "/report",
        summary="The document of the page",
        tags=["data"],
        response_class=Response,
        responses={
            200: {"model": Report, "description": "The document."},
            202: {"model": Working, "description": "It is being made; ask again."},
            **_no(s409="It cannot be made of this data; detail says why."),
        },
    )
    def report() -> Response:
        """Made once, in the background, from the start of the server."""
        job = document.state()
        if job.state in ("queued", "running"):
            working = working_view(job).model_dump_json()
            return Response(working, 202, media_type="application/json")
        if job.state != "done":
            raise HTTPException(409 if job.refused else 500, job.error or "It was cancelled.")
        return Response(job.result, media_type="application/json")

    @api.get(
        "/items",
        summary="Rows of one modality",
        response_description=_DONE,
        tags=["data"],
        responses=_no(s422=_BAD),
    )
    def items(
        modality: Annotated[str, Query(max_length=200, examples=["text"])],
        contains: Annotated[
            str, Query(max_length=MAX_CONTAINS, description="Part of the caption or of the id.")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=MAX_ROW)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
    ) -> Items:
        """Those in the live index, in the order of the data; upper and lower case are the same."""
        total, found = explorer.items(modality, contains, offset, limit)
        return Items(
            total=total, offset=offset, items=[item_view(explorer, item) for item in found]
        )

    @api.get(
        "/thumbnails/{modality:path}/{row}",
        summary="The image of a row",
        tags=["data"],
        response_class=Response,
        responses={
            200: {"content": {"image/png": {}, "image/jpeg": {}}, "description": "The image."},
            **_no(s404="There is no such image.", s422=_BAD),
        },
    )
    def thumbnail(
        modality: Annotated[str, Path(examples=["image"])],
        row: Annotated[str, Path(description="Row number in the data.", examples=["17"])],
    ) -> Response:
        """PNG or JPEG, where images were given to the server."""
        data = None
        known = modality in explorer.data.names
        if known and row.isascii() and row.isdigit() and len(row) < 16:
            data = explorer.thumbnail(modality, int(row))
        for signature, media_type in _SIGNATURES.items():
            if data is not None and data.startswith(signature):
                return Response(data, media_type=media_type)
        raise HTTPException(404, "There is no such image.")

    @api.post(
        "/search",
        summary="The nearest rows in one index of both modalities",
        response_description=_DONE,
        tags=["search"],
        responses=_no(s404="There is no such correction.", s422=_BAD),
    )
    def search(
        asked: Annotated[SearchRequest, Body(openapi_examples=_SEARCHES)],
    ) -> SearchAnswer:
        """Raw beside corrected.

        The rows as they are rank by the server's metric; corrected ones by the metric of the
        correction, the query mapped as a query and the rows as documents.
        """
        answer = explorer.search(
            asked.modality,
            row=asked.row,
            vector=asked.vector,
            k=asked.k,
            correction=asked.correction,
            index=asked.index,
        )
        return answer_view(explorer, answer)

    @api.get(
        "/corrections",
        summary="The corrections at hand",
        response_description=_DONE,
        tags=["corrections"],
    )
    def corrections() -> Corrections:
        """The recommended one first, once the report is made, then those fitted here by age."""
        return Corrections(
            corrections=[correction_view(key, f) for key, f in explorer.corrections().items()]
        )

    @api.post(
        "/corrections",
        status_code=202,
        summary="Fit and judge a correction",
        response_description=_DONE,
        tags=["corrections"],
        responses=_no(
            s409="It cannot be fitted on this data.", s422=_BAD, s429="Too many jobs are waiting."
        ),
    )
    def fit(
        asked: Annotated[FitRequest, Body(openapi_examples=_FITS)],
        response: Response,
    ) -> JobStarted:
        """Fitted on one part of the rows and judged on another, the same as `modgap diagnose` uses.

        The job's result is the correction, with an identifier to search with.
        """
        corrector = make_corrector(asked.method, asked.parameters)
        try:
            explorer.bench.check(corrector)
        except InputError as error:
            raise HTTPException(409, str(error)) from error

        def work(progress: Progress) -> CorrectionView:
            identifier = explorer.fit(corrector, progress)
            return correction_view(identifier, explorer.fitted(identifier))

        job = jobs.submit(corrector.label, work)
        response.headers["Location"] = f"/api/jobs/{job.id}"
        return JobStarted(job=job.id)

    @api.get(
        "/corrections/{id}/file",
        summary="A correction as a file",
        tags=["corrections"],
        response_class=Response,
        responses={
            200: {
                "content": {"application/octet-stream": {}},
                "description": "The safetensors file that Correction.load and modgap apply read.",
            },
            **_no(s404="There is no such correction.", s422=_BAD),
        },
    )
    def correction_file(id: Identifier) -> Response:  # noqa: A002
        """One small safetensors file."""
        name, data = explorer.file(id)
        disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, headers=disposition, media_type="application/octet-stream")

    @api.get(
        "/jobs/{id}",
        summary="Where a job stands",
        response_description=_DONE,
        tags=["corrections"],
        responses=_no(s404="There is no such job.", s422=_BAD),
    )
    def job(id: Identifier) -> JobView:  # noqa: A002
        """State, step and, at the end, the result or why it failed."""
        return job_view(_there(jobs.get(id), id))

    @api.delete(
        "/jobs/{id}",
        summary="Cancel a job, or forget one that has ended",
        response_description=_DONE,
        tags=["corrections"],
        responses=_no(s404="There is no such job.", s422=_BAD),
    )
    def cancel(id: Identifier) -> JobView:  # noqa: A002
        """A waiting job ends at once, a running one at its next step."""
        return job_view(_there(jobs.cancel(id), id))

    return api


def _there(job: Job | None, identifier: str) -> Job:
    if job is None:
        raise HTTPException(404, f"There is no job {identifier!r}. It may be long over.")
    return job
