"""The routes under /api."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Path, Query, Request, Response

from modgap.core.checks import InputError
from modgap.corrections import make_corrector
from modgap.reports.rows import media_type
from modgap.serve.document import LiveDocument, report_words
from modgap.serve.explorer import Explorer
from modgap.serve.jobs import Job, Jobs
from modgap.serve.models import (
    MAX_CONTAINS,
    MAX_LIMIT,
    MAX_ROW,
    CorrectionList,
    DataInfo,
    FitRequest,
    FittedCorrection,
    ItemPage,
    JobStarted,
    JobStatus,
    Problem,
    ReportDocument,
    ReportStatus,
    SearchAnswer,
    SearchRequest,
)
from modgap.serve.workbench import RECOMMENDED, Fitted


def _of_app(name: str) -> Any:
    async def found(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(found)


TheExplorer = Annotated[Explorer, _of_app("explorer")]
TheDocument = Annotated[LiveDocument, _of_app("document")]
TheJobs = Annotated[Jobs, _of_app("jobs")]
Identifier = Annotated[str, Path(description="As a list or a request gave it.", max_length=64)]
_REFUSALS = {
    401: "A token is needed and was not sent.",
    403: "The request comes from another site.",
    404: "There is nothing of that name.",
    409: "The data does not allow it; detail says why.",
    413: "The request is too large.",
    414: "The address is too long.",
    421: "The server does not answer to this name.",
    422: "The request cannot be used; detail says why.",
    429: "Too many jobs are waiting.",
    431: "The headers are too large.",
}
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


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may refuse, as OpenAPI declares it."""
    return {s: {"model": Problem, "description": _REFUSALS[s]} for s in statuses}


api = APIRouter(prefix="/api")


# -- the data -------------------------------------------------------------------------------------


@api.get(
    "/report",
    tags=["data"],
    response_class=Response,
    responses={
        200: {"model": ReportDocument, "description": "The document."},
        202: {"model": ReportStatus, "description": "It is being made; ask again."},
        **refusals(409),
    },
)
def report_document(document: TheDocument) -> Response:
    """The document of the page, made once in the background from the start of the server."""
    job = document.state()
    if not job.ended:
        return Response(_status(job).model_dump_json(), 202, media_type="application/json")
    if job.state != "done":
        fault = job.state == "failed" and not job.refused
        raise HTTPException(500 if fault else 409, report_words(job))
    return Response(job.result, media_type="application/json")


@api.post("/report", tags=["data"], status_code=202, responses=refusals(429))
def make_report(document: TheDocument) -> ReportStatus:
    """Make the report anew where it failed or was cancelled; else it stays as it is."""
    return _status(document.again())


@api.delete("/report", tags=["data"])
def cancel_report(document: TheDocument) -> ReportStatus:
    """Cancel the report. It ends at once, unless it had ended; the rest of the page stays."""
    return _status(document.cancel())


def _status(job: Job) -> ReportStatus:
    return ReportStatus.model_validate({**vars(job), "detail": report_words(job)})


@api.get("/info", tags=["data"])
def info(explorer: TheExplorer) -> DataInfo:
    """The data: names, numbers of rows, their captions and ids, and the methods to fit."""
    return explorer.info()


@api.get("/items", tags=["data"], responses=refusals(422))
def items(
    explorer: TheExplorer,
    modality: Annotated[str, Query(max_length=200, examples=["text"])],
    contains: Annotated[
        str, Query(max_length=MAX_CONTAINS, description="Part of the caption or of the id.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=MAX_ROW)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
) -> ItemPage:
    """Rows of one modality in the live index, in the order of the data.

    Upper and lower case are the same.
    """
    return explorer.rows.find(modality, contains, offset, limit)


@api.get(
    "/thumbnails/{modality:path}/{row}",
    tags=["data"],
    response_class=Response,
    responses={
        200: {"content": {"image/png": {}, "image/jpeg": {}}, "description": "The image."},
        **refusals(404, 422),
    },
)
def thumbnail(
    explorer: TheExplorer,
    modality: Annotated[str, Path(examples=["image"])],
    row: Annotated[str, Path(description="Row number in the data.", examples=["17"])],
) -> Response:
    """The image of a row, PNG or JPEG, where images were given to the server."""
    if modality in explorer.data.names and row.isascii() and row.isdigit() and len(row) < 16:
        picture = explorer.rows.thumbnail(modality, int(row))
        kind = None if picture is None else media_type(picture)
        if kind is not None:
            return Response(picture, media_type=kind)
    raise HTTPException(404, "There is no such image.")


@api.post("/search", tags=["search"], responses=refusals(404, 422))
def search_rows(
    explorer: TheExplorer, asked: Annotated[SearchRequest, Body(openapi_examples=_SEARCHES)]
) -> SearchAnswer:
    """The nearest rows in one index of both modalities.

    The server's metric ranks the raw rows. The metric of the correction ranks the corrected rows
    beside them: the query is mapped as a query, the rows as documents. Where a
    correction serves one modality of queries, the one for the modality of this query is used. A
    larger score is nearer. Where it merges by expected wrong results, each corrected result has
    them, and ``at_most`` cuts there.
    """
    return explorer.search(**asked.model_dump())


# -- corrections and jobs -------------------------------------------------------------------------


@api.get("/corrections", tags=["corrections"])
def corrections(explorer: TheExplorer, document: TheDocument) -> CorrectionList:
    """The corrections that can be searched with.

    The recommended one first, once the report is made, then those fitted here by age.
    """
    listed = explorer.corrections.listed()
    return CorrectionList(
        corrections=[FittedCorrection.model_validate(one) for one in listed.values()],
        none_recommended=None if RECOMMENDED in listed else document.why_none(),
    )


@api.post("/corrections", tags=["corrections"], status_code=202, responses=refusals(409, 422, 429))
def fit_correction(
    explorer: TheExplorer,
    jobs: TheJobs,
    asked: Annotated[FitRequest, Body(openapi_examples=_FITS)],
    response: Response,
) -> JobStarted:
    """Fit and evaluate a correction.

    It is fitted on one split of the rows and evaluated on another, the same as in `modgap
    diagnose`. A method that serves one modality of queries is fitted for each; the metrics are
    about the query modality. The job's result is the correction, with an identifier to search
    with.
    """
    corrector = make_corrector(asked.method, asked.parameters)
    try:
        explorer.bench.check(corrector)
    except InputError as error:
        raise HTTPException(409, str(error)) from error

    def keep(made: Fitted) -> FittedCorrection:
        explorer.corrections.add(made)
        return FittedCorrection.model_validate(made)

    job = jobs.submit(corrector.label, partial(explorer.try_out, corrector), keep)
    response.headers["Location"] = f"/api/jobs/{job.id}"
    return JobStarted(job=job.id)


@api.get(
    "/corrections/{id}/file",
    tags=["corrections"],
    response_class=Response,
    responses={
        200: {
            "content": {"application/octet-stream": {}},
            "description": "The safetensors file that Correction.load and modgap apply read.",
        },
        **refusals(404, 422),
    },
)
def correction_file(
    explorer: TheExplorer,
    id: Identifier,  # noqa: A002
    queries: Annotated[
        str | None,
        Query(
            max_length=200,
            description="The modality whose queries it is for; the evaluated one by default.",
            examples=["text"],
        ),
    ] = None,
) -> Response:
    """A correction as one small safetensors file, for the queries that it serves."""
    name, data = explorer.corrections.file(id, queries)
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, headers=disposition, media_type="application/octet-stream")


@api.get("/jobs/{id}", tags=["corrections"], response_model=JobStatus, responses=refusals(404, 422))
def job(jobs: TheJobs, id: Identifier) -> Job:  # noqa: A002
    """The state and step of a job and, at the end, its result or why it failed."""
    return _there(jobs.get(id), id)


@api.delete(
    "/jobs/{id}", tags=["corrections"], response_model=JobStatus, responses=refusals(404, 422)
)
def cancel(jobs: TheJobs, id: Identifier) -> Job:  # noqa: A002
    """Cancel a job, or forget one that has ended.

    It ends at once, and nothing of it is kept. Where it was in the middle of something, it stops
    within a block of rows; the next job starts then.
    """
    return _there(jobs.cancel(id), id)


def _there(job: Job | None, identifier: str) -> Job:
    if job is None:
        raise HTTPException(404, f"There is no job {identifier!r}. It may have ended long ago.")
    return job
