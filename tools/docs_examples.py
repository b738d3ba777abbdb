"""The heading that numpydoc wants above the examples of a docstring; in the code they need none."""

from __future__ import annotations

import re
from typing import Any

import griffe

FIRST_EXAMPLE = re.compile(r"(?:^|\n)(?=>>> )")
HEADING = "\n\nExamples\n--------\n"


class Headings(griffe.Extension):
    """Put ``Examples`` above the first example of each docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change one docstring as griffe has read it."""
        if obj.docstring is not None and HEADING.strip() not in obj.docstring.value:
            obj.docstring.value = FIRST_EXAMPLE.sub(HEADING, obj.docstring.value, count=1)
