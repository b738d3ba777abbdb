"""A correction inside sentence-transformers: modules that are saved and loaded with the model."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Module, Normalize, Router

from modgap.adapters.vectors import check_comparable
from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.results import spoken
from modgap.corrections import Affine, Correction, Metric

_SIMILARITIES: dict[Metric, str] = {
    "cosine": "cosine",
    "inner_product": "dot",
    "euclidean": "euclidean",
}


def append_correction(model: SentenceTransformer, correction: Correction) -> SentenceTransformer:
    """The model itself, whose ``encode_document`` and ``encode_query`` give corrected vectors.

    The modality is that of the input. ``model.similarity_fn_name`` is then the metric that a store
    must use. The maps are a ``Router`` over ``Normalize`` and ``Dense``, modules of
    sentence-transformers itself: a saved model needs no modgap, and runs no code of its own.

    Parameters
    ----------
    model : SentenceTransformer
        Of the rows that the correction was fitted on. It is changed.
    correction : Correction
        Without hubs, whose column no such module computes.
    """
    check_comparable(correction)
    if not isinstance(model, SentenceTransformer):
        raise InputTypeError(
            f"model must be a SentenceTransformer, got {type(model).__name__}. Open it: "
            "SentenceTransformer(name)."
        )
    if correction.hubs is not None:
        raise InputValueError(
            "A correction with hubs needs its bank of queries beside the model: store corrected "
            "vectors (modgap index build), or fit one without hubs."
        )
    names = [name for name in correction.names if name in model.modalities]
    if not names:
        raise InputValueError(
            f"The correction is for {spoken(correction.names)}, and the model embeds "
            f"{spoken(map(str, model.modalities))}. Fit it with the model's names."
        )
    if isinstance(model[-1], Router):
        raise InputValueError(
            "The model ends in a Router, as one with a correction does. Give the model without it."
        )
    width = model.get_embedding_dimension()
    if width != correction.dim_in:
        raise InputValueError(
            f"The correction is for rows of {correction.dim_in} columns, and the model gives "
            f"{width}. It must be fitted on embeddings of the same model."
        )
    if model.truncate_dim is not None:
        raise InputValueError(
            "The model cuts its rows (truncate_dim), which would cut corrected ones. Open it "
            "without truncate_dim."
        )
    router = _router(correction, names)
    weights = next(model.parameters(), None)
    router.to(model.device, None if weights is None else weights.dtype)
    model.append(router)
    model.similarity_fn_name = _SIMILARITIES[correction.metric]
    return model


def _router(correction: Correction, names: list[str]) -> Router:
    """A route for each modality and role; the task must be said, and served."""
    routes: dict[str, list[Module]] = {}
    mappings: dict[tuple[str, str | None], str] = {}
    for name in names:
        document = correction.affine(name)
        routes[f"{name}_document"] = _modules(document)
        mappings["document", name] = f"{name}_document"
        if name not in correction.queries:
            continue
        query = correction.affine(name, "query")
        same = query is document
        if not same:
            routes[f"{name}_query"] = _modules(query)
        mappings["query", name] = f"{name}_document" if same else f"{name}_query"
    if len(names) == 1:  # not every module of texts says that they are
        mappings |= {(task, None): route for (task, _), route in mappings.items()}
    return Router(routes, None, False, mappings)


def _modules(affine: Affine) -> list[Module]:
    dense = affine.dense()
    modules: list[Module] = [Normalize()] if dense.normalise else []
    if dense.matrix is not None or dense.offset is not None or not modules:
        matrix = torch.eye(dense.dim_in)
        if dense.matrix is not None:
            matrix = torch.tensor(dense.matrix, dtype=torch.float32)
        offset = None
        if dense.offset is not None:
            offset = torch.tensor(dense.offset, dtype=torch.float32)
        size = (dense.dim_in, dense.dim_out)
        layer = Dense(*size, offset is not None, None, matrix, offset)
        modules.append(layer.requires_grad_(False))
    return [*modules, Normalize()] if dense.renormalise else modules
