"""A correction whose maps stay gets one more modality, or its background is fitted again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from modgap.core.checks import Array, InputValueError, check_choice, check_modalities
from modgap.core.results import Progress, silent
from modgap.core.text import same_text
from modgap.corrections.background import Background
from modgap.corrections.base import Corrector
from modgap.corrections.correction import Correction
from modgap.corrections.expected_wrong import list_of_documents
from modgap.corrections.fitted_moments import hash_of_means, used_moments
from modgap.corrections.fitted_rows import FittedRows
from modgap.corrections.registry import METHODS, make_corrector
from modgap.corrections.wording import label
from modgap.io import Embeddings
from modgap.moments import RowMoments

_ALL_AT_ONCE = "Fit all at once: modgap fit image=image.npy text=text.npy audio=audio.npy"


def extend(
    correction: Correction,
    rows: Mapping[str, Array | Embeddings],
    *,
    progress: Progress | None = None,
) -> Correction:
    """The correction with a map for one more modality, or for several.

    The maps that are there stay as they are, and so do documents that were corrected. The new maps
    are those of a fit on all modalities at once, for the queries that the correction serves;
    queries of a new modality are served where the correction serves those of all.

    ``Calibrate``, ``ExpectedWrong``, ``Center``, ``OriginShift`` and ``Whiten`` can be extended.
    Nothing is judged: whether queries find the right documents of the new modality takes pairs
    (``evaluate_correction``), and whether its rows are of the same model cannot be seen.

    Parameters
    ----------
    correction : Correction
        One that a corrector fitted.
    rows : mapping of str to (n, d) arrays or Embeddings
        The documents of each new modality, as the model of the correction gives them.
    progress : callable, optional
        Called as ``progress(step, done, total)``.

    >>> import numpy as np
    >>> from modgap.corrections import Center
    >>> rng = np.random.default_rng(0)
    >>> fitted = Center().fit(*rng.normal(size=(2, 30, 4))).correction_
    >>> extend(fitted, {"audio": rng.normal(size=(30, 4))}).names
    ('image', 'text', 'audio')
    """
    corrector = _corrector_of(correction)
    sides = {same_text(name): Embeddings.of(side, name) for name, side in rows.items()}
    for name, side in sides.items():
        if name in correction.names:
            raise InputValueError(
                f"The correction has a map for {name} already. Give these rows another name, or "
                "fit all modalities anew."
            )
        if side.dim != correction.dim_in:
            raise InputValueError(
                f"The correction is for rows of {correction.dim_in} columns, and {name} has "
                f"{side.dim}. Embed it with the model of the other modalities."
            )
    names = check_modalities((*correction.names, *sides))
    if correction.hubs is not None:
        correction.hubs.check_bank()
    unit, say = correction.about["rows"] == "unit", progress or silent
    found = {name: used_moments(side, name, unit, say) for name, side in sides.items()}
    maps = corrector.maps_beside(_rows_that_ask(correction, corrector), found)
    fitted = {**correction.fitted, **FittedRows.of_each(found)}
    about = {
        **correction.about,
        "fitted_on": {name: rows.n for name, rows in fitted.items()},
        "means_sha256": hash_of_means(fitted.values()),
        "not_judged": [*correction.about.get("not_judged", ()), *sides],
    }
    extended = replace(
        correction,
        names=names,
        maps={**correction.maps, **{key: replace(m, normalise=unit) for key, m in maps.items()}},
        queries=correction.queries if corrector.serves_one else names,
        fitted=fitted,
        about=about,
        background=None,
    )
    if correction.background is None:
        return extended
    lists = {name: list_of_documents(extended, name, side) for name, side in sides.items()}
    return replace(extended, background=Background({**correction.background.lists, **lists}))


def refit_background(
    correction: Correction, rows: Mapping[str, Array | Embeddings], *, progress: Progress = silent
) -> Correction:
    """The correction with expected wrong results fitted again, to documents as they are now.

    Its maps and its bank of queries stay, and so do documents that were corrected.

    Parameters
    ----------
    correction : Correction
        One with a background and its bank.
    rows : mapping of str to (n, d) arrays or Embeddings
        All documents of a modality, as the model gives them. Modalities that are left out keep
        what they have. Give ids or groups where the correction was fitted with them.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    if correction.background is None:
        raise InputValueError(
            f"This correction ({label(correction)}) has no background that could be fitted again. "
            "Fit it anew."
        )
    lists = dict(correction.background.lists)
    for step, (given, one) in enumerate(rows.items()):
        name = check_choice(given, "modality", correction.names)
        progress(f"searching {name}", step, len(rows))
        lists[name] = list_of_documents(correction, name, Embeddings.of(one, name))
    return replace(correction, background=Background(lists))


def change_each(
    change: Callable[..., Correction],
    corrections: Mapping[str, Correction],
    rows: Mapping[str, Array | Embeddings],
    **options: Any,
) -> dict[str, Correction]:
    """Corrections by the queries that they serve, each extended or fitted again once."""
    made = {id(one): change(one, rows, **options) for one in {*corrections.values()}}
    return {name: made[id(one)] for name, one in corrections.items()}


def _corrector_of(correction: Correction) -> Corrector:
    """The corrector that made it, unfitted; refused where it has no place for another modality."""
    about = correction.about
    if about.get("method") not in METHODS or not correction.fitted:
        raise InputValueError(
            f"This correction ({label(correction)}) does not say how it was fitted, so no modality "
            f"can be added. {_ALL_AT_ONCE}."
        )
    corrector = make_corrector(about["method"], about["parameters"])
    if reason := corrector.why_closed():
        raise InputValueError(
            f"No modality can be added to {corrector.label}: {reason}. {_ALL_AT_ONCE} --method "
            "expected-wrong."
        )
    return corrector


def _rows_that_ask(correction: Correction, corrector: Corrector) -> dict[str, RowMoments]:
    """Moments of the queries, where maps depend on them."""
    if not corrector.needs_query_covariance:
        return {}
    (name,) = correction.queries
    rows = correction.fitted_queries.get(name, correction.fitted[name])
    if rows.covariance is None:
        raise InputValueError(
            f"This correction does not keep the covariance of its {name} queries, which a further "
            "modality takes. Fit it again."
        )
    return {name: RowMoments(rows.n, rows.mean, rows.n * rows.covariance)}
