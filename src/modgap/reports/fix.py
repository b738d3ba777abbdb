"""The correction that a verdict names: the file, what it demands, and the lines that apply it."""

from __future__ import annotations

import base64
from typing import Any

from modgap.core.results import spoken
from modgap.corrections import Correction, demands_by_topic, in_one_sentence, next_commands
from modgap.corrections.files import CORRECTION_FILE, correction_bytes
from modgap.corrections.wording import metric_to_rank_by, of_preset
from modgap.diagnosis import Diagnosis
from modgap.diagnosis.verdict import NOT_JUDGED

# A larger correction would make the page too heavy to mail; it has a file of its own.
_MOST_BYTES = 1_000_000


def fix_document(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """What the page shows of the correction of a verdict; None where there is none."""
    if diagnosis is None or diagnosis.correction is None:
        return None
    correction = diagnosis.correction
    content = correction_bytes(correction)
    # A bank that was given is a query log: it does not travel with a page that is mailed.
    private = correction.hubs is not None and correction.hubs.keys is None
    hubs = "" if diagnosis.hubs is None else f" {diagnosis.hubs.sentence}"
    return {
        "method": diagnosis.recommended,
        "label": not_judged(diagnosis),
        **demanded(correction),
        "code": apply_lines(correction),
        "command": "\n".join(next_commands({CORRECTION_FILE: correction})),
        "note": where_from(correction, diagnosis) + hubs,
        "file": CORRECTION_FILE,
        "data": (
            None if private or len(content) > _MOST_BYTES else base64.b64encode(content).decode()
        ),
    }


def demanded(correction: Correction, file: str = CORRECTION_FILE) -> dict[str, Any]:
    """What a correction demands, as values and in words, by what it is about.

    ``file`` is the name that the next commands call it by.
    """
    return {
        "queries": correction.queries,
        "columns": [correction.dim_in, correction.dim_out],
        "metric": correction.metric,
        "demands": demands_by_topic(correction),
        "sentence": in_one_sentence(correction),
        "commands": next_commands({file: correction}),
    }


def apply_lines(correction: Correction) -> str:
    """The lines of Python that apply a correction file: to all documents, and to its queries.

    ``documents`` holds the rows of each modality by name, ``queries`` those of the queries; by name
    too where queries of several modalities are served.
    """
    names, served = ((", ".join(map(repr, n))) for n in (correction.names, correction.queries))
    asked = [f"queries = correction.apply(queries, {served}, role='query')"]
    if len(correction.queries) > 1:
        asked = [
            f"for name in ({served}):",
            "    queries[name] = correction.apply(queries[name], name, role='query')",
        ]
    return "\n".join(
        [
            f"correction = modgap.Correction.load({CORRECTION_FILE!r})",
            f"for name in ({names}):",
            "    documents[name] = correction.apply(documents[name], name)",
            *asked,
            f"# Rank by {metric_to_rank_by(correction)}.",
        ]
    )


def not_judged(diagnosis: Diagnosis) -> str | None:
    """The label of a correction that is written without a verdict on it."""
    return None if diagnosis.verdict == "use" else NOT_JUDGED


def where_from(correction: Correction, diagnosis: Diagnosis | None) -> str:
    """Which rows the metrics of a verdict use, and which its file was fitted on."""
    if diagnosis is None:
        return of_preset(correction)
    if correction is diagnosis.corrections.get(str(diagnosis.recommended)):
        return "Metrics are held-out; the saved file is the correction that was evaluated."
    return "Metrics are held-out; the saved file was refitted on all data."


def fitted_on(correction: Correction) -> str:
    """How many rows of each modality a correction was fitted on."""
    counts = correction.about.get("fitted_on", {})
    return spoken(f"{count:,} {name}" for name, count in counts.items())
