"""A corrected column beside the raw one of a Lance dataset; the data there stays as it is."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from modgap.core.checks import InputError, InputValueError, did_you_mean, first_line, require
from modgap.core.files import FULL, WriteError, errno_of
from modgap.core.locks import sole_writer_of
from modgap.core.results import Progress, silent
from modgap.corrections import Correction, check_recognised
from modgap.corrections.correction import Role
from modgap.corrections.fingerprints import fingerprint
from modgap.corrections.recognition import MAX_SAMPLE
from modgap.engines.arrow import corrected_batch, rows_of_column, vector_column
from modgap.io._arrow_columns import numpy_dtype

_BATCH_ROWS = 8192
_ADDRESS = "_rowaddr"


def add_corrected_column(
    path: str | os.PathLike[str],
    correction: Correction,
    modality: str,
    into: str,
    *,
    column: str | None = None,
    role: Role = "document",
    dtype: Any = None,
    trust_rows: bool = False,
    batch_rows: int = _BATCH_ROWS,
    progress: Progress | None = None,
) -> int:
    """Add a column with the corrected vectors of another; how many rows it has.

    Lance writes new files for it and leaves the others alone. An interrupted run resumes when the
    call is repeated. `drop_corrected_column` undoes it.

    Parameters
    ----------
    path : path
        A Lance dataset.
    correction : Correction
        The correction to apply.
    modality : str
        Which of its modalities the rows are.
    into : str
        The new column.
    column : str, optional
        The column of the vectors, where there is more than one.
    role : {"document", "query"}
        As what they are corrected.
    dtype : dtype, optional
        float16, float32 or float64; that of the column when left out.
    trust_rows : bool
        Go on with rows that look like another modality's or another model's.
    batch_rows : int
        Rows corrected together.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    lance = require("lance", "lance", "A column of a Lance dataset")
    with sole_writer_of(path), _one_sentence(path) as wrong:
        dataset = lance.dataset(os.fspath(path))
        if into in dataset.schema.names:
            raise InputValueError(
                f"{path} has a column {into!r} already. Drop it first (modgap index drop-column "
                f"{path} --new-column {into}), or choose another name."
            )
        chosen = vector_column(dataset.schema.empty_table(), column)
        _check_rows(dataset, correction, modality, chosen, role, trust_rows)
        work = _Corrected(
            dataset, correction, modality, chosen, into, role, dtype, progress or silent, wrong
        )
        checkpoint = _checkpoint(path, into, work.digest())
        udf = lance.batch_udf(output_schema=work.schema(), checkpoint_file=checkpoint)(work)
        dataset.add_columns(udf, read_columns=work.reads, batch_size=batch_rows)
        # Also those of earlier runs for the same column that were never finished.
        stem = Path(checkpoint).name.rsplit(".", 2)[0]
        for left in list(Path(checkpoint).parent.iterdir()):
            if left.name.startswith(f"{stem}.") and left.name.endswith(".checkpoint"):
                left.unlink(missing_ok=True)
        found: int = dataset.count_rows()
    return found


def drop_corrected_column(path: str | os.PathLike[str], column: str) -> None:
    """Drop a column of a Lance dataset, which is then as it was.

    Parameters
    ----------
    path : path
        The dataset.
    column : str
        What `add_corrected_column` made.
    """
    lance = require("lance", "lance", "A column of a Lance dataset")
    with sole_writer_of(path), _one_sentence(path):
        dataset = lance.dataset(os.fspath(path))
        if column not in dataset.schema.names:
            raise InputValueError(
                f"{path} has no column {column!r}.{did_you_mean(column, dataset.schema.names)}"
            )
        dataset.drop_columns([column])


@dataclass
class _Corrected:
    """What Lance calls with each batch; an error is kept in ``wrong``."""

    dataset: Any
    correction: Correction
    modality: str
    column: str
    into: str
    role: Role
    dtype: Any
    progress: Progress
    wrong: list[Exception]

    def __post_init__(self) -> None:
        names = self.dataset.schema.names
        kind = self.dataset.schema.field(self.column).type
        self.dtype = np.dtype(self.dtype or numpy_dtype(kind.value_type))
        beside = [name for name in ("id", "group") if name in names and self.correction.hubs]
        self.reads = [self.column, *beside, _ADDRESS]
        self.n_rows, self.done, self.firsts = 0, 0, dict[int, int]()
        for fragment in self.dataset.get_fragments():
            self.firsts[fragment.fragment_id] = self.n_rows
            self.n_rows += fragment.count_rows()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            corrected = corrected_batch(
                batch, self.correction, self.modality, self.column, self.into, role=self.role,
                dtype=self.dtype, first_row=self._first_row(batch),
            )  # fmt: skip
        except Exception as error:  # Lance would put it into words of its own
            self.wrong.append(error)
            raise
        self.done += batch.num_rows
        self.progress(f"correcting {self.modality}", self.done, self.n_rows)
        return corrected.select([self.into])  # a batch as the one given

    def schema(self) -> pa.Schema:
        """The new column."""
        width = self.correction.map(self.modality, self.role).dim_out
        return pa.schema([(self.into, pa.list_(pa.from_numpy_dtype(self.dtype), width))])

    def digest(self) -> str:
        """What is being made, and of which version of the data."""
        mark = fingerprint(self.correction, self.role)
        made = (
            f"{mark} {self.dataset.version} {self.column} {self.modality} {self.role} {self.dtype}"
        )
        return hashlib.sha256(made.encode()).hexdigest()[:16]

    def _first_row(self, batch: pa.RecordBatch) -> int:
        if batch.num_rows == 0:
            return 0
        address = batch.column(_ADDRESS)[0].as_py()
        return int(self.firsts[address >> 32] + (address & 0xFFFFFFFF))


def _check_rows(
    dataset: Any, correction: Correction, modality: str, column: str, role: Role, trust_rows: bool
) -> None:
    """Refuse rows of another modality or model, by a sample spread over the data."""
    n_rows = dataset.count_rows()
    if n_rows == 0:
        raise InputValueError(f"{dataset.uri} must have at least one row, got none.")
    places = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MAX_SAMPLE)).astype(np.int64))
    sample = dataset.take(places.tolist(), columns=[column])
    sample = sample.filter(sample[column].is_valid())
    rows = rows_of_column(sample, column, 0)
    if len(rows):
        check_recognised(correction, rows, modality, role=role, trust_rows=trust_rows)


def _checkpoint(path: str | os.PathLike[str], into: str, digest: str) -> str:
    """The file in which Lance keeps what it has done; nobody else may have written it."""
    place = Path(path).absolute()
    file = place.with_name(f".{place.name}.{into}.{digest}.checkpoint")
    opened = os.open(file, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        seen = os.fstat(opened)
        if os.name != "nt" and seen.st_uid != os.geteuid():
            raise InputValueError(f"{file} belongs to another user. Remove it first.")
    finally:
        os.close(opened)
    return str(file)


@contextmanager
def _one_sentence(path: str | os.PathLike[str]) -> Iterator[list[Exception]]:
    """What Lance says is wrong, in one line; an error of ours on the way as it is."""
    wrong: list[Exception] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield wrong
    except InputError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        if wrong:
            raise wrong[0] from None
        if (number := errno_of(error)) in FULL:
            raise WriteError(path, number) from error
        raise InputValueError(
            f"{os.fspath(path)} cannot be used as a Lance dataset ({first_line(error)})."
        ) from error
