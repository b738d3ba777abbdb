"""Which rows match: labels from columns of the files, or from files of their own.

A file of labels has one per row: `.npy` (one dimension), `.txt` (one per line), or `.csv`, `.jsonl`
and `.parquet` (the column that `FILE:COLUMN` names, else `group` or `groups`, else the only one).
Labels are strings or whole numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, did_you_mean
from modgap.core.door import check_group_labels
from modgap.core.limits import as_text, strings
from modgap.core.steady_file import SteadyFile
from modgap.io._contents import Contents, listed, reading
from modgap.io.column_roles import COLUMN_NAMES
from modgap.io.embeddings import Embeddings
from modgap.io.formats.npy import open_array
from modgap.io.formats.parquet import open_parquet
from modgap.io.items.records import read_records, read_table


def find_groups(
    groups: Any, sides: Mapping[str, Embeddings], contents: Mapping[str, Contents]
) -> dict[str, np.ndarray] | None:
    """The labels of every modality by name.

    ``groups`` is None (the columns recognised by name, if all sides have them), one name or path
    for all sides, or one for each: by name, in order, or as a string with commas between. Each is
    the name of a column, else a path, or the labels themselves.
    """
    if groups is None:
        if any("groups" not in side.columns for side in sides.values()):
            return None
        given: Mapping[str, Any] = {name: side.groups for name, side in sides.items()}
    else:
        given = _one_each(groups, contents)
    found = {name: labels_of(given[name], contents[name], side) for name, side in sides.items()}
    # 7 in one file and "7" in the other are the same label; int64 beside uint64 fits no integer.
    common = np.result_type(*found.values())
    common = np.dtype(str) if common.kind == "f" else common
    return {name: labels.astype(common, copy=False) for name, labels in found.items()}


def labels_of(given: Any, contents: Contents, side: Embeddings, what: str = "groups") -> np.ndarray:
    """The label of every row, a string or a whole number: from a column, a file, or as given."""
    if not isinstance(given, (str, os.PathLike)):
        array = np.asarray(given)
    elif str(given) in contents.columns:
        array = contents.columns[str(given)].load()
    elif Path(given).is_file():
        array = read_labels(Path(given))
    elif Path(file := str(given).rpartition(":")[0]).is_file():
        array = read_labels(Path(file), str(given).rpartition(":")[2])
    else:
        raise InputValueError(
            f"{what} must name a column of {contents.path} or a file, got {str(given)!r}."
            f"{did_you_mean(str(given), contents.columns)} It holds {contents.listing()}."
        )
    if array.dtype == object and all(isinstance(label, str) for label in array):
        array = strings(array.tolist(), f"A label of {side.source}")
    if array.shape != (side.n_rows,):
        raise InputValueError(
            f"{what} must have one label per row of {side.source}: "
            f"{side.n_rows} rows, got shape {array.shape}."
        )
    if array.dtype.kind not in "iuU":
        raise InputTypeError(
            f"{what} must be strings or whole numbers for every row of {side.source}, "
            f"got {'missing values' if array.dtype == object else array.dtype}."
        )
    return array


def _one_each(groups: Any, contents: Mapping[str, Contents]) -> Mapping[str, Any]:
    names = tuple(contents)
    if isinstance(groups, Mapping):
        return dict(zip(names, check_group_labels(groups, names), strict=True))
    if isinstance(groups, (tuple, list)):
        if len(groups) != len(names):
            raise InputValueError(
                f"groups must be one for all modalities, or one for each of {', '.join(names)}, "
                f"got {groups!r}."
            )
        return dict(zip(names, groups, strict=True))
    if not isinstance(groups, (str, os.PathLike)):
        raise InputTypeError(
            "groups must be the name of a column, a path, or one for each side, "
            f"got {type(groups).__name__}."
        )
    known = any(str(groups) in held.columns for held in contents.values())
    known = known or Path(groups).exists() or Path(str(groups).rpartition(":")[0]).is_file()
    if not known and str(groups).count(",") == len(names) - 1:
        return dict(zip(names, map(str.strip, str(groups).split(",")), strict=True))
    return dict.fromkeys(names, groups)


def read_labels(path: Path, column: str | None = None) -> np.ndarray:
    """The labels in a file, one per row: of tables in a column, found by its name if not named."""
    if column is not None and path.suffix.lower() not in (".csv", ".jsonl", ".parquet"):
        raise InputValueError(
            f"A column is read from .csv, .jsonl and .parquet, got {path.name!r}."
        )
    match path.suffix.lower():
        case ".npy":
            return as_text(open_array(SteadyFile(path)).rows(), str(path))
        case ".txt":
            with reading(path, "UTF-8 text", UnicodeDecodeError):
                return _whole_numbers(path.read_text(encoding="utf-8").splitlines(), path)
        case ".csv":
            names, rows = read_table(path)
            column = _group_column(path, names, column)
            return _whole_numbers([row[column] for row in rows], path)
        case ".jsonl":
            keys, records = read_records(path)
            column = _group_column(path, keys, column)
            labels = [record.get(column) for _, record in records]
            if not {type(label) for label in labels} <= {int, str}:
                raise InputTypeError(
                    f"Every {column!r} of {path} must be a text or a whole number."
                )
            return _whole_numbers([str(label) for label in labels], path)
        case ".parquet":
            columns = open_parquet(path).columns
            return columns[_group_column(path, list(columns), column)].load()
    raise InputValueError(
        f"Labels are read from .npy, .txt, .csv, .jsonl and .parquet files, got {path.name!r}."
    )


def _group_column(path: Path, names: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise InputValueError(
            f"{path} has no column {wanted!r}.{did_you_mean(wanted, names)} It holds "
            f"{listed(names) or 'none'}."
        )
    for name in [wanted] if wanted else COLUMN_NAMES["groups"]:
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    raise InputValueError(
        f"{path} must have a column 'group' or only one column, got {listed(names) or 'none'}. "
        f"Name another: {path}:COLUMN."
    )


def _whole_numbers(labels: list[str], path: Path) -> np.ndarray:
    """Labels of a text file: numbers if all are, and written plainly ("007" stays a string)."""
    if max(map(len, labels), default=0) > 20:  # no 64-bit number is as long
        return strings(labels, f"A label of {path}")
    with suppress(ValueError, OverflowError):
        numbers = np.array([int(label) for label in labels], np.int64)
        if numbers.astype(str).tolist() == labels:
            return numbers
    return strings(labels, f"A label of {path}")
