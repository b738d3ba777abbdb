"""Columns of the drawn rows: to colour points by, to search and to save."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputError
from modgap.core.results import by_side, spoken
from modgap.io import Modalities
from modgap.io._contents import Column
from modgap.reports.assemble import data_json
from modgap.reports.rows import label_text

Kind = Literal["category", "number", "text"]
# A value of a row as JSON has it.
Value = str | int | float | bool | None

MOST_FIELDS = 12
# A file may have hundreds of columns, and each that is looked at is read.
_MOST_READ = 40
_FIELD_BYTES = 500_000
_TEXT_LENGTH = 80
# Texts that are longer on average are documents, not what is known of one.
_LONG_TEXT = 400
# As many numbers as there are colours are told apart; more are a scale.
N_COLOURS = 10
# Numbers beyond it are rounded in a browser.
_EXACT = 2**53
# The colours of a scale end there; what lies beyond has the colour of its end.
_SCALE = (0.02, 0.98)
_LABEL = "label"
_TOO_MANY = "there are too many"
# As many as float32 has.
_DIGITS = 9
# Names of columns that are left out, in a sentence.
_NAMED = 8


@dataclass(frozen=True)
class _Field:
    """A column of the drawn rows: its values by modality, None for those without it."""

    name: str
    kind: Kind
    sides: tuple[list[Value] | None, ...]
    n_rows: int

    @property
    def present(self) -> list[Value]:
        """Every value that there is."""
        return [value for side in self.sides for value in side or () if value is not None]

    def document(self) -> dict[str, Any]:
        """The field as the page reads it: numbers, or places in the list of its values."""
        present = self.present
        head = {"name": self.name, "kind": self.kind, "n_missing": self.n_rows - len(present)}
        if self.kind == "number":
            numbers = np.array(present, dtype=np.float64)
            ends = [*np.quantile(numbers, _SCALE), numbers.min(), numbers.max()]
            low, high, least, most = (float(f"{end:.6g}") for end in ends)
            scale = {"range": [low, high], "least": least, "most": most}
            return {**head, **scale, **by_side(self.sides)}
        counts = Counter(present)
        values = sorted(counts, key=lambda value: (-counts[value], str(value)))
        if len(values) <= N_COLOURS and all(isinstance(value, (int, float)) for value in values):
            values.sort()
        places = {value: place for place, value in enumerate(values)}
        codes = [
            None if side is None else [None if v is None else places[v] for v in side]
            for side in self.sides
        ]
        named = [counts[value] for value in values[:N_COLOURS]]
        words = {"values": [_words(value) for value in values]}
        return {**head, **words, "counts": named, "n_other": len(present) - sum(named),
                **by_side(codes)}  # fmt: skip


def fields_document(
    data: Modalities, numbers: Mapping[str, np.ndarray]
) -> tuple[list[dict[str, Any]], str | None]:
    """The fields of the drawn rows, and a sentence about those that are left out.

    The size of groups and labels come first, then columns to colour by, then texts.

    Parameters
    ----------
    data : Modalities
        Where the rows are from.
    numbers : mapping of str to arrays
        The row numbers that are drawn, by modality.
    """
    left_out: dict[str, list[str]] = {}
    found = _group_sizes(data, numbers)
    for place, (name, columns) in enumerate(_columns(data).items()):
        made = _field(name, columns, numbers) if place < _MOST_READ else _TOO_MANY
        if isinstance(made, str):
            left_out.setdefault(made, []).append(name)
        else:
            found.append(made)
    shown: list[dict[str, Any]] = []
    room = _FIELD_BYTES
    for one in sorted(found, key=lambda field: field.kind == "text"):
        as_shown = one.document()
        size = len(data_json(as_shown).encode("utf-8", "replace"))
        if len(shown) == MOST_FIELDS:
            left_out.setdefault(_TOO_MANY, []).append(one.name)
        elif size > room:
            left_out.setdefault("the page would be too large", []).append(one.name)
        else:
            room -= size
            shown.append(as_shown)
    return shown, _left_out_words(left_out)


def _columns(data: Modalities) -> dict[str, dict[str, Column]]:
    """The columns of every modality under their common name, labels first."""
    found: dict[str, dict[str, Column]] = {}
    for modality, side in data.sides.items():
        if "labels" in side.columns:
            found.setdefault(_LABEL, {})[modality] = side.columns["labels"]
    for modality, side in data.sides.items():
        for name, column in side.fields.items():
            own = found.setdefault(name, {})
            own.setdefault(modality, column)
    return found


def _field(
    name: str, columns: Mapping[str, Column], numbers: Mapping[str, np.ndarray]
) -> _Field | str:
    """The field of that name, or why it is not shown."""
    sides: list[list[Any] | None] = []
    for modality, rows in numbers.items():
        if modality not in columns:
            sides.append(None)
            continue
        try:
            sides.append([*_values(columns[modality].take(rows))])
        except InputError:
            return "they cannot be read"
        except _NotPlain:
            return "they hold neither numbers nor texts"
    n_rows = sum(map(len, numbers.values()))
    present = [value for side in sides for value in side or () if value is not None]
    if not present:
        return "they have no value in the rows that are drawn"
    if len(set(map(str, present))) == 1 and len(present) == n_rows:
        return "they have one value in all rows that are drawn"
    texts = [value for value in present if isinstance(value, str)]
    if texts and sum(map(len, texts)) > _LONG_TEXT * len(texts):
        return "their texts are long"
    mixed = len({isinstance(value, bool) for value in present}) > 1
    huge = any(isinstance(value, int) and abs(value) > _EXACT for value in present)
    if texts or mixed or huge:  # only texts tell such values apart
        sides = [None if side is None else [_text(value) for value in side] for side in sides]
        present = [_text(value) for value in present]
    # Numbers of classes are names.
    kind = "category" if name == _LABEL else _kind(present)
    return _Field(label_text(name, _TEXT_LENGTH) or "", kind, tuple(sides), n_rows)


def _kind(present: Sequence[Value]) -> Kind:
    """Numbers of many values are a scale; texts that hardly repeat are only for reading."""
    distinct = len(set(present))
    if not isinstance(present[0], (str, bool)) and distinct > N_COLOURS:
        return "number"
    if distinct > N_COLOURS and 2 * distinct > len(present):
        return "text"
    return "category"


class _NotPlain(Exception):
    """A value that is neither a number nor a text."""


def _values(array: np.ndarray) -> Iterator[Value]:
    """Entries as JSON has them; None where there is none."""
    match array.dtype.kind:
        case "f":  # as many digits as the dtype has: 0.1 of float32 is not 0.10000000149
            yield from (_value(float(str(entry))) for entry in array)
        case "M":
            yield from (None if np.isnat(entry) else str(entry) for entry in array)
        case _:
            yield from map(_value, array.tolist())


def _value(value: Any) -> Value:
    match value:
        case None | bool() | int() | str():
            return value
        case np.generic():
            return next(_values(np.array([value])))
        case Decimal():
            return _value(float(value))
        case float():
            if not math.isfinite(value):
                return None
            if value.is_integer() and abs(value) <= _EXACT:
                return int(value)
            return float(f"{value:.{_DIGITS}g}")
        case bytes():
            return label_text(value, 10**6)
        case list() | tuple() | dict() | set() | np.ndarray():
            raise _NotPlain
    text = str(value)  # a date
    return None if text in ("NaT", "<NA>", "nan") else text


def _text(value: Value) -> str | None:
    return None if value is None else label_text(_words(value), _TEXT_LENGTH)


def _words(value: Value) -> str:
    """A value as people read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _group_sizes(data: Modalities, numbers: Mapping[str, np.ndarray]) -> list[_Field]:
    """How many rows of all modalities the group of a row has; nothing where all have as many."""
    if not data.paired or data.group_codes is None:
        return []
    sizes = np.bincount(np.concatenate(data.groups))
    codes = zip(data.names, data.groups, strict=True)
    sides = [sizes[own[numbers[name]]].tolist() for name, own in codes]
    present = [size for side in sides for size in side]
    if len(set(present)) < 2:
        return []
    return [_Field("group size", _kind(present), tuple(sides), len(present))]


def _left_out_words(left_out: Mapping[str, Sequence[str]]) -> str | None:
    if not left_out:
        return None
    said = []
    for why, names in left_out.items():
        shown = [f"“{label_text(name, _TEXT_LENGTH)}”" for name in names[:_NAMED]]
        more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
        said.append(f"{spoken([*shown, *more])} ({why})")
    return f"Columns that are not shown beside the points: {'; '.join(said)}."
