"""The routes under /api: each checks, asks the explorer and says what it found."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Path, Query, Response

from modgap._results import Progress
from modgap._validate import InputError
from modgap.corrections import make_corrector
from modgap.reports.thumbnails import media_type
from modgap.serve.document import LiveDocument, report_words
from modgap.serve.explorer import Explorer
from modgap.serve.fitted import RECOMMENDED, Fitted, describe
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
    ReportProgress,
    ReportStatus,
    SearchAnswer,
    SearchRequest,
)

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


def add_route(
    router: Any,
    route: str,
    tag: str,
    *refused: int,
    responses: dict[int | str, dict[str, Any]] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a route such as "GET /items", and the statuses it may refuse with.

    The first sentence of the function's docstring is its summary, the rest its description.
    ``options`` are more of FastAPI's.
    """
    method, address = route.split()

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        summary, about = re.split(r"\.\s+", inspect.getdoc(function) or "", maxsplit=1)
        router.add_api_route(
            address,
            function,
            methods=[method],
            tags=[tag],
            summary=summary,
            description=about,
            responses={**(responses or {}), **refusals(*refused)},
            response_description="As asked.",
            **options,
        )
        return function

    return add


def make_router(explorer: Explorer, document: LiveDocument, jobs: Jobs) -> APIRouter:
    """Every route of the API, for one explorer."""
    api = APIRouter(prefix="/api")
    _add_report(api, document)
    _add_data(api, explorer)
    _add_corrections(api, explorer, document, jobs)
    _add_jobs(api, jobs)
    return api


def _add_report(api: APIRouter, document: LiveDocument) -> None:
    @add_route(
        api,
        "GET /report",
        "data",
        409,
        response_class=Response,
        responses={
            200: {"model": ReportDocument, "description": "The document."},
            202: {"model": ReportProgress, "description": "It is being made; ask again."},
        },
    )
    def report() -> Response:
        """The document of the page. Made once, in the background, from the start of the server."""
        job = document.state()
        if not job.ended:
            working = ReportProgress.model_validate({**vars(job), "detail": report_words(job)})
            return Response(working.model_dump_json(), 202, media_type="application/json")
        if job.state != "done":
            fault = job.state == "failed" and not job.refused
            raise HTTPException(500 if fault else 409, report_words(job))
        return Response(job.result, media_type="application/json")

    def status(job: Job) -> ReportStatus:
        return ReportStatus(detail=report_words(job), state=job.state)

    @add_route(api, "POST /report", "data", 429, status_code=202)
    def make_report() -> ReportStatus:
        """Make the report anew. Where it failed or was cancelled; else it stays as it is."""
        return status(document.again())

    @add_route(api, "DELETE /report", "data")
    def cancel_report() -> ReportStatus:
        """Cancel the report. It ends at once, unless it had ended; the rest of the page stays."""
        return status(document.cancel())


def _add_data(api: APIRouter, explorer: Explorer) -> None:
    @add_route(api, "GET /info", "data")
    def info() -> DataInfo:
        """What is being explored.

        Names, numbers of rows, what is known of them, and the methods that can be fitted.
        """
        return explorer.info()

    @add_route(api, "GET /items", "data", 422)
    def items(
        modality: Annotated[str, Query(max_length=200, examples=["text"])],
        contains: Annotated[
            str, Query(max_length=MAX_CONTAINS, description="Part of the caption or of the id.")
        ] = "",
        offset: Annotated[int, Query(ge=0, le=MAX_ROW)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
    ) -> ItemPage:
        """Rows of one modality.

        Those in the live index, in the order of the data; upper and lower case are the same.
        """
        return explorer.rows.find(modality, contains, offset, limit)

    @add_route(
        api,
        "GET /thumbnails/{modality:path}/{row}",
        "data",
        404,
        422,
        response_class=Response,
        responses={
            200: {"content": {"image/png": {}, "image/jpeg": {}}, "description": "The image."}
        },
    )
    def thumbnail(
        modality: Annotated[str, Path(examples=["image"])],
        row: Annotated[str, Path(description="Row number in the data.", examples=["17"])],
    ) -> Response:
        """The image of a row. PNG or JPEG, where images were given to the server."""
        if modality in explorer.data.names and row.isascii() and row.isdigit() and len(row) < 16:
            picture = explorer.rows.thumbnail(modality, int(row))
            kind = None if picture is None else media_type(picture)
            if kind is not None:
                return Response(picture, media_type=kind)
        raise HTTPException(404, "There is no such image.")

    @add_route(api, "POST /search", "search", 404, 422)
    def search(asked: Annotated[SearchRequest, Body(openapi_examples=_SEARCHES)]) -> SearchAnswer:
        """The nearest rows in one index of both modalities.

        The rows as they are get ranked by the server's metric, the corrected ones beside them by
        the metric of the correction: the query is mapped as a query, the rows as documents. Where
        a correction serves one modality of queries, the one for the modality of this query is
        used. A larger score is nearer.
        """
        return explorer.search(**asked.model_dump())


def _add_corrections(
    api: APIRouter, explorer: Explorer, document: LiveDocument, jobs: Jobs
) -> None:
    fitted = explorer.corrections

    @add_route(api, "GET /corrections", "corrections")
    def corrections() -> CorrectionList:
        """The corrections that can be searched with.

        The recommended one first, once the report is made, then those fitted here by age.
        """
        listed = fitted.listed()
        return CorrectionList(
            corrections=[describe(*entry) for entry in listed.items()],
            none_recommended=None if RECOMMENDED in listed else document.why_none(),
        )

    @add_route(api, "POST /corrections", "corrections", 409, 422, 429, status_code=202)
    def fit(
        asked: Annotated[FitRequest, Body(openapi_examples=_FITS)], response: Response
    ) -> JobStarted:
        """Fit and evaluate a correction.

        It is fitted on one split of the rows and evaluated on another, the same as in `modgap
        diagnose`. A method that serves one modality of queries is fitted for each; the metrics are
        those of the modality that asks. The job's result is the correction, with an identifier to
        search with.
        """
        corrector = make_corrector(asked.method, asked.parameters)
        try:
            explorer.bench.check(corrector)
        except InputError as error:
            raise HTTPException(409, str(error)) from error

        def work(progress: Progress) -> tuple[str, Fitted]:
            return explorer.try_out(corrector, progress)

        def keep(made: tuple[str, Fitted]) -> FittedCorrection:
            fitted.add(*made)
            return describe(*made)

        job = jobs.submit(corrector.label, work, keep)
        response.headers["Location"] = f"/api/jobs/{job.id}"
        return JobStarted(job=job.id)

    @add_route(
        api,
        "GET /corrections/{id}/file",
        "corrections",
        404,
        422,
        response_class=Response,
        responses={
            200: {
                "content": {"application/octet-stream": {}},
                "description": "The safetensors file that Correction.load and modgap apply read.",
            }
        },
    )
    def correction_file(
        id: Identifier,  # noqa: A002
        queries: Annotated[
            str | None,
            Query(
                max_length=200,
                description="The modality whose queries it is for; that of the metrics by default.",
                examples=["text"],
            ),
        ] = None,
    ) -> Response:
        """A correction as a file. One small safetensors file for the queries that it serves."""
        name, data = fitted.file(id, queries)
        disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, headers=disposition, media_type="application/octet-stream")


def _add_jobs(api: APIRouter, jobs: Jobs) -> None:
    @add_route(api, "GET /jobs/{id}", "corrections", 404, 422, response_model=JobStatus)
    def job(id: Identifier) -> Job:  # noqa: A002
        """Where a job stands. State, step and, at the end, the result or why it failed."""
        return _there(jobs.get(id), id)

    @add_route(api, "DELETE /jobs/{id}", "corrections", 404, 422, response_model=JobStatus)
    def cancel(id: Identifier) -> Job:  # noqa: A002
        """Cancel a job, or forget one that has ended.

        It ends at once, and nothing of it is kept. Where it was in the middle of something, it
        stops within a block of rows; the next job starts then.
        """
        return _there(jobs.cancel(id), id)


def _there(job: Job | None, identifier: str) -> Job:
    if job is None:
        raise HTTPException(404, f"There is no job {identifier!r}. It may have ended long ago.")
    return job
