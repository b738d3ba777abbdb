"""Who asks: the modalities whose queries a correction serves and a search is judged by."""

from __future__ import annotations

from collections.abc import Sequence

from modgap._validate import InputValueError, check_choice
from modgap.corrections.correction import Correction


def asking_modality(queries: str | None, names: Sequence[str]) -> str:
    """The modality that asks: the one named, else "text" where that is a name."""
    if queries is not None:
        return str(check_choice(queries, "queries", tuple(names)))
    if "text" in names:
        return "text"
    raise InputValueError(
        f"Say which modality the queries are of (queries=…, --queries): {' or '.join(names)}. "
        "Only where one is called text is it taken to be the one that asks."
    )


def asking_modalities(
    queries: str | Sequence[str] | None, names: Sequence[str], correction: Correction | None = None
) -> tuple[str, ...]:
    """The modalities that ask, in their order: those named, else all that the correction serves."""
    if queries is None:
        return tuple(names) if correction is None else correction.queries
    given = [queries] if isinstance(queries, str) else list(queries)
    for name in given:
        check_choice(name, "queries", tuple(names))
        if correction is not None:
            correction.check_serves(name)
    if not given:
        raise InputValueError(f"queries must name at least one of {', '.join(names)}, got none.")
    return tuple(name for name in names if name in given)


def asking_or_text(queries: str | Sequence[str] | None, names: Sequence[str]) -> tuple[str, ...]:
    """The modalities that ask, in their order: those named, else "text" where that is a name.

    >>> asking_or_text(None, ("image", "text")), asking_or_text("image", ("image", "text"))
    (('text',), ('image',))
    """
    return asking_modalities(queries or asking_modality(None, names), names)
