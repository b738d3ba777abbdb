"""Monitors live rows: compares the moments of the last hours with a reference."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputError, InputValueError, check_count, check_finite, require
from modgap.core.results import Brief
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.corrections import RowLength
from modgap.drift.answers import OTHER, SearchAnswers, Searches
from modgap.drift.blocked_moments import BlockedMoments
from modgap.drift.detection import (
    ALPHA,
    Corrections,
    check_alpha,
    check_least,
    compare_streams,
    each_correction,
    row_kind,
)
from modgap.drift.named_moments import (
    MONITOR,
    modality_and_role,
    queries_name,
    save_streams,
    stream_from,
    stream_tensors,
    streams_of,
)
from modgap.drift.report import DriftReport
from modgap.drift.window import Slice, Window
from modgap.io.modalities import DEFAULT_NAMES
from modgap.moments import Moments

# Rows that wait before they are added to the moments together.
FOLD_ROWS = 256
# Products of longer rows leave the range of float64.
_LONGEST = 1e150
_log = logging.getLogger(__name__)


class _Stream:
    """The live rows of one name: a few slices of moments, and rows that wait to be added."""

    def __init__(self, window: Window[BlockedMoments]) -> None:
        self.waiting: list[np.ndarray] = []
        self.n_waiting = 0
        self.since = 0.0
        self.window = window
        self.folding = threading.Lock()


class GapMonitor(Brief):
    """Watches live rows for drift of means, spread and gap, in O(d²) memory.

    Rows are counted in slices of time. The window holds at most ``slices`` of them: a slice ends
    once it is ``window / slices`` seconds old and has its share of ``least_rows``, and the oldest
    is then forgotten. So after a year the last hour counts as it did on the first day, and a quiet
    service is judged by its last ``least_rows`` rows. Slices that add are exact moments of the rows
    in the window, which `DriftReport` can state; weights that fade would be of no rows at all.

    Any number of threads may call ``add``, which never raises: rows that cannot be used are
    counted and left out. ``check`` compares the window with the reference.

    Parameters
    ----------
    reference : mapping of names to Moments or rows, Modalities, PairMoments or path
        What live rows are compared with, such as the rows a correction was fitted on; see
        `streams_of`.
    correction : Correction or path, optional
        One that is in use, or several by query modality: ``check`` says whether they fit.
    names : pair of str
        What two modalities without names are called.
    rows : {"unit", "given"}, optional
        Whether rows are brought to unit length: as the correction does, else "unit".
    window : float
        Seconds that are looked at.
    slices : int
        How many parts the window is forgotten in. Memory grows with it: d² numbers each.
    least_rows : int
        Fewer live rows are not judged.
    alpha, least
        As for `detect_drift`.
    clock : callable
        Says what time it is, in seconds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = GapMonitor({"text": rng.normal(size=(500, 8)) + 1})
    >>> monitor.add("text queries", rng.normal(size=(500, 8)) - 1)
    >>> monitor.check().drifted
    True
    """

    def __init__(
        self,
        reference: Any,
        correction: Corrections = None,
        *,
        names: Sequence[str] = DEFAULT_NAMES,
        rows: RowLength | None = None,
        window: float = 3600.0,
        slices: int = 4,
        least_rows: int = 400,
        alpha: float = ALPHA,
        least: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._corrections = each_correction(correction)
        self.rows: RowLength = rows or row_kind(self._corrections)
        self.reference = streams_of(reference, rows=self.rows, names=names)
        if check_finite(window, "window") <= 0:
            raise InputValueError(f"window must be above 0 seconds, got {window}.")
        self.window, self.n_slices = float(window), check_count(slices, "slices", at_most=1000)
        self.least_rows = check_count(least_rows, "least_rows", at_least=50)
        self.alpha, self.least = check_alpha(alpha), check_least(least)
        self._clock = clock
        self.dim = next(iter(self.reference.values())).dim
        modalities = [name for name in self.reference if modality_and_role(name)[1] == "document"]
        known = dict.fromkeys([*self.reference, *map(queries_name, modalities)])
        self._streams = {name: _Stream(self._window()) for name in known}
        self._searches = Searches(self.reference, self._window)
        self._lock, self._checking = threading.Lock(), threading.Lock()
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[tuple[str, str]] = Counter()
        self._last: tuple[Any, DriftReport] | None = None

    def _brief(self) -> str:
        for name in self._streams:
            self._fold(name)
        with self._lock:
            seen = [f"{name} {n:,} rows" for name, n in self._counts.items()]
        return ", ".join(seen) or f"no rows yet, of {', '.join(self.reference)}"

    def watch(self, correction: Corrections) -> None:
        """The correction in use from now on; None for none."""
        self._corrections = each_correction(correction)

    def add(self, name: str, rows: Any) -> None:
        """Count live rows, (n, d) or (d,), as the model gives them. Never raises.

        ``name`` is a modality, or its queries as "text queries". Rows of other names or other
        columns, with NaN or infinity, or of length zero are counted and left out.
        """
        try:
            self._add(str(name), rows)
        except Exception:
            with self._lock:
                self._left_out[OTHER, "unreadable"] += 1
                first = self._left_out[OTHER, "unreadable"] == 1
            if first:
                _log.warning("Rows for the monitor cannot be read.", exc_info=True)

    def add_results(self, name: str, results: Any) -> None:
        """Count what searches answered: queries that found nothing, modalities of the first ten.

        ``name`` is that of the queries, as "text queries". ``results`` are `Hits` of searches in
        all modalities, or for each query the modalities of its results, best first. Never raises.
        """
        try:
            self._searches.add(name if name in self._streams else OTHER, results, self._clock())
        except Exception:
            _log.warning("Results for the monitor cannot be read.", exc_info=True)

    def answered(self) -> dict[str, SearchAnswers]:
        """What all searches answered since the monitor began, by the name of their queries."""
        return self._searches.all()

    def _window(self) -> Window[Any]:
        return Window(self.window, self.n_slices, self.least_rows)

    def _add(self, name: str, rows: Any) -> None:
        given = np.asarray(to_numpy(rows))
        given = given[None] if given.ndim == 1 else given
        if given.ndim != 2 or given.dtype.kind not in "fiu":
            raise InputValueError(f"rows must be a matrix of numbers, got {given.dtype}.")
        stream = self._streams.get(name)
        if stream is None or given.shape[1] != self.dim:
            reason = "unknown name" if stream is None else "columns"
            with self._lock:
                self._left_out[name if stream else OTHER, reason] += len(given)
            return
        for start in range(0, len(given), FOLD_ROWS):
            part = np.array(given[start : start + FOLD_ROWS])  # the caller may change its own
            now = self._clock()
            if stream.n_waiting and now - stream.since > self.window / self.n_slices / 4:
                self._fold(name)  # rows of long ago are counted in their own time
            with self._lock:
                stream.since = stream.since if stream.n_waiting else now
                stream.waiting.append(part)
                stream.n_waiting += len(part)
                full = stream.n_waiting >= FOLD_ROWS
            if full:
                self._fold(name)

    def _fold(self, name: str) -> None:
        """Add the rows that wait to the moments."""
        stream = self._streams[name]
        with stream.folding:
            with self._lock:
                waiting, since = stream.waiting, stream.since
                stream.waiting, stream.n_waiting = [], 0
            if waiting:
                rows = np.concatenate([part.astype(np.float64) for part in waiting])
                rows = self._usable(name, rows)
                if len(rows):
                    stream.window.keep(since, partial(self._with, rows))
            stream.window.forget(self._clock())

    def _with(self, rows: np.ndarray, last: BlockedMoments | None) -> BlockedMoments:
        return BlockedMoments.of(rows, self.rows) if last is None else last.then(rows)

    def _usable(self, name: str, rows: np.ndarray) -> np.ndarray:
        largest = np.max(np.abs(rows), axis=1)  # NaN where there is one
        finite = largest < _LONGEST
        bad = {"not finite": int(np.sum(~finite))}
        rows, largest = rows[finite], largest[finite]
        if self.rows == "unit":
            bad["zero"] = int(np.sum(largest == 0))
            rows = rows[largest > 0] / largest[largest > 0, None]
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        with self._lock:
            self._counts[name] += len(rows)
            for reason, n in bad.items():
                if n:
                    self._left_out[name, reason] += n
        return rows

    def live(self) -> dict[str, BlockedMoments]:
        """Moments of the rows in the window, by name; only of names that have any."""
        found = {}
        for name, stream in self._streams.items():
            self._fold(name)
            with stream.folding:
                parts = [one.seen for one in stream.window.slices]
            if parts:
                found[name] = reduce(BlockedMoments.__add__, parts)
        return found

    def moments(self) -> dict[str, Moments]:
        """The same as `Moments`, from which a corrector can be fitted again: ``fit_moments``."""
        return {
            name: Moments(one.moments, one.moments if self.rows == "unit" else None)
            for name, one in self.live().items()
        }

    def counts(self) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
        """Rows that were counted, by name; rows left out, by name and reason."""
        with self._lock:
            return dict(self._counts), dict(self._left_out)

    def check(self) -> DriftReport:
        """The window beside the reference: what moved, and whether the correction still fits."""
        corrections = self._corrections
        with self._checking:
            live = self.live()
            now = int(self._clock() // (self.window / self.n_slices))
            with self._lock:
                seen = (now, tuple(self._counts.items()), tuple(map(id, corrections)))
            if self._last is None or self._last[0] != seen:
                report = compare_streams(
                    self.reference, live, corrections, alpha=self.alpha, least=self.least,
                    least_rows=self.least_rows,
                )  # fmt: skip
                self._last = seen, report
            answers = self._searches.live(self._clock())
            if answers != self._last[1].answers:
                self._last = self._last[0], replace(self._last[1], answers=answers)
            return self._last[1]

    def collect(self) -> Iterator[Any]:
        """Metrics for a registry of prometheus_client: ``REGISTRY.register(monitor)``."""
        from modgap.drift.prometheus import families

        return families(self)

    def metrics(self) -> str:
        """Every metric in the text format of Prometheus."""
        client = require("prometheus_client", "monitor", "The metrics of a monitor")
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(self)
        text: bytes = client.generate_latest(registry)
        return text.decode()

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write the rows in the window as a file that `detect_drift` and a new monitor read."""
        live = self.live()
        if not live:
            raise InputValueError("The monitor has seen no rows yet, so there is nothing to keep.")
        save_streams(live, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the correction atomically as one safetensors file."""
        tensors: dict[str, np.ndarray] = {}
        slices: dict[str, list[tuple[float, float]]] = {}
        for place, one in enumerate(self.reference.values()):
            tensors |= stream_tensors(one, f"then.{place}")
        for place, (name, stream) in enumerate(self._streams.items()):
            self._fold(name)
            with stream.folding:  # slices change while rows arrive
                slices[name] = [(one.began, one.ended) for one in stream.window.slices]
                held = [one.seen for one in stream.window.slices]
            for number, rows in enumerate(held):
                tensors |= stream_tensors(rows, f"now.{place}.{number}")
        counts, left_out = self.counts()
        header = {
            "reference": list(self.reference), "slices": slices, "counts": counts,
            "searches": self._searches.state(),
            "settings": {
                "rows": self.rows, "window": self.window, "slices": self.n_slices,
                "least_rows": self.least_rows, "alpha": self.alpha, "least": self.least,
            },
            "left_out": [[name, reason, n] for (name, reason), n in left_out.items()],
        }  # fmt: skip
        write_tensors(path, MONITOR, tensors, header, checksum=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        correction: Corrections = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> GapMonitor:
        """Resume what ``save`` wrote; nothing in the file is ever executed.

        Parameters
        ----------
        path : path
            The file.
        correction, clock
            As for the monitor; neither is in the file.
        """
        header, tensors = read_tensors(path, MONITOR)
        try:
            then = {
                str(name): stream_from(tensors, f"then.{place}", header["settings"]["rows"])
                for place, name in enumerate(header["reference"])
            }
            made = cls(then, correction, **header["settings"], clock=clock)
            for place, (name, stream) in enumerate(made._streams.items()):
                for number, (began, ended) in enumerate(header["slices"].get(name, ())):
                    rows = stream_from(tensors, f"now.{place}.{number}", made.rows)
                    if rows.blocks is None or rows.dim != made.dim:
                        raise InputValueError("a slice is not of the reference's rows.")
                    stream.window.slices.append(Slice(float(began), float(ended), rows))
            made._searches.resume(header["searches"])
            made._counts.update({str(name): int(n) for name, n in header["counts"].items()})
            for name, reason, n in header["left_out"]:
                made._left_out[str(name), str(reason)] += int(n)
        except InputError as error:
            raise InputValueError(f"{path} is not a whole {MONITOR}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InputValueError(f"{path} is not a whole {MONITOR}: {error!r}.") from error
        return made

    @contextmanager
    def kept_at(self, path: str | os.PathLike[str], every: float = 60.0) -> Iterator[GapMonitor]:
        """While the block lasts, ``save`` to a file now and then, and once more at its end.

        Parameters
        ----------
        path : path
            The file.
        every : float
            Seconds between two writes: what a kill may lose.
        """
        self.save(path)  # fails at once where nothing can be written
        done = threading.Event()

        def keep() -> None:
            while not done.wait(every):
                try:
                    self.save(path)
                except Exception:  # a full disk now may have room later
                    _log.warning("The monitor could not be saved.", exc_info=True)

        thread = threading.Thread(target=keep, name="modgap monitor", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            done.set()
            thread.join()
            with suppress(InputError):
                self.save(path)
