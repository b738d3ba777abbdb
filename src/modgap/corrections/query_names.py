"""Which modalities' queries are meant, by name or by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from modgap.core.checks import InputValueError, check_choice
from modgap.corrections.correction import Correction


def query_modalities(
    queries: str | Sequence[str] | None,
    names: Sequence[str],
    correction: Correction | None = None,
    *,
    default: Literal["text", "all"] = "text",
) -> tuple[str, ...]:
    """The query modalities, in the order of ``names``.

    >>> query_modalities(None, ("image", "text")), query_modalities("both", ("image", "text"))
    (('text',), ('image', 'text'))

    Parameters
    ----------
    queries : str or several, optional
        A modality, several, "both" of two, or "all".
    names : sequence of str
        The modalities there are.
    correction : Correction, optional
        It must serve them; where none are named, they are all that it serves.
    default : {"text", "all"}
        Which they are where neither says so. Text must then be one of the names.
    """
    if queries is None or len(queries) == 0:
        if correction is not None:
            return correction.queries
        if default == "all":
            return tuple(names)
        if "text" in names:
            return ("text",)
        raise InputValueError(
            f"Say which modality the queries are of (queries=…, --queries): {' or '.join(names)}. "
            "Only a modality called text is the default."
        )
    if queries == "both" and "both" not in names and len(names) != 2:
        raise InputValueError(
            f"queries both is for two modalities, got {len(names)}: {', '.join(names)}. Say all."
        )
    named = [queries] if isinstance(queries, str) else list(queries)
    if queries in ("both", "all") and queries not in names:
        named = list(names)
    for name in named:
        check_choice(name, "queries", tuple(names))
        if correction is not None:
            correction.check_serves(name)
    return tuple(name for name in names if name in named)


def one_query_modality(queries: str | None, correction: Correction) -> str:
    """The one modality whose queries are meant; to be named where the correction serves several."""
    asking = query_modalities(queries, correction.names, correction)
    if len(asking) > 1:
        raise InputValueError(
            f"This correction serves {' and '.join(asking)} queries. Choose with --queries (in "
            "Python, queries=…)."
        )
    return asking[0]
