"""Errors that nobody foresaw: one line, where to report it, and the trace in a private log."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import Ran, modgap, refuse
from modgap.cli import crash


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The folder of logs, which is not there yet."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "modgap"


@pytest.fixture
def demo_raises(monkeypatch):
    """Run a command inside of which an error is raised."""

    def run(error: BaseException) -> Ran:
        def broken(*_: object) -> None:
            raise error

        monkeypatch.setattr("modgap.datasets.load_digits", broken)
        return modgap("demo")

    return run


class Panic(BaseException):
    """What a library in Rust raises: no Exception."""


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (ZeroDivisionError(), "ZeroDivisionError"),
        (TypeError("a\nb \x1b[2J"), "TypeError: a b \\x1b[2J"),
        (Panic("index out of bounds"), "Panic: index out of bounds"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_the_unexpected_is_one_line_with_a_log_of_the_trace(state, demo_raises, error, what):
    ran = demo_raises(error)
    (log,) = state.iterdir()
    assert ran.err == (
        f"modgap met something unexpected ({what}). Please report it at "
        f"{crash.ISSUES_URL} with the log {log}.\n"
    )
    assert (ran.status, ran.out) == (1, "")
    assert "Traceback" in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700


def test_memory_that_runs_out_is_one_sentence(state, demo_raises):
    for error in (
        MemoryError("Unable to allocate 7 PiB"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes."),
    ):
        ran = demo_raises(error)
        assert re.fullmatch(r"modgap: there is not enough memory .*\.\n", ran.err)
        assert ran.status == 2
    assert not state.exists()


def test_a_log_that_cannot_be_written_is_said(state, demo_raises):
    state.parent.mkdir()
    state.write_text("a file in the way")
    ran = demo_raises(TypeError("x"))
    assert ran.status == 1
    assert ran.err.endswith("MODGAP_DEBUG=1 shows; no log could be written (File exists).\n")
    assert ran.err.count("\n") == 1


def test_a_link_in_the_place_of_a_log_is_not_followed(state, demo_raises, monkeypatch):
    state.mkdir(parents=True)
    own = state.parent / "own.txt"
    own.write_text("mine")
    # Only here: pandas formats times as it is imported, and fails for good where that fails.
    monkeypatch.setattr(crash, "time", SimpleNamespace(strftime=lambda _: "now"))
    (state / f"crash-now-{os.getpid()}.log").symlink_to(own)
    assert demo_raises(TypeError("x")).status == 1
    assert own.read_text() == "mine"


def test_old_logs_are_removed(state, demo_raises):
    state.mkdir(parents=True)
    for number in range(30):
        (state / f"crash-20000101-0000{number}-1.log").touch()
    demo_raises(TypeError("x"))
    assert len(list(state.iterdir())) == 20


def test_debugging_shows_the_trace(state, demo_raises, monkeypatch):
    monkeypatch.setenv("MODGAP_DEBUG", "1")
    assert "Traceback" in demo_raises(TypeError("x")).err
    ran = modgap("measure", "missing.npy")
    assert "Traceback" in ran.err
    assert ran.status == 2


def test_an_error_that_names_a_file_of_two_lines_is_one_line(tmp_path):
    said = refuse("measure", tmp_path / "a\nb\x1b[2J.npy")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_errors_are_reported_where_the_project_says():
    project = Path(__file__).parents[2] / "pyproject.toml"
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Issues"] == crash.ISSUES_URL
