"""What the tasks with data sets of their own read besides rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.task_options import MODEL

if TYPE_CHECKING:
    import numpy as np

Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where the images are, if not where the data set is published with them.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]


def data_option(text: str) -> Any:
    """The option --data of a task whose data set this says."""
    return typer.Option(metavar="DATA", help=text, show_default=False, rich_help_panel=MODEL)


def rows_with(path: Path | str, labels: str) -> tuple[Any, np.ndarray]:
    """The rows of a file, and a label of each: from an array or column of it, or another file."""
    import numpy as np

    from modgap.io import open_embeddings

    held = open_embeddings(path, groups=labels)
    return held.rows(), np.asarray(held.groups)


def rows_of(path: Path | str, column: str | None = None) -> Any:
    """The rows of a file."""
    from modgap.io import open_embeddings

    return open_embeddings(path, column=column).rows()


def numbers_of(path: Path, option: str) -> np.ndarray:
    """A file of whole numbers, one a line."""
    from modgap.io.group_labels import read_labels

    if not path.is_file():
        raise InputValueError(f"{option} must be a file of whole numbers, but {path} is none.")
    found = read_labels(path)
    if found.dtype.kind not in "iu":
        raise InputValueError(f"{option} must hold whole numbers, {path} holds {found.dtype}.")
    return found
