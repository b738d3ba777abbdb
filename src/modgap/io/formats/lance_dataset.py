"""Lance datasets: one part for each fragment, read from the version that was opened.

https://lance.org: files of a version never change, so that whoever writes to a dataset meanwhile
disturbs nobody. ``add_columns`` backfills a corrected column beside the rows it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from modgap.core.checks import require
from modgap.io._arrow_columns import ArrowPart, arrow_contents, one_array
from modgap.io._contents import Contents, reading
from modgap.io._matrices import LOCAL_READERS
from modgap.io._shards import ShardOpener
from modgap.io.remote import RemotePath

SUFFIX = ".lance"
_VERSIONS = "_versions"
# Bytes that Lance itself reads ahead in a scan.
_BUFFER = 32 * 1024**2
_READERS = 4


def is_lance(folder: Any) -> bool:
    """Whether a folder is a Lance dataset."""
    return folder.suffix.lower() == SUFFIX or (folder / _VERSIONS).is_dir()


def open_lance(path: Any, opener: ShardOpener) -> Contents:
    """The vector columns and the plain columns of a dataset, as it is now."""
    lance = require("lance", "lance", f"Reading {path}", package="pylance")
    address = path.url if isinstance(path, RemotePath) else str(path)
    with _reading(path):
        dataset = lance.dataset(address)
        fragments = dataset.get_fragments()
    named = [_FragmentPath(path, fragment) for fragment in fragments]
    return opener.joined(named, lambda one: arrow_contents(_Fragment(dataset, one)), path)


class _FragmentPath:
    """A fragment with the attributes of a path that shards use."""

    def __init__(self, dataset: Any, fragment: Any) -> None:
        self.parent, self.fragment = dataset, fragment
        self.name = self.stem = f"fragment {fragment.fragment_id}"

    def __str__(self) -> str:
        return f"{self.name} of {self.parent}"


class _Fragment(ArrowPart):
    """Some files of a dataset that hold the same rows."""

    copies = True  # Lance's own memory ends with the scan

    def __init__(self, dataset: Any, path: _FragmentPath) -> None:
        self.dataset, self.path, self.fragment = dataset, path, path.fragment
        self.schema = dataset.schema
        self.readers = _READERS if isinstance(path.parent, RemotePath) else LOCAL_READERS
        with _reading(path):
            self.n_rows = self.fragment.count_rows()

    def arrays(self, column: str, size: int) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows."""
        with _reading(self.path):
            scanner = self.dataset.scanner(
                columns=[column],
                fragments=[self.fragment],
                batch_size=size,
                batch_readahead=2,
                io_buffer_size=_BUFFER,
                scan_in_order=True,
            )
            for batch in scanner.to_batches():
                yield batch.column(column)

    def take_rows(self, column: str, dim: int, rows: np.ndarray) -> np.ndarray:
        with _reading(self.path):
            array = one_array(self.fragment.take(rows.tolist(), columns=[column]).column(column))
        return self.numbers(array, dim, column, int(rows[0]))


def _reading(path: Any) -> Any:
    return reading(path, "a Lance dataset", Exception)
