"""An engine runs work on shards: in this process, or on a cluster of Ray.

Its one method applies a function to every task and gives the results in the order of the tasks. It
may run a task more than once, so a task must have the same effect however often it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from modgap.core.checks import InputValueError
from modgap.core.stopping import stop_here

T = TypeVar("T")
R = TypeVar("R")

LOCAL, RAY = "local", "ray"


class Engine(Protocol):
    """Applies a function to tasks."""

    name: str

    def map(self, work: Callable[[T], R], tasks: Sequence[T], *, gpus: float = 0) -> Iterator[R]:
        """The results in the order of the tasks, each as soon as those before it are there.

        A task is given ``gpus`` where there are any.
        """


class LocalEngine:
    """This process, one task after the other."""

    name = LOCAL

    def map(self, work: Callable[[T], R], tasks: Sequence[T], *, gpus: float = 0) -> Iterator[R]:
        """The results in the order of the tasks."""
        for task in tasks:
            stop_here()
            yield work(task)


def open_engine(engine: str | Engine = LOCAL, **options: Any) -> Engine:
    """The engine of a name: ``local``, ``ray``, ``ray:HOST:PORT`` or ``ray://HOST:PORT``.

    ``ray`` is the cluster that this process or the environment (``RAY_ADDRESS``) belongs to, else
    one that is started on this machine and stopped at the end of the process. ``options`` are those
    of ``ray.init``.

    >>> open_engine().name
    'local'
    """
    if not isinstance(engine, str):
        return engine
    kind, colon, address = engine.partition(":")
    if engine == LOCAL:
        return LocalEngine()
    if kind != RAY or (colon and not address.strip("/")):
        raise InputValueError(
            "engine must be local, ray, ray:HOST:PORT, or the ray:// address of Ray's client, got "
            f"{engine!r}."
        )
    from modgap.engines.ray_engine import RayEngine

    return RayEngine(engine if address.startswith("//") else address or None, **options)
