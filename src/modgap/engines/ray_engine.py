"""Ray Data: tasks are rows of a dataset, and its workers map them.

Ray Data needs a process that belongs to the cluster. From a machine that does not, through Ray's
client, each task is a plain one of Ray. Either way Ray does a task again where a worker died over
it. What goes wrong in a task itself comes back with its result, so that it is one sentence here and
no trace of a worker.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import socket
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa

from modgap._threads import at_most_processors
from modgap._validate import InputError, InputValueError, first_line, require
from modgap.engines.engine import RAY

T = TypeVar("T")
R = TypeVar("R")

# Seconds in which a cluster must answer.
_PATIENCE = 10
# How often a task is begun again whose worker died.
_RETRIES = 3
_SAME_VERSION = "Every node needs modgap, in the version that is used here."
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

    def map(self, work: Callable[[T], R], tasks: Sequence[T], *, gpus: float = 0) -> Iterator[R]:
        """The results in the order of the tasks, each as soon as those before it are there."""
        if not len(tasks):
            return
        packed = _pack([work, *tasks])
        if self._ray.util.client.ray.is_connected():
            with _quiet():
                yield from _results(self._through_client(packed, gpus), self._ray)
            return
        data = require("ray.data", "ray", "--engine ray")
        given = pa.table(
            {
                _NUMBER: pa.array(range(len(tasks)), pa.int64()),
                _TASK: pa.array(packed[1:], pa.large_binary()),
            }
        )
        with _quiet(), _settings(data.DataContext.get_current()):
            rows = data.from_arrow([given.slice(k, 1) for k in range(len(tasks))])
            mapped = rows.map_batches(
                _Work(packed[0], os.getcwd()), batch_format="pyarrow", batch_size=None,
                num_gpus=self._gpus(gpus),
            )  # fmt: skip
            blocks = mapped.iter_batches(batch_size=None, batch_format="pyarrow")
            yield from _results(blocks, self._ray)

    def _through_client(self, packed: Sequence[bytes], gpus: float) -> Iterator[pa.Table]:
        """A block for each task, a few of them under way at a time."""
        options = {"num_cpus": 1, "num_gpus": self._gpus(gpus), "max_retries": _RETRIES}
        begin = self._ray.remote(**options)(_one_task).remote
        try:
            work = self._ray.put(_Work(packed[0], os.getcwd()))
        except (ImportError, AttributeError) as error:
            raise InputValueError(
                f"The cluster could not take the work ({first_line(error)}). {_SAME_VERSION}"
            ) from error
        most = 2 * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        under_way: deque[Any] = deque()
        for number, task in enumerate(packed[1:]):
            under_way.append(begin(work, number, task))
            if len(under_way) == most:
                yield self._ray.get(under_way.popleft())
        while under_way:
            yield self._ray.get(under_way.popleft())

    def _gpus(self, wanted: float) -> float | None:
        has_any = wanted and self._ray.cluster_resources().get("GPU", 0)
        return wanted if has_any else None


def _pack(values: Sequence[Any]) -> list[bytes]:
    """The function and its tasks on their way to the workers."""
    from ray import cloudpickle

    try:
        return [cloudpickle.dumps(value) for value in values]
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputValueError(
            f"This cannot be sent to the workers of Ray ({first_line(error)}). Give paths and "
            "names, which they open themselves."
        ) from error


class _Work:
    """What a worker does with a block of tasks; the function is unpacked there.

    Relative paths mean there what they mean here.
    """

    def __init__(self, packed: bytes, folder: str) -> None:
        self.packed, self.folder = packed, folder

    def __call__(self, tasks: pa.Table) -> pa.Table:
        from ray import cloudpickle, get_runtime_context

        with suppress(OSError):
            os.chdir(self.folder)
        # Those of the machine are shared with its other workers.
        own = int(get_runtime_context().get_assigned_resources().get("CPU", 1))
        results: list[bytes | None] = []
        wrong: list[bytes | None] = []
        for task in tasks[_TASK].to_pylist():
            try:
                work = pickle.loads(self.packed)
                with at_most_processors(own):
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


def _one_task(work: _Work, number: int, task: bytes) -> pa.Table:
    """The block of one task, which goes and comes by itself."""
    return work(
        pa.table(
            {_NUMBER: pa.array([number], pa.int64()), _TASK: pa.array([task], pa.large_binary())}
        )
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


def _results(blocks: Iterable[pa.Table], ray: Any) -> Iterator[Any]:
    try:
        for block in blocks:
            for cells in block.select([_RESULT, _WRONG]).to_pylist():
                if cells[_WRONG] is not None:
                    raise pickle.loads(cells[_WRONG])
                yield pickle.loads(cells[_RESULT])
    except ray.exceptions.RayTaskError as error:
        raise InputValueError(
            f"A worker of Ray could not begin ({_cause(error)}). {_SAME_VERSION}"
        ) from error
    except ray.exceptions.RayError as error:
        raise InputValueError(
            f"Ray could not finish ({first_line(error)}). Its workers died again and again, often "
            "for want of memory: give them more, or smaller shards, and run it again."
        ) from error


def _cause(error: Exception) -> str:
    return first_line(getattr(error, "cause", None) or error)


def _check_listening(address: str) -> None:
    """Refuse an address that nobody answers at; Ray itself would try for a minute."""
    place = address.removeprefix("ray://").partition("?")[0].rstrip("/")
    host, _, port = place.rpartition(":")
    if not (host and port.isdecimal()):
        raise InputValueError(
            f"The address of a cluster must be HOST:PORT, with ray:// before it for Ray's client, "
            f"got {address!r}."
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            return
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, why: str) -> InputValueError:
    return InputValueError(
        f"There is no cluster of Ray at {address} that answers ({why.rstrip('.')}). Start one with "
        "ray start --head, and give its address: --engine ray:HOST:6379 on a machine of the "
        "cluster, else that of Ray's client, whose port is 10001. Where it asks for a token, as "
        "Ray 2.59 and later do, set RAY_AUTH_MODE=token and have the token of the cluster here."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Ray's lines about its own doings; ours tell how far the work is."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    before = [one.level for one in loggers]
    with warnings.catch_warnings():
        for kind in (FutureWarning, DeprecationWarning, ResourceWarning, UserWarning):
            warnings.filterwarnings("ignore", category=kind, module=r"ray($|\.)")
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
