"""Runs commands that end themselves by a signal at a stated point, each in a child of its own.

One process imports what they need, once, and forks: each line of its input asks for a run, and
each line of its output says how it ended. It computes nothing itself, so that no library has
threads when it forks.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


class Worker:
    """A process that runs commands in children of its own, for the tests."""

    def __init__(self, *modules: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(
        self,
        folder: Path,
        words: str | list[object],
        point: tuple[str, int] = ("", 0),
        number: int = signal.SIGKILL,
        code: str = "",
        keep: str = os.devnull,
    ) -> tuple[int, str]:
        listed = words.split() if isinstance(words, str) else [*map(str, words)]
        asked: dict[str, Any] = {"folder": str(folder), "words": listed, "code": code}
        asked |= {"point": point[0], "call": point[1], "signal": number, "keep": keep}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        status, said = json.loads(self.process.stdout.readline())
        assert "Traceback" not in said
        return status, said

    def close(self) -> None:
        self.process.communicate()


@cache
def training_worker() -> Worker:
    """One that trains: what it needs takes longer to import than a short run does."""
    made = Worker(
        "modgap.cli", "modgap.train.loop", "transformers.modeling_utils", "torch._dynamo",
        "scipy.interpolate", "scipy.stats", "pyarrow.parquet", "PIL.Image", "safetensors.numpy",
    )  # fmt: skip
    atexit.register(made.close)
    return made


def end_at(point: str, call: int, number: int) -> None:
    """Let the so-manieth call of a function end the process, before or after it does its work.

    A point is ``module:name``, such as ``os:replace``; ``module:name+`` is after the work.
    """
    place, _, name = point.rstrip("+").rpartition(":")
    module, _, inside = place.partition(":")
    owner: Any = importlib.import_module(module)
    owner = getattr(owner, inside) if inside else owner
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def ending(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not point.endswith("+"):
            os.kill(os.getpid(), number)
        done = original(*given, **named)
        if calls == call and point.endswith("+"):
            os.kill(os.getpid(), number)
        return done

    setattr(owner, name, ending)


def run(asked: dict[str, Any]) -> tuple[int, str]:
    """The status of a command, as a shell has it, and what it said on stderr."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            os.chdir(asked["folder"])
            os.dup2(os.open(asked["keep"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
            sys.argv = ["modgap", *asked["words"]]
            status: Any = 1
            try:
                if asked["point"]:
                    end_at(asked["point"], asked["call"], asked["signal"])
                if asked["code"]:
                    exec(asked["code"], {})
                    os._exit(0)
                from modgap.cli import main

                main()
            except SystemExit as stop:
                status = stop.code
            except BaseException:
                import traceback

                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status or 0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return status, said.read()


def main() -> None:
    """Answer one line after another."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
