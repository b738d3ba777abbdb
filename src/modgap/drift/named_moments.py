"""Turns rows, data sets and files into named moments with blocks; saves and loads these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import row_blocks, to_numpy, unit
from modgap.core.checks import (
    InputError,
    InputTypeError,
    InputValueError,
    check_all_finite,
    check_choice,
    check_values,
)
from modgap.core.results import Progress, silent
from modgap.core.tensor_file import kind_of_file, read_tensors, write_tensors
from modgap.corrections import RowLength
from modgap.drift.blocked_moments import N_PROBES, BlockedMoments, Blocks
from modgap.io import Embeddings, Modalities, open_embeddings, open_modalities, open_pair
from modgap.io.modalities import DEFAULT_NAMES
from modgap.moments import Moments, PairMoments, RowMoments
from modgap.moments.rows import counted

Streams = Mapping[str, BlockedMoments]
# What one set of rows is called that has no name.
ONE_NAME = "rows"
KIND, MONITOR = "set of streams", "gap monitor"
_QUERIES = " queries"
_ROWS = 4096


def queries_name(modality: str) -> str:
    """The stream of a modality's queries.

    >>> queries_name("text")
    'text queries'
    """
    return f"{modality}{_QUERIES}"


def modality_and_role(stream: str) -> tuple[str, str]:
    """The modality of a stream, and whether it has documents or queries.

    >>> modality_and_role("text queries"), modality_and_role("image")
    (('text', 'query'), ('image', 'document'))
    """
    modality = stream.removesuffix(_QUERIES)
    return (modality, "query") if modality and modality != stream else (stream, "document")


def streams_of(
    given: Any,
    *,
    rows: RowLength = "unit",
    names: Sequence[str] = DEFAULT_NAMES,
    independent: bool = False,
    progress: Progress = silent,
) -> dict[str, BlockedMoments]:
    """Moments of each named set of rows, with blocks where the order of rows is known.

    Parameters
    ----------
    given : mapping of names to rows or Moments, Modalities, PairMoments, GapMonitor or path
        Rows are arrays, Embeddings, paths or tables. One path may hold two modalities, or be saved
        moments, saved streams or a saved monitor, of which the live rows are taken. An array
        without a name is called "rows".
    rows : {"unit", "given"}
        Whether rows are brought to unit length first.
    names : pair of str
        What two modalities without names are called.
    independent : bool
        Take rows as independent of each other, whatever their order: those of a sorted file.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    return streams_of_sets(named_sets(given, names), rows, independent, progress)


def streams_of_sets(
    sets: Mapping[str, Any], rows: RowLength, independent: bool, progress: Progress
) -> dict[str, BlockedMoments]:
    """The same of what ``named_sets`` opened."""
    check_choice(rows, "rows", ("unit", "given"))
    found = {name: _stream(one, rows, name, progress) for name, one in sets.items()}
    dims = {one.dim for one in found.values()}
    if len(dims) > 1:
        raise InputValueError(
            "All rows must have the same number of columns, got "
            f"{', '.join(f'{one.dim} of {name}' for name, one in found.items())}."
        )
    if not independent:
        return found
    return {name: BlockedMoments(one.moments, None, one.rows) for name, one in found.items()}


def named_sets(given: Any, names: Sequence[str] = DEFAULT_NAMES) -> dict[str, Any]:
    """What ``streams_of`` is given as rows or moments by name; files are opened, not read."""
    from modgap.drift.monitor import GapMonitor  # which is made of named moments itself

    if isinstance(given, (str, os.PathLike)):
        given = _opened(given, tuple(names))
    if isinstance(given, GapMonitor):
        given = given.live()
        if not given:
            return {}
    elif isinstance(given, PairMoments):
        given = dict(zip(names, (given.x, given.y), strict=True))
    elif isinstance(given, Modalities):
        asking = {queries_name(name): side for name, side in given.asking.items()}
        given = {**given.sides, **asking}
    elif not isinstance(given, Mapping):
        given = {ONE_NAME: given}
    if not given:
        raise InputValueError("There are no rows: give at least one named set of them.")
    moments = BlockedMoments | Moments | RowMoments
    return {
        str(name): one if isinstance(one, moments) else Embeddings.of(one, str(name))
        for name, one in given.items()
    }


def _opened(path: str | os.PathLike[str], names: tuple[str, ...]) -> Any:
    """Saved moments, two modalities of one path, or the rows of one."""
    from modgap.drift.monitor import GapMonitor

    loaders: dict[str, Callable[[Any], Any]] = {
        KIND: load_streams, MONITOR: GapMonitor.load, "set of moments": Moments.load,
        "set of pair moments": PairMoments.load,
    }  # fmt: skip
    is_own = Path(path).suffix == ".safetensors" and Path(path).is_file()
    if is_own and (kind := kind_of_file(path)) in loaders:
        return loaders[kind](path)
    try:
        return open_pair(path, names=(names[0], names[1]), paired=False)
    except InputError as error:
        try:
            return open_embeddings(path)
        except InputError:
            raise error from None


def open_named(paths: Mapping[str, str]) -> dict[str, Embeddings]:
    """Embeddings of paths by name; one is enough."""
    if len(paths) > 1:
        return dict(open_modalities(paths, paired=False).sides)
    return {name: open_embeddings(path, modality=name) for name, path in paths.items()}


def _stream(given: Any, rows: RowLength, name: str, progress: Progress) -> BlockedMoments:
    if isinstance(given, BlockedMoments):
        if given.rows != rows:
            words = {"unit": "rows at unit length", "given": "rows as given"}
            raise InputValueError(
                f"The moments of {name} are of {words[given.rows]}, and {words[rows]} are "
                f"compared. Compare with rows={given.rows!r} (--rows {given.rows})."
            )
        return given
    if isinstance(given, Moments):
        return _without_blocks(given, rows, name)
    if isinstance(given, RowMoments):
        raise InputTypeError(f"{name} must be Moments or rows, got RowMoments.")
    return _gathered(given.batches_with_progress(progress, f"reading {name}"), rows, name)


def _without_blocks(moments: Moments, rows: RowLength, name: str) -> BlockedMoments:
    used = moments.unit_rows() if rows == "unit" else moments.given
    if used.scatter is None or used.scatter.ndim != 2:
        raise InputValueError(
            f"The moments of {name} must hold the covariance; gather them with detail='covariance'."
        )
    arrays = RowMoments(used.n, to_numpy(used.mean), to_numpy(used.scatter))
    return BlockedMoments(arrays, None, rows)


def _gathered(batches: Iterable[Any], rows: RowLength, name: str) -> BlockedMoments:
    """Moments with blocks of rows that come in batches; every value is checked."""
    found: BlockedMoments | None = None
    for batch, first in counted(batches):
        for block in row_blocks(len(batch), _ROWS):
            part = to_numpy(batch[block])
            check_values(part, name, nonzero=rows == "unit", first_row=first + block.start)
            wide = part.astype(np.float64)
            wide = np.asarray(unit(wide)) if rows == "unit" else wide
            found = BlockedMoments.of(wide, rows) if found is None else found.then(wide)
    if found is None:
        raise InputValueError(f"{name} must have at least one row, got none.")
    return found


def save_streams(streams: Streams, path: str | os.PathLike[str]) -> None:
    """Write named moments with their blocks as one safetensors file."""
    names = list(streams)
    tensors: dict[str, np.ndarray] = {}
    for place, stream in enumerate(streams.values()):
        tensors |= stream_tensors(stream, f"{place}")
    header = {"names": names, "rows": next(iter(streams.values())).rows}
    write_tensors(path, KIND, tensors, header, checksum=True)


def load_streams(path: str | os.PathLike[str]) -> dict[str, BlockedMoments]:
    """Read what ``save_streams`` wrote."""
    header, tensors = read_tensors(path, KIND)
    try:
        names, rows = header["names"], check_choice(header["rows"], "rows", ("unit", "given"))
        return {
            str(name): stream_from(tensors, f"{place}", rows) for place, name in enumerate(names)
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputValueError(f"{path} is not a whole {KIND}: {error}") from error


def stream_tensors(stream: BlockedMoments, key: str) -> dict[str, np.ndarray]:
    """A stream as named arrays, for a file."""
    found = {
        f"{key}.n": np.array(stream.n, dtype=np.int64),
        f"{key}.mean": to_numpy(stream.moments.mean),
        f"{key}.scatter": to_numpy(stream.moments.scatter),
    }
    if stream.blocks is not None:
        found[f"{key}.counts"], found[f"{key}.sums"] = stream.blocks.counts, stream.blocks.sums
    return found


def stream_from(tensors: Mapping[str, np.ndarray], key: str, rows: str) -> BlockedMoments:
    """The stream that ``stream_tensors`` gave the names of."""
    n, mean, scatter = (tensors[f"{key}.{part}"] for part in ("n", "mean", "scatter"))
    if n.size != 1 or n.dtype.kind != "i" or n < 1 or mean.ndim != 1:
        raise InputValueError("a number of rows or a mean is missing.")
    if scatter.shape != (len(mean), len(mean)):
        raise InputValueError("a covariance does not belong to its mean.")
    blocks = None
    if f"{key}.counts" in tensors:
        counts, sums = tensors[f"{key}.counts"], tensors[f"{key}.sums"]
        whole = counts.ndim == 1 and counts.dtype.kind == "i" and bool(np.all(counts > 0))
        if not whole or sums.shape != (len(counts), len(mean) + 1 + N_PROBES):
            raise InputValueError("blocks do not belong to their mean.")
        blocks = Blocks(counts, check_all_finite(sums, "The blocks"))
    for part in (mean, scatter):
        check_all_finite(part, "Moments")
    return BlockedMoments(RowMoments(int(n), mean, scatter), blocks, rows)
