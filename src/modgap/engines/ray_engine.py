"""Runs each task as one of Ray's, in the cluster or through Ray's client.

Ray runs a task again if its worker died. What goes wrong in a task itself comes back in place of
its result, so that it is one sentence here and no trace of a worker.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from modgap.core.checks import InputError, InputValueError, first_line, require
from modgap.core.threads import at_most_processors
from modgap.engines.engine import RAY

T = TypeVar("T")
R = TypeVar("R")

# Seconds in which a cluster must answer.
_PATIENCE = 10
# How often a task is begun again whose worker died.
_RETRIES = 3
_SAME_VERSION = "Every node needs modgap, in the version that is used here."


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
        with _quiet(), _one_sentence(self._ray.exceptions):
            for result, wrong in self._outcomes(packed, gpus):
                if wrong is not None:
                    raise pickle.loads(wrong)
                yield pickle.loads(result)

    def _outcomes(self, packed: Sequence[bytes], gpus: float) -> Iterator[tuple[Any, Any]]:
        """What became of each task; two for each processor are under way at a time."""
        has = self._ray.cluster_resources()
        options = {"num_cpus": 1, "num_gpus": gpus if gpus and has.get("GPU", 0) else None}
        begin = self._ray.remote(max_retries=_RETRIES, **options)(_run).remote
        work = self._ray.put(packed[0])
        most = 2 * max(1, int(has.get("CPU", 1)))
        under_way: deque[Any] = deque()
        for task in packed[1:]:
            under_way.append(begin(work, task, os.getcwd()))
            if len(under_way) == most:
                yield self._ray.get(under_way.popleft())
        while under_way:
            yield self._ray.get(under_way.popleft())


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


def _run(work: bytes, task: bytes, folder: str) -> tuple[bytes | None, bytes | None]:
    """Do a task in a worker: the result, or what went wrong.

    Relative paths mean there what they mean here.
    """
    from ray import cloudpickle, get_runtime_context

    with suppress(OSError):
        os.chdir(folder)
    # Those of the machine are shared with its other workers.
    own = int(get_runtime_context().get_assigned_resources().get("CPU", 1))
    try:
        with at_most_processors(own):
            return cloudpickle.dumps(pickle.loads(work)(pickle.loads(task))), None
    except Exception as error:
        return None, _packed(error)


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


@contextmanager
def _one_sentence(exceptions: Any) -> Iterator[None]:
    """What Ray itself says is wrong, in one line."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise InputValueError(
            f"The cluster could not take the work ({first_line(error)}). {_SAME_VERSION}"
        ) from error
    except exceptions.RayTaskError as error:
        cause = first_line(getattr(error, "cause", None) or error)
        raise InputValueError(
            f"A worker of Ray could not begin ({cause}). {_SAME_VERSION}"
        ) from error
    except exceptions.RayError as error:
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
