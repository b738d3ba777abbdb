"""One modality's rows, read when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, check_count
from modgap.core.door import as_numpy, check_matrix
from modgap.core.results import Progress, silent
from modgap.core.stopping import stop_here
from modgap.io._contents import Column
from modgap.io._matrices import BATCH_ROWS, ArrayMatrix, Matrix, PickedRows
from modgap.io.column_roles import field_column
from modgap.io.formats.tables import is_opened
from modgap.io.shard_moments import kept_moments
from modgap.moments import Moments
from modgap.moments.modality import moments_of_rows

# Fewer rows are always copied: they may be asked for many times.
MOST_COPIED = 20_000


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One modality's rows, read when asked for.

    ``ids``, ``captions``, ``labels`` and ``groups`` have one entry per row, or are None where the
    file has none; they too are read when first asked for. ``fields`` are its other columns, such as
    a date or a source, by name: ``fields["source"].load()``. ``partial`` is a folder in which the
    moments of each shard are kept, so that a run that is stopped goes on from there.

    >>> rows = Embeddings.from_array(np.eye(3), ids=["a", "b", "c"])
    >>> rows.shape, [len(batch) for batch in rows.batches(size=2)]
    ((3, 3), [2, 1])
    >>> rows.take([2]), rows.ids[2]
    (array([[0., 0., 1.]]), np.str_('c'))
    """

    source: str
    matrix: Matrix = field(repr=False)
    columns: Mapping[str, Column] = field(default_factory=dict, repr=False)
    fields: Mapping[str, Column] = field(default_factory=dict, repr=False)
    partial: Path | None = field(default=None, repr=False)

    @classmethod
    def from_array(
        cls,
        array: Any,
        *,
        ids: Any = None,
        captions: Any = None,
        labels: Any = None,
        groups: Any = None,
        fields: Mapping[str, Any] | None = None,
        source: str = "array",
    ) -> Embeddings:
        """Rows that are in memory already: an array, or a tensor, which is brought to the CPU.

        ``fields`` are further columns by name, see ``with_fields``.
        """
        matrix = ArrayMatrix(as_numpy(check_matrix(array, source)))
        given = {"ids": ids, "captions": captions, "labels": labels, "groups": groups}
        found = cls(source, matrix)
        for kind, values in given.items():
            found = found if values is None else found.with_column(kind, values)
        return found.with_fields(fields or {})

    @classmethod
    def of(cls, rows: Any, name: str, *, modality: str | None = None) -> Embeddings:
        """Embeddings as they are; an array or tensor held in its library and on its device.

        A path or a table is opened. Where that holds several modalities, the rows of ``modality``
        are taken, which is ``name`` where it is left out.
        """
        if isinstance(rows, cls):
            return rows
        if is_opened(rows):
            from modgap.io.opened_sides import open_modality

            return open_modality(rows, modality or name)
        return cls(name, ArrayMatrix(check_matrix(rows, name)))

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        held = f"; {', '.join(self.columns)}" if self.columns else ""
        return f"Embeddings({self.source}: {self.n_rows:,} × {self.dim} {dtype}{held})"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n_rows, dim = self.matrix.shape
        return n_rows, dim

    @property
    def in_memory(self) -> bool:
        """Whether the rows are an array or tensor in memory."""
        return isinstance(self.matrix, ArrayMatrix) and self.matrix.file is None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    @property
    def dim(self) -> int:
        """Number of columns, the dimension of the space."""
        return self.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the rows as they are read; bfloat16 is read as float32."""
        return self.matrix.dtype

    def batches(self, size: int = BATCH_ROWS) -> Iterator[np.ndarray]:
        """The rows in order, ``size`` at a time; only the last batch may be smaller.

        Two modalities can therefore be walked side by side whatever their formats.
        """
        return _stoppable(self.matrix.batches(check_count(size, "size")))

    def batches_with_progress(self, progress: Progress, step: str) -> Iterator[np.ndarray]:
        """The batches, with the rows counted as they are read."""
        done = 0
        progress(step, done, self.n_rows)
        for batch in self.batches():
            yield batch
            done += len(batch)
            progress(step, done, self.n_rows)

    def moments(self, name: str, progress: Progress = silent, **options: Any) -> Moments:
        """Moments of every row, in batches where they are not in memory; see `Moments`.

        What was gathered of files is remembered, so that they are read through once.
        """
        if self.in_memory:
            return moments_of_rows(self.rows(), name, **options)
        if self.matrix.spread_moments is not None:
            found: Moments = self.matrix.spread_moments(name, progress, **options)
            return found
        step, stored = f"reading {name}", self.matrix
        known = None
        if stored.gathered is not None:
            known, kept = stored.gathered
            known = known if self.partial in (None, kept) else None
        if known is not None:
            progress(step, self.n_rows, self.n_rows)
        elif self._gathers_all(options):
            if self.partial is not None:
                known = kept_moments(self, name, self.partial, progress)
            else:
                known = Moments.from_stream(self.batches_with_progress(progress, step), name=name)
            stored.gathered = known, self.partial
        else:
            batches = self.batches_with_progress(progress, step)
            return Moments.from_stream(batches, name=name, **options)
        return known.at_unit_length() if options.get("only_unit") else known

    def _gathers_all(self, options: Mapping[str, Any]) -> bool:
        """Whether all that moments can tell is gathered: it was asked for, or is to be kept."""
        whole = options.get("detail", "covariance") == "covariance"
        less = options.get("only_unit") or not options.get("unit", True)
        return whole and (self.partial is not None or not less)

    def rows(self) -> np.ndarray:
        """The whole matrix, in memory: as many bytes as its shape and dtype say.

        It is read once for as long as someone holds it. What can do with less takes ``batches``.
        """
        return self.matrix.rows()

    def take(self, indices: Any) -> np.ndarray:
        """The rows at ``indices``, in that order, without loading the others where possible."""
        wanted = np.asarray(indices)
        if wanted.size == 0:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputTypeError(
                f"indices must be a list of row numbers, got {wanted.dtype} of shape "
                f"{wanted.shape}."
            )
        outside = (wanted < 0) | (wanted >= self.n_rows)
        if outside.any():
            raise InputValueError(
                f"indices must be row numbers from 0 to {self.n_rows - 1}, "
                f"got {wanted[outside][0]}."
            )
        return self.matrix.take(wanted.astype(np.int64))

    def subset(self, indices: np.ndarray, *, copied: bool = True) -> Embeddings:
        """These rows in memory, with their ids, captions, labels, groups and fields.

        With ``copied=False`` many rows of an array in memory are not copied, but picked from it
        each time they are asked for: enough for what walks through them in batches.
        """
        columns, fields = (
            {name: column.subset(indices) for name, column in some.items()}
            for some in (self.columns, self.fields)
        )
        matrix: Matrix
        source = self.matrix.matrix if isinstance(self.matrix, PickedRows) else self.matrix
        held = source.array if isinstance(source, ArrayMatrix) and source.file is None else None
        if not copied and len(indices) > MOST_COPIED and isinstance(held, np.ndarray):
            matrix = PickedRows(self.matrix, np.asarray(indices))
        else:
            matrix = ArrayMatrix(self.take(indices))
        return Embeddings(self.source, matrix, columns, fields)

    def with_rows_loaded(self) -> Embeddings:
        """The same with the rows in memory: the file is not read for them any more."""
        if self.in_memory or isinstance(self.matrix, PickedRows):
            return self
        return replace(self, matrix=ArrayMatrix(self.matrix.rows()))

    def to(self, device: str) -> Embeddings:
        """The same with the rows held as a tensor on a device: "cpu", "cuda", "cuda:1" or "mps".

        What is measured of them is then computed there.
        """
        from modgap.io.devices import on_device

        return replace(self, matrix=on_device(self.matrix, device))

    def with_words_loaded(self) -> Embeddings:
        """The same with ids and captions in memory."""
        words = {kind: self._column(kind) for kind in ("ids", "captions")}
        held = {kind: Column.of(np.array(own)) for kind, own in words.items() if own is not None}
        return replace(self, columns={**self.columns, **held})

    def with_column(self, kind: str, values: Any) -> Embeddings:
        """The same rows with these as their ids, captions, labels or groups."""
        column = Column.of(np.asarray(values))
        check_length(column, self.n_rows, kind, self.source)
        return replace(self, columns={**self.columns, kind: column})

    def with_fields(self, values: Mapping[str, Any]) -> Embeddings:
        """The same rows with these columns beside those they have.

        Each has a number, a truth value or a text for every row, or None where there is none.

        >>> rows = Embeddings.from_array(np.eye(2)).with_fields({"year": [1999, None]})
        >>> rows.fields["year"].load().tolist()
        [1999, None]
        """
        added = {str(name): field_column(own, str(name)) for name, own in values.items()}
        for name, column in added.items():
            check_length(column, self.n_rows, f"field {name!r}", self.source)
        return replace(self, fields={**self.fields, **added})

    @cached_property
    def ids(self) -> np.ndarray | None:
        """What each row is called."""
        return self._column("ids")

    @cached_property
    def captions(self) -> np.ndarray | None:
        """The text of each row."""
        return self._column("captions")

    @cached_property
    def labels(self) -> np.ndarray | None:
        """The class of each row."""
        return self._column("labels")

    @cached_property
    def groups(self) -> np.ndarray | None:
        """Which rows of the other modality each row matches: those of the same group."""
        return self._column("groups")

    def _column(self, kind: str) -> np.ndarray | None:
        if kind not in self.columns:
            return None
        column = self.columns[kind]
        check_length(column, self.n_rows, kind, self.source)
        return column.load()


def _stoppable(batches: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    for batch in batches:
        stop_here()
        yield batch


def check_length(column: Column, n_rows: int, kind: str, source: str) -> None:
    """A column must have one entry per row."""
    if column.length != n_rows:
        raise InputValueError(
            f"{kind} of {source} must have one entry per row: {n_rows} rows, got {column.length}."
        )
