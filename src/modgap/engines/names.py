"""What the streams of a monitor are called: a modality, or its queries."""

from __future__ import annotations

_QUERIES = " queries"


def queries_name(modality: str) -> str:
    """The stream of a modality's queries.

    >>> queries_name("text")
    'text queries'
    """
    return f"{modality}{_QUERIES}"


def modality_and_role(stream: str) -> tuple[str, str]:
    """The modality of a stream, and whether it has documents or queries.

    >>> modality_and_role("text queries"), modality_and_role("image")
    (('text', 'query'), ('image', 'document'))
    """
    modality = stream.removesuffix(_QUERIES)
    return (modality, "query") if modality and modality != stream else (stream, "document")
