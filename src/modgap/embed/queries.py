"""Queries in words or in images: the rows that search an index."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from modgap.core.checks import InputValueError
from modgap.corrections import Correction
from modgap.embed.item_batches import image_rows
from modgap.embed.opening import open_model
from modgap.io import Embeddings


def embed_queries(
    correction: Correction,
    model: str | None = None,
    texts: Sequence[str] = (),
    images: Sequence[Path] = (),
) -> Embeddings:
    """Rows of images, or of texts, by the model that embedded the documents.

    Parameters
    ----------
    correction : Correction
        Of the documents; it may note the model.
    model : str, optional
        The model, as for `open_model`; by default the one that the correction notes. modgap warns
        where the two differ.
    texts, images : sequence of str, of paths
        The queries, of one kind.
    """
    noted = str(correction.about.get("model") or "")
    name = model or noted
    if ":" not in name:
        raise InputValueError(
            "Say with --model which model embeds the queries, such as "
            "hf:openai/clip-vit-base-patch32: the one of the documents. The correction "
            + (f"names only {noted!r}." if noted else "names none.")
        )
    if ":" in noted and name != noted:
        warnings.warn(
            f"the documents were embedded by {noted}, the queries are by {name}.", stacklevel=2
        )
    opened = open_model(name)
    rows = image_rows(opened, images) if images else opened.encode_texts(texts, role="query")
    return Embeddings.from_array(rows, source=name)
