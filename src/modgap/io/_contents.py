"""The matrices and columns of a file, by name. Every format opens to this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputError, InputTypeError, InputValueError, did_you_mean, first_line
from modgap.core.door import check_matrix
from modgap.io._file_matrices import FileMatrix
from modgap.io._matrices import BATCH_ROWS, Matrix, PickedRows, Shards
from modgap.io.remote import RemotePath

# The name of the rows in a file that holds one matrix, and in the files modgap writes.
EMBEDDING = "embedding"
# Arrays that a sentence names.
_LISTED = 20


@dataclass(frozen=True)
class Column:
    """One entry per row (an id, a caption, a label, a group), loaded when asked for.

    ``load_some`` reads the entries at some row numbers, where that takes less than all of them.
    """

    length: int
    dtype: str
    load: Callable[[], np.ndarray]
    load_some: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def of(cls, values: np.ndarray) -> Column:
        """A column that is in memory already."""
        return cls(len(values), str(values.dtype), lambda: values)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The entries at these row numbers, in that order."""
        return self.load()[rows] if self.load_some is None else self.load_some(rows)

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """The entries of several columns, one after the other."""
        ends = np.cumsum([column.length for column in columns])

        def load_some(rows: np.ndarray) -> np.ndarray:
            owners = np.searchsorted(ends, rows, side="right")
            found = [columns[0].take(rows[:0])] if not len(rows) else []
            for k in np.unique(owners).tolist():
                found.append(columns[k].take(rows[owners == k] - ends[k] + columns[k].length))
            return np.concatenate(found)[np.argsort(np.argsort(owners, kind="stable"))]

        def load() -> np.ndarray:
            return np.concatenate([column.load() for column in columns])

        return cls(int(ends[-1]), columns[0].dtype, load, load_some)

    def subset(self, rows: np.ndarray) -> Column:
        """The column of these rows alone, not read yet."""
        return Column(
            len(rows),
            self.dtype,
            lambda: self.take(rows),
            None if self.load_some is None else lambda some: self.take(rows[some]),
        )


@dataclass(frozen=True)
class Contents:
    """The arrays of one file or folder, by name, none of them read yet.

    ``pair`` names the matrices of two modalities where the format itself tells them apart, and
    ``names`` what these modalities are. ``note`` is what ``modgap embed`` wrote beside them.
    """

    path: Path | RemotePath
    matrices: Mapping[str, Matrix]
    columns: Mapping[str, Column] = field(default_factory=dict)
    pair: tuple[str, str] | None = None
    names: tuple[str, str] | None = None
    note: Mapping[str, Any] | None = None

    @classmethod
    def of_array(
        cls, path: Path | RemotePath, matrix: Matrix, side: Callable[[int], Matrix]
    ) -> Contents:
        """A file of one unnamed array; shape (2, n, d) stacks two modalities, one a ``side``."""
        if len(matrix.shape) == 3 and matrix.shape[0] == 2:
            return cls(path, {str(number): side(number) for number in (0, 1)}, pair=("0", "1"))
        if len(matrix.shape) == 1:
            column = Column(matrix.shape[0], str(matrix.dtype), matrix.rows)
            return cls(path, {}, {EMBEDDING: column})
        return cls(path, {EMBEDDING: matrix})

    @classmethod
    def joined(cls, shards: Iterable[Contents], source: Any) -> Contents:
        """Shards read one after the other; each must hold what the first does."""
        filled = [shard for shard in shards if shard.n_rows]
        if not filled:
            raise InputValueError(f"{source} must have at least one row, got none.")
        first, *others = filled
        if not others:
            return replace(first, path=source)
        for shard in others:
            if not (
                first.matrices.keys() <= shard.matrices.keys()
                and first.columns.keys() <= shard.columns.keys()
            ):
                raise InputValueError(
                    f"All shards of {source} must hold the same arrays and columns: "
                    f"{first.path.name} has {first.listing()}; {shard.path.name} has "
                    f"{shard.listing()}."
                )
            for name, matrix in first.matrices.items():
                if shard.matrices[name].shape[1:] != matrix.shape[1:]:
                    raise InputValueError(
                        f"All shards of {source} must have the same number of columns: "
                        f"{first.path.name} has shape {matrix.shape}, {shard.path.name} has shape "
                        f"{shard.matrices[name].shape}."
                    )
        return cls(
            source,
            {name: Shards([one.matrices[name] for one in filled]) for name in first.matrices},
            {name: Column.joined([one.columns[name] for one in filled]) for name in first.columns},
        )

    def subset(self, rows: np.ndarray) -> Contents:
        """These rows of all matrices and columns, not read yet."""
        matrices = {name: PickedRows(matrix, rows) for name, matrix in self.matrices.items()}
        columns = {name: column.subset(rows) for name, column in self.columns.items()}
        return Contents(self.path, matrices, columns, note=self.note)

    @property
    def n_rows(self) -> int:
        """The rows of its longest matrix, else of its longest column."""
        counts = [matrix.shape[0] for matrix in self.matrices.values() if matrix.shape]
        return max(counts or [column.length for column in self.columns.values()], default=0)

    def look_through(self) -> None:
        """Read everything that could be damaged: in plain numbers any bytes are right."""
        for matrix in self.matrices.values():
            for _ in () if isinstance(matrix, FileMatrix) else matrix.batches(BATCH_ROWS):
                pass
        for column in self.columns.values():
            column.load()

    @property
    def embeddings(self) -> list[str]:
        """The names that can be rows: matrices of floats."""
        return [
            name
            for name, matrix in self.matrices.items()
            if matrix.dtype.kind == "f" and len(matrix.shape) == 2
        ]

    def matrix(self, name: str) -> Matrix:
        """The matrix of that name, if it can be used as rows."""
        if name in self.matrices:
            found = self.matrices[name]
            plain = found.dtype.kind == "f" and found.dtype.itemsize <= 8
            if not plain or len(found.shape) != 2 or 0 in found.shape:
                where = f"{name!r} of {self.path}"
                # It looks at shape and dtype only: a stand-in that takes no memory will do.
                check_matrix(np.broadcast_to(np.zeros((), found.dtype), found.shape), where)
                raise InputTypeError(
                    f"{where} must hold float16, float32 or float64, got {found.dtype}. Convert "
                    "it to float64."
                )
            return found
        if name in self.columns:
            column = self.columns[name]
            raise InputValueError(
                f"{name!r} of {self.path} must be a matrix with one row per item, "
                f"got shape ({column.length},) of {column.dtype}."
            )
        raise InputValueError(
            f"{self.path} has no {name!r}.{did_you_mean(name, self.matrices)} "
            f"It holds {self.listing()}."
        )

    def only_embedding(self) -> str:
        """The name of the one matrix that can be rows; several or none are refused."""
        if self.pair is not None:
            first, second = self.pair
            shape = self.matrices[first].shape
            raise InputValueError(
                f"{self.path} holds two modalities of shape {shape}, where one is expected. "
                f"Choose one by column: modgap.open_embeddings(…, column={first!r}) or {second!r} "
                "(--column)."
            )
        if len(self.matrices) + len(self.columns) == 1:
            return next(iter([*self.matrices, *self.columns]))  # matrix() says what is wrong
        names = self.embeddings
        if len(names) == 1:
            return names[0]
        if not names:
            raise InputValueError(
                f"{self.path} must hold a matrix of floats with one row per item. "
                f"It holds {self.listing()}."
            )
        raise InputValueError(
            f"{self.path} holds more than one matrix: {listed(names)}. "
            f"Choose one by column: modgap.open_embeddings(…, column={names[0]!r}) (--column)."
        )

    def how_to_get_rows(self) -> str:
        """What to call where no matrix of floats is among the columns."""
        floats = [n for n, c in self.columns.items() if c.dtype in ("float", "double")]
        if len(floats) > 1 and len(floats) > len(self.columns) // 2:
            return "A column for each number is read in memory: pass pandas.read_parquet(…)."
        for name, column in self.columns.items():
            if column.length and "string" in column.dtype:
                (first,) = column.take(np.zeros(1, dtype=int)).tolist()
                if isinstance(first, str) and first.lstrip().startswith("["):
                    call = f"table[{name!r}].map(json.loads)"
                    return f"Vectors in {name!r} are written as text: read them with {call}."
        return "Pictures and texts are embedded first: modgap embed MODEL DATA -o rows."

    def listing(self) -> str:
        """Every array with its shape and dtype, the first of many, for error messages."""
        matrices = (f"{name!r} {m.shape} {m.dtype}" for name, m in self.matrices.items())
        columns = (f"{name!r} ({c.length},) {c.dtype}" for name, c in self.columns.items())
        held = [*matrices, *columns]
        more = f" and {len(held) - _LISTED} more" if len(held) > _LISTED else ""
        return (", ".join(held[:_LISTED]) or "no arrays") + more


def listed(names: Sequence[str]) -> str:
    """Names for a sentence.

    >>> listed(["image", "text"])
    "'image', 'text'"
    """
    return ", ".join(repr(name) for name in names)


@contextmanager
def reading(path: object, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a library's own errors about a damaged file into one clear sentence."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        raise damaged(path, kind, error) from error


def damaged(path: object, kind: str, error: BaseException) -> InputValueError:
    """The error for a file that a library cannot read."""
    return InputValueError(
        f"{path} cannot be read as {kind}: it is damaged, cut short or of another kind "
        f"({first_line(error)}). Write or download it again."
    )
