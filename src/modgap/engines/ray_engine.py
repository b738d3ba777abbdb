"""Ray Data: tasks are rows of a dataset, and its workers map them.

Ray does a task again where a worker died over it. What goes wrong in a task itself comes back with
its result, so that it is one sentence here and no trace of a worker.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from modgap._validate import InputError, InputValueError, first_line, require
from modgap.engines.engine import RAY

T = TypeVar("T")
R = TypeVar("R")

# Seconds in which a cluster must answer.
_PATIENCE = 10
_NUMBER, _TASK, _RESULT, _WRONG = "number", "task", "result", "wrong"


class WorkerError(RuntimeError):
    """What nobody foresaw, in a worker; the message has its trace."""


class RayEngine:
    """A cluster of Ray.

    Parameters
    ----------
    address : str, optional
        ``ray://HOST:PORT`` for the client of a cluster, ``HOST:PORT`` where this machine belongs to
        it; without it the cluster of this process or of ``RAY_ADDRESS``, else a new one on this
        machine, which is stopped with the process.
    options
        Those of ``ray.init``.
    """

    name = RAY

    def __init__(self, address: str | None = None, **options: Any) -> None:
        self._ray = require("ray", "ray", "--engine ray")
        require("ray.data", "ray", "--engine ray")
        if not self._ray.is_initialized():
            self._connect(address, options)

    def _connect(self, address: str | None, options: dict[str, Any]) -> None:
        place = address or os.environ.get("RAY_ADDRESS") or None
        settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if place is None:
            settings["include_dashboard"] = False
        elif place not in ("auto", "local"):
            _check_listening(place)
        with _quiet():
            try:
                self._ray.init(address=place, **{**settings, **options})
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                raise _no_cluster(place or "this machine", first_line(error)) from error
        atexit.register(self._ray.shutdown)

    def map(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results in the order of the tasks, each as soon as those before it are there."""
        if not len(tasks):
            return
        data = require("ray.data", "ray", "--engine ray")
        pickle = require("ray.cloudpickle", "ray", "--engine ray")
        given = pa.table(
            {
                _NUMBER: pa.array(range(len(tasks)), pa.int64()),
                _TASK: pa.array([pickle.dumps(task) for task in tasks], pa.large_binary()),
            }
        )
        with _quiet(), _settings(data.DataContext.get_current()):
            rows = data.from_arrow([given.slice(k, 1) for k in range(len(tasks))])
            mapped = rows.map_batches(
                _Work(pickle.dumps(work)), batch_format="pyarrow", batch_size=None
            )
            yield from _results(mapped, self._ray)


class _Work:
    """What a worker does with a block of tasks; the function is unpacked there."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def __call__(self, tasks: pa.Table) -> pa.Table:
        import pickle

        from ray import cloudpickle

        results: list[bytes | None] = []
        wrong: list[bytes | None] = []
        for task in tasks[_TASK].to_pylist():
            try:
                work = pickle.loads(self.packed)
                results.append(cloudpickle.dumps(work(pickle.loads(task))))
                wrong.append(None)
            except Exception as error:
                results.append(None)
                wrong.append(_packed(error))
        return pa.table(
            {
                _NUMBER: tasks[_NUMBER],
                _RESULT: pa.array(results, pa.large_binary()),
                _WRONG: pa.array(wrong, pa.large_binary()),
            }
        )


def _packed(error: Exception) -> bytes:
    """An error on its way back: one that says what to do as it is, another with its trace."""
    from ray import cloudpickle

    if isinstance(error, (InputError, OSError, MemoryError)):
        try:
            packed: bytes = cloudpickle.dumps(error)
            cloudpickle.loads(packed)
        except Exception:  # errors whose arguments are not those of their class
            return cloudpickle.dumps(InputValueError(str(error)))
        return packed
    said = f"{first_line(error)} (in a worker)\n{traceback.format_exc()}"
    return cloudpickle.dumps(WorkerError(said))


def _results(mapped: Any, ray: Any) -> Iterator[Any]:
    import pickle

    try:
        for block in mapped.iter_batches(batch_size=None, batch_format="pyarrow"):
            for cells in block.select([_RESULT, _WRONG]).to_pylist():
                if cells[_WRONG] is not None:
                    raise pickle.loads(cells[_WRONG])
                yield pickle.loads(cells[_RESULT])
    except ray.exceptions.RayError as error:
        raise InputValueError(
            f"Ray could not finish ({first_line(error)}). Its workers died again and again, often "
            "for want of memory: give them more, or smaller shards, and run it again."
        ) from error


def _check_listening(address: str) -> None:
    """Refuse an address that nobody answers at; Ray itself would try for a minute."""
    place = address.removeprefix("ray://").partition("?")[0].rstrip("/")
    host, _, port = place.rpartition(":")
    if not (host and port.isdecimal()):
        raise InputValueError(
            f"The address of a cluster must be HOST:PORT or ray://HOST:PORT, got {address!r}."
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            return
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, why: str) -> InputValueError:
    return InputValueError(
        f"There is no cluster of Ray at {address} that answers ({why.rstrip('.')}). Start one with "
        "ray start --head, and give its address: --engine ray:HOST:6379, or from elsewhere "
        "ray://HOST:10001."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Ray's lines about its own doings; ours tell how far the work is."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    before = [one.level for one in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, before, strict=True):
                one.setLevel(level)


@contextmanager
def _settings(context: Any) -> Iterator[None]:
    """Results in order, no bars; as before at the end, since the context is the user's."""
    options = context.execution_options
    before = context.enable_progress_bars, options.preserve_order
    context.enable_progress_bars, options.preserve_order = False, True
    try:
        yield
    finally:
        context.enable_progress_bars, options.preserve_order = before
