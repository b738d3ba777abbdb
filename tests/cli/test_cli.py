"""The command line as a whole: help, version, completion, usage, what goes to which stream."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import make_files, modgap, start, succeed
from modgap import __version__

COMMANDS = (
    "demo", "diagnose", "report", "serve", "measure", "fit", "apply", "export",
    "evaluate", "mixbench", "train", "vslerp", "reproduce",
)  # fmt: skip


def test_the_version_is_printed():
    ran = modgap("--version")
    assert (ran.status, ran.out, ran.err) == (0, f"modgap {__version__}\n", "")


def test_paragraphs_of_help_have_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in modgap("manifest", "--help").out.splitlines()]
    assert "and one of a web server can be read by it. A run that was stopped goes on" in lines


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_names_every_command(words):
    ran = succeed(*words)
    assert all(f" {command} " in ran.out for command in COMMANDS)
    assert ran.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_gives_an_example_that_names_it(command):
    ran = succeed(command, "--help")
    assert f"Example: modgap {command} " in " ".join(ran.out.split())


def test_python_m_modgap_is_modgap():
    out, err = start("--version").communicate()
    assert (out, err) == (f"modgap {__version__}\n", "")


def test_the_installed_script_is_modgap():
    script = Path(sys.executable).with_name("modgap")
    if not script.exists():
        pytest.skip("modgap is not installed as a script here")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"modgap {__version__}\n"


def test_completion_can_be_shown_for_bash():
    ran = subprocess.run(
        [sys.executable, "-m", "modgap", "--show-completion", "bash"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert ran.returncode == 0
    assert "complete" in ran.stdout
    assert "COMP_WORDS" in ran.stdout


def test_a_command_is_completed_from_its_beginning():
    words = {"COMP_WORDS": "modgap me", "COMP_CWORD": "1", "_MODGAP_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "modgap"],
        capture_output=True, text=True, check=False, env={**os.environ, **words},
    )  # fmt: skip
    assert done.stdout.split() == ["measure"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("measur",), "modgap: No such command 'measur'"),
        (("measure",), "modgap: Missing argument 'PATH'. See modgap measure --help."),
        (("measure", "a.npy", "--bogus"), "modgap: No such option: --bogus"),
        (("measure", "a.npy", "--seed", "-1"), "modgap: Invalid value for '--seed': "),
        (("measure", "a.npy", "--seed", "x"), "modgap: Invalid value for '--seed': "),
        (("diagnose", "a.npy", "--seed", "-1"), "modgap: Invalid value for '--seed': "),
        (("demo", "--seed", "-1"), "modgap: Invalid value for '--seed': "),
        (("evaluate", "a.npy", "--sample", "3"), "modgap: Invalid value for '--sample': "),
        (("apply", "c.safetensors", "a.npy", "-o", "b.npy"), "modgap: Missing option '--modality'"),
        (("apply", "c.safetensors", "a.npy", "--modality", "text"),
         "modgap: Say with -o where to write, or with --into which column to add."),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence_and_status_2(words, sentence):
    ran = modgap(*words)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith(sentence)
    assert ran.err.count("\n") == 1
    assert " --help.\n" in ran.err


def test_results_go_to_stdout_and_what_was_written_to_stderr(tmp_path):
    make_files(tmp_path)
    files = (tmp_path / "image.npy", tmp_path / "text.npy")
    words = ("diagnose", *files, "--no-umap", "-o", tmp_path / "out")
    ran = modgap(*words)
    assert "Every correction" in ran.out
    assert "wrote" not in ran.out
    words = [line.split()[0] for line in ran.err.splitlines()]
    assert words == ["wrote"] * 4 + ["next:"] * (len(words) - 4)
    assert len(words) > 4


@pytest.mark.filterwarnings("always::modgap.corrections.NothingMovesWarning")
def test_a_warning_is_one_line_on_stderr_without_source_code(tmp_path):
    make_files(tmp_path)
    ran = succeed(
        "fit", tmp_path / "image.npy", tmp_path / "text.npy", "--method", "orthogonal-shift",
        "-o", tmp_path / "c.safetensors",
    )  # fmt: skip
    warning, wrote, *_ = ran.err.splitlines()
    assert warning.startswith(
        "modgap: warning: OrthogonalShift(explained_variance=1) moves nothing"
    )
    assert wrote == f"wrote {tmp_path / 'c.safetensors'}"
    assert ran.out == ""
