"""Photo search: a FastAPI service over images and captions in PostgreSQL.

    modgap embed hf:openai/clip-vit-base-patch32 photos -o rows
    modgap fix rows -o fixed
    export PHOTOS=postgresql://localhost/photos CORRECTION=fixed/correction.safetensors
    export MODEL=hf:openai/clip-vit-base-patch32
    modgap index build $PHOTOS $CORRECTION rows --table items
    uvicorn --factory --app-dir examples photo_search:from_environment

It needs pip install 'modgap[serve,pgvector,embed]'. `GET /search?text=a dog on the beach` returns
images and captions in one list, each with the number of wrong results to expect that are at least
as good; `at_most=1` cuts there, and says where nothing is found.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import FastAPI, Query

import modgap
from modgap.embed import Model, open_model
from modgap.index import open_index


def make_app(address: str, correction: modgap.Correction, model: Model, **place: Any) -> FastAPI:
    """The service; ``place`` goes to `open_index`, such as the name of the table."""

    @asynccontextmanager
    async def opened(app: FastAPI):
        with open_index(address, correction, **place) as index:
            app.state.index = index
            yield

    app = FastAPI(title="Photo search", lifespan=opened)

    @app.get("/search")
    def search(
        text: str = Query(min_length=1, max_length=1000),
        k: int = Query(10, ge=1, le=100),
        at_most: float | None = Query(None, gt=0, description="wrong results to expect"),
    ) -> dict[str, Any]:
        """The best images and captions for a text."""
        rows = np.asarray(model.encode_texts([text], role="query"))
        hits = app.state.index.search(rows, "text", k=k, at_most=at_most)
        found = [
            {"id": str(hits.ids[0, place]), "modality": str(hits.modalities[0, place]),
             "score": float(hits.scores[0, place]),
             "expected_wrong": float(hits.expected_wrong[0, place])}
            for place in np.flatnonzero(hits.modalities[0] != "")
        ]  # fmt: skip
        return {"results": found, "nothing_found": not found}

    return app


def from_environment() -> FastAPI:
    """The service of the database, correction and model that the environment names."""
    correction = modgap.Correction.load(os.environ["CORRECTION"])
    model = open_model(os.environ["MODEL"])
    return make_app(os.environ["PHOTOS"], correction, model, table="items")
