"""The FastAPI app: the page and its files, the API, and its error messages."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from modgap._version import __version__
from modgap.core.checks import InputError
from modgap.drift import GapMonitor
from modgap.reports.assemble import plotly_script, script, shell_html, styles
from modgap.serve.docs import docs_page
from modgap.serve.document import LiveDocument, MakeDocument
from modgap.serve.explorer import Explorer
from modgap.serve.guard import Guard
from modgap.serve.jobs import Jobs, QueueFull
from modgap.serve.models import Health
from modgap.serve.monitoring import add_metrics
from modgap.serve.routes import api, refusals
from modgap.serve.server import LOOPBACK_NAMES
from modgap.serve.workbench import Unknown

PAGE = "index.html"

_DESCRIPTION = (
    "The live explorer of modgap: search one index of two modalities, raw beside corrected, and "
    "fit and evaluate corrections on held-out rows. Errors are JSON with one sentence in detail."
)


@dataclass(frozen=True)
class Asset:
    """A file of the page: its bytes, its type, and a tag that changes when it does."""

    data: bytes
    media_type: str

    @property
    def tag(self) -> str:
        """The ETag, with which a browser checks its copy."""
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


def live_assets() -> dict[str, Asset]:
    """The page, its scripts and its styles, as the live explorer serves them."""
    return {
        "index.html": Asset(shell_html().encode(), "text/html; charset=utf-8"),
        "app.js": Asset(script(live=True).encode(), "text/javascript; charset=utf-8"),
        "plotly.js": Asset(plotly_script().encode(), "text/javascript; charset=utf-8"),
        "app.css": Asset(styles(live=True).encode(), "text/css; charset=utf-8"),
    }


def make_app(
    explorer: Explorer,
    make_document: MakeDocument | None = None,
    *,
    assets: Mapping[str, Asset] | None = None,
    token: str | None = None,
    hosts: frozenset[str] | None = LOOPBACK_NAMES,
    jobs: Jobs | None = None,
    monitor: GapMonitor | None = None,
) -> FastAPI:
    """The app of one explorer.

    Parameters
    ----------
    explorer : Explorer
        What is served.
    make_document : callable, optional
        Makes the page's document in the background, from a progress; the explorer's own when left
        out.
    assets : mapping of str to Asset, optional
        The files of the page by name, the page itself under "index.html"; the installed ones when
        left out.
    token : str, optional
        What every request must carry.
    hosts : set of str, optional
        The names the server answers to, None for any.
    jobs : Jobs, optional
        Where corrections are fitted.
    monitor : GapMonitor, optional
        Watches the queries, see `make_monitor`; its metrics are at /metrics.
    """
    document = LiveDocument(make_document or explorer.document)
    assets = live_assets() if assets is None else assets
    jobs = jobs or Jobs()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        document.close()
        jobs.close()

    app = FastAPI(
        title="modgap serve",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=life,
        # FastAPI's own pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        # A redirect would be addressed by the name the request came with.
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=refusals(401, 403, 413, 414, 421, 431),
    )
    app.include_router(api)
    _add_pages(app, assets)
    if monitor is not None:
        add_metrics(app, explorer, monitor)
    for kind, status in ((Unknown, 404), (InputError, 422)):
        app.add_exception_handler(kind, _saying(status))
    app.add_exception_handler(QueueFull, _saying(429, {"Retry-After": "5"}))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Guard, token=token, hosts=hosts)
    app.state.explorer, app.state.document, app.state.jobs = explorer, document, jobs
    return app


def _add_pages(app: FastAPI, assets: Mapping[str, Asset]) -> None:
    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        return _file(assets[PAGE], request)

    @app.get("/static/{name:path}", include_in_schema=False)
    def static(name: str, request: Request) -> Response:
        # Looked up, never joined to a folder: there is no path to walk out of.
        if name == PAGE or name not in assets:
            raise HTTPException(404)
        return _file(assets[name], request)

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> Response:
        return Response(status_code=204)  # browsers ask for it unasked

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/healthz", tags=["server"])
    def health() -> Health:
        """Say that the server runs; loads nothing."""
        return Health()


def _file(asset: Asset, request: Request) -> Response:
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.data, headers=headers, media_type=asset.media_type)


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)


def _saying(status: int, headers: Mapping[str, str] | None = None) -> Any:
    def said(_: Request, error: Exception) -> JSONResponse:
        return _problem(status, str(error), headers)

    return said


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 404 and error.detail == "Not Found":
        return _problem(404, "There is nothing at this address. The API is described at /docs.")
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods_at(request))) or headers.get("Allow", "")
        return _problem(405, "This address does not take that method. See /docs.", headers)
    if error.status_code == 400:  # FastAPI could not even read the body as text
        return _problem(422, "The body must be JSON in UTF-8.")
    return _problem(error.status_code, error.detail, headers)


def _methods_at(request: Request) -> set[str]:
    """Every method of an address: the framework names only those of the first route that fits."""
    routes = (route for route in api.routes if isinstance(route, APIRoute))
    return {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Name the first thing that is wrong; only short plain values are repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _problem(422, f"The body must be JSON: {first['ctx']['error']}.")
    where = ".".join(str(part) for part in first["loc"][1:] if part != "[key]")[:80]
    said = str(first["msg"]).removeprefix("Value error, ")
    said = said[:1].lower() + said[1:]
    given = first.get("input")
    got = ""
    if isinstance(given, (str, int, float)) and not isinstance(given, bool):
        try:
            got = f", got {given!r:.60}"
        except ValueError:  # an integer of thousands of digits
            got = ", got a huge number"
    return _problem(422, f"{where}: {said}{got}." if where else f"{said}{got}.".capitalize())
