"""A diagnosis as Markdown, and the folder of files that it leaves."""

from __future__ import annotations

from pathlib import Path

from modgap.core.files import write_text
from modgap.core.results import document, text_table, to_json
from modgap.corrections import Correction, demands, next_commands
from modgap.diagnosis import Diagnosis
from modgap.evaluation.metric_names import metric_label
from modgap.reports.fix import CORRECTION_FILE, apply_lines, not_judged, where_from
from modgap.reports.make import Report


def diagnosis_markdown(diagnosis: Diagnosis) -> str:
    """The verdict, before and after, every correction, what the metrics mean, every measure."""
    parts = [f"# modgap: {diagnosis.verdict}", diagnosis.sentence]
    if diagnosis.correction is not None:
        parts += [
            "## Before and after",
            f"On {diagnosis.held_out}, with 95 % intervals.",
            _code(text_table(*diagnosis.before_and_after())),
        ]
        parts += _correction(diagnosis, diagnosis.correction)
    parts += [
        "## Every correction",
        f"On {diagnosis.held_out}.",
        _code(text_table(*diagnosis.table())),
    ]
    if diagnosis.not_tried:
        parts += [
            "\n".join(f"- not tried: {name}: {why}" for name, why in diagnosis.not_tried.items())
        ]
    meaning = [
        f"- {metric_label(key, diagnosis.names)}: {text}"
        for key, text in diagnosis.explanations.items()
    ]
    parts += ["## What the metrics mean", "\n".join(meaning)]
    parts += [
        "## Measured",
        "All rows as they are, not only the held-out ones.",
        _code(str(diagnosis.measurement)),
    ]
    counts = ", ".join(f"{name} {count:,}" for name, count in diagnosis.n_groups.items())
    kind = "Groups" if "choose" in diagnosis.n_groups else "Rows"
    parts += [f"{kind}: {counts}. Seed {diagnosis.seed}. Intervals: 95 %, 1,000 resamples."]
    return "\n\n".join(parts) + "\n"


def write_diagnosis(diagnosis: Diagnosis, folder: Path, page: Report) -> list[str]:
    """Write the page, the same as text and as JSON, and the correction; say what was done."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("diagnosis.json", "report.md", "report.html")]
    write_text(paths[0], to_json(document("diagnose", diagnosis)) + "\n")
    write_text(paths[1], diagnosis_markdown(diagnosis))
    page.save(paths[2])
    correction = folder / CORRECTION_FILE
    if diagnosis.correction is not None:
        diagnosis.correction.save(correction)
        paths.append(correction)
    said = [f"wrote {path}" for path in paths]
    if diagnosis.correction is None and correction.exists():
        # One of an earlier run must not be taken for the answer of this one.
        correction.unlink()
        said.append(f"removed {correction} of an earlier run: this verdict has none")
    return said


def _correction(diagnosis: Diagnosis, correction: Correction) -> list[str]:
    """What the correction demands, and how to apply it."""
    label = not_judged(diagnosis)
    return [
        "## The correction" + (f": {label}" if label else ""),
        _code("\n".join(demands(correction))),
        where_from(correction, diagnosis),
        "## How to apply it",
        _code("\n".join(next_commands({CORRECTION_FILE: correction}))),
        "In Python:",
        _code(apply_lines(correction)),
    ]


def _code(text: str) -> str:
    return f"```\n{text}\n```"
