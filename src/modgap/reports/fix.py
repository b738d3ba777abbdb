"""The recommended fix: the correction as a file, and the lines that apply it."""

from __future__ import annotations

import base64
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modgap.corrections import Correction
from modgap.diagnosis import Diagnosis

CORRECTION_FILE = "correction.safetensors"
# A larger correction would make the page too heavy to mail; it has a file of its own.
_MOST_BYTES = 300_000


def fix_document(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """What the page shows of the recommended correction; None where nothing is recommended."""
    if diagnosis is None or diagnosis.correction is None:
        return None
    content = correction_bytes(diagnosis.correction)
    return {
        "method": diagnosis.recommended,
        "code": apply_lines(diagnosis.names),
        "command": (
            f"modgap apply {CORRECTION_FILE} EMBEDDINGS "
            f"--modality {shlex.quote(diagnosis.names[1])} --role query -o OUT"
        ),
        "file": CORRECTION_FILE,
        "data": base64.b64encode(content).decode() if len(content) <= _MOST_BYTES else None,
    }


def apply_lines(names: Sequence[str]) -> str:
    """The three lines of Python that apply a correction file."""
    return (
        f"correction = modgap.Correction.load({CORRECTION_FILE!r})\n"
        f"documents = correction.apply(rows, {names[0]!r})\n"
        f"query = correction.apply(rows, {names[1]!r}, role='query')"
    )


def correction_bytes(correction: Correction) -> bytes:
    """The content of the file that ``save`` writes."""
    with tempfile.TemporaryDirectory(prefix="modgap-") as folder:
        path = Path(folder) / CORRECTION_FILE
        correction.save(path)
        return path.read_bytes()
