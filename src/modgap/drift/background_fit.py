"""Tells from documents as they are now whether expected wrong results still hold.

The bank of the correction searches them again. A result was said to have one expected wrong result
at some height above a query's level; counted is how many there are at this height now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from modgap.corrections import Correction, label
from modgap.corrections.expected_wrong import list_of_documents
from modgap.corrections.list_background import PLACES, ListBackground
from modgap.drift.report import CorrectionFit
from modgap.io import Embeddings

# Twice or half as many wrong results as were said: the background is to be fitted again.
MOST_RATIO = 2.0


def background_fit(correction: Correction, documents: Mapping[str, Any]) -> CorrectionFit | None:
    """Whether a background still holds; None without one, its bank, or documents of its lists.

    Parameters
    ----------
    correction : Correction
        The correction in use.
    documents : mapping of str to Embeddings or moments
        All documents of a modality as the model gives them; moments say nothing.
    """
    made, background, hubs = label(correction), correction.background, correction.hubs
    if background is None or hubs is None or hubs.bank is None:
        return None
    found = {
        name: expected_now(background.lists[name], list_of_documents(correction, name, rows))
        for name, rows in documents.items()
        if isinstance(rows, Embeddings)
        and name in background.lists
        and min(rows.n_rows, background.lists[name].n_documents) >= 2 * PLACES
    }
    if not found:
        return None
    listed = " and ".join(f"{count:.2g} among {name}" for name, count in found.items())
    why = f"where it says 1 expected wrong result there are {listed} documents now"
    fits = all(1 / MOST_RATIO <= count <= MOST_RATIO for count in found.values())
    sentence = (
        f"{made} still fits: {why}."
        if fits
        else f"Fit the background of {made} again (modgap fit --refit): {why}."
    )
    return CorrectionFit(made, fits, sentence, {}, {}, {}, {}, {}, {}, {}, found)


def expected_now(then: ListBackground, now: ListBackground) -> float:
    """E now at the height that had E = 1 then, as a search with the background of then has it."""
    height = then.height_at(1.0) * (then.slope / now.slope) ** 0.5
    return float(now.expected(np.array([height]))[0])
