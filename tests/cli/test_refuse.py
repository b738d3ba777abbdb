"""Bad input: one sentence on stderr, exit status 2, and nothing written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command_line import DIM, everything_in, make_files, modgap, succeed
from modgap import Correction

Spoil = Callable[[Path, np.ndarray], object]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder: image.npy, text.npy and a correction for them."""
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path, 40)
    Correction.identity(DIM).save(tmp_path / "c.safetensors")
    return tmp_path


def refused(folder: Path, *words: object) -> str:
    """The sentence, having checked that it is one and that nothing was written."""
    before = everything_in(folder)
    ran = modgap(*words)
    assert ran.status == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("modgap: ")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    assert everything_in(folder) == before
    return ran.err.removeprefix("modgap: ").rstrip("\n")


def _with_value(value: float, row: int) -> Spoil:
    def spoil(path: Path, rows: np.ndarray) -> None:
        rows[row] = value
        np.save(path, rows)

    return spoil


SPOILT: dict[str, tuple[Spoil, str]] = {
    "missing": (lambda path, rows: path.unlink(), "There is no file or folder 'image.npy'"),
    "cut short": (
        lambda path, rows: path.write_bytes(path.read_bytes()[:1000]),
        "image.npy is cut short",
    ),
    "another dimension": (
        lambda path, rows: np.save(path, rows[:, :5]),
        "must have the same number of columns, got 5 and 16",
    ),
    "NaN": (_with_value(np.nan, 3), "1 row with NaN or infinity, the first at row 3"),
    "a row of zeros": (_with_value(0.0, 5), "1 row with length zero, the first at row 5"),
}


@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize("command", ["measure", "diagnose", "fit", "evaluate"])
def test_a_spoilt_file_is_refused(folder, command, what):
    spoil, expected = SPOILT[what]
    spoil(folder / "image.npy", np.load(folder / "image.npy"))
    written = ("-o", "out.safetensors") if command in ("fit", "diagnose") else ()
    assert expected in refused(folder, command, "image.npy", "text.npy", *written)


@pytest.mark.parametrize("what", sorted(set(SPOILT) - {"another dimension", "a row of zeros"}))
def test_apply_refuses_a_spoilt_file(folder, what):
    spoil, expected = SPOILT[what]
    spoil(folder / "image.npy", np.load(folder / "image.npy"))
    words = ("apply", "c.safetensors", "image.npy", "--modality", "image", "-o", "out.npy")
    assert expected in refused(folder, *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("measure image.npy", "image.npy must hold two modalities"),
        ("measure notes.txt text.npy", "notes.txt must end in .npy"),
        ("measure image.npy text.npy --names image", "--names takes two names"),
        ("evaluate image.npy few.npy", "It must be known which rows of image and text match"),
        ("evaluate image.npy text.npy --metric cosin", "Did you mean 'cosine'?"),
        ("diagnose few.npy few.npy", "A diagnosis needs at least 8 groups"),
        ("diagnose few.npy few.npy --unpaired", "A diagnosis needs at least 8 rows"),
        ("fit image.npy text.npy --method centre", "Did you mean 'center'?"),
        ("fit image.npy text.npy --method shift --set amount", "--set takes NAME=VALUE"),
        ("fit image.npy text.npy --method shift --set size=1", "Its parameters are: amount"),
        ("report image.npy text.npy -o xy.parquet", "a name that ends in .html"),
    ],
)
def test_options_that_cannot_be_used_are_refused(folder, words, sentence):
    (folder / "notes.txt").write_text("notes")
    np.save("few.npy", np.load("text.npy")[:5])
    assert sentence in refused(folder, *words.split())


@pytest.mark.parametrize("command", ["measure", "fit"])
def test_different_numbers_of_rows_are_told_in_one_sentence(folder, command):
    np.save("few.npy", np.load("text.npy")[:30])
    said = "modgap: warning: 40 image rows and 30 text rows cannot be paired: their numbers differ"
    assert succeed(command, "image.npy", "few.npy").err.count(said) == 1
    assert said not in succeed(command, "image.npy", "few.npy", "--unpaired").err
    assert said not in succeed(command, "image.npy", "text.npy").err


@pytest.mark.parametrize("paths", ["image.npy few.npy", "image=image.npy text=few.npy"])
def test_fix_needs_to_know_which_rows_match(folder, paths):
    np.save("few.npy", np.load("text.npy")[:30])
    ran = modgap("fix", *paths.split(), "-o", "fixed")
    assert ran.status == 2
    assert "40 image rows and 30 text rows cannot be paired: their numbers differ" in ran.err
    assert "(--unpaired)" in ran.err
    assert not Path("fixed").exists()
    succeed("fix", *paths.split(), "-o", "fixed", "--unpaired")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--modality", "txt"), "modality must be one of 'image', 'text', got 'txt'. Did you mean"),
        (("--modality", "text", "--dtype", "int8"), "--dtype must be one of"),
        (("--modality", "text", "--column", "nope"), "text.npy has no 'nope'"),
        (("--modality", "text", "-o", "out.csv"), "out.csv must end in"),
    ],
)
def test_apply_refuses_what_it_does_not_know(folder, words, sentence):
    given = ("apply", "c.safetensors", "text.npy", "-o", "out.npy", *words)
    assert sentence in refused(folder, *given)


def _other_dimension(path: Path) -> None:
    Correction.identity(5).save(path)


def _other_names(path: Path) -> None:
    Correction.identity(DIM, ("audio", "video")).save(path)


@pytest.mark.parametrize(
    ("make", "applied", "evaluated"),
    [
        (lambda path: path.unlink(), "There is no correction at", "There is no correction at"),
        (_other_dimension, "is for rows of 5 columns", "is for rows of 5 columns"),
        (_other_names, "modality must be one of 'audio', 'video'", "is for audio and video"),
        (lambda path: path.write_bytes(b"hello"), "is not a correction", "is not a correction"),
    ],
)  # fmt: skip
def test_a_correction_that_does_not_fit_is_refused(folder, make, applied, evaluated):
    make(folder / "c.safetensors")
    words = ("apply", "c.safetensors", "text.npy", "--modality", "text", "-o", "out.npy")
    assert applied in refused(folder, *words)
    words = ("evaluate", "image.npy", "text.npy", "--correction", "c.safetensors")
    assert evaluated in refused(folder, *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("diagnose image.npy text.npy -o c.safetensors", "-o takes a folder to write to"),
        ("diagnose image.npy text.npy -o text.npy/out", "text.npy is a file"),
        ("demo -o text.npy", "-o takes a folder to write to"),
        ("fit image.npy text.npy -o sub", "-o takes a file to write to, but sub is a folder"),
        ("fit image.npy text.npy -o text.npy/c.safetensors", "text.npy is a file"),
        ("apply c.safetensors text.npy --modality text -o text.npy/a.npy", "text.npy is a file"),
        ("apply c.safetensors text.npy --modality text -o pipe.npy", "pipe.npy is a pipe."),
        ("apply c.safetensors text.npy --modality text -o /dev/null", "/dev/null is a device."),
        ("fit image.npy text.npy -o pipe.npy", "a file to write to, but pipe.npy is a pipe."),
        ("report image.npy text.npy -o pipe.npy", "a file to write to, but pipe.npy is a pipe."),
        ("diagnose image.npy text.npy -o pipe.npy", "a folder to write to, but pipe.npy is a pipe"),
        ("fix image.npy text.npy -o /dev/null", "a folder to write to, but /dev/null is a device"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    folder, words, sentence, monkeypatch
):
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    for place in ("modgap.diagnosis.diagnose", "modgap.io.open_pair", "modgap.io.open_embeddings"):
        monkeypatch.setattr(place, work)
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe.npy")
    before = {name: (folder / name).read_bytes() for name in ("image.npy", "text.npy")}
    assert sentence in refused(folder, *words.split())
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    "words",
    [
        "diagnose image.npy text.npy -o locked/out",
        "demo -o locked",
        "fit image.npy text.npy -o locked/c.safetensors",
        "apply c.safetensors text.npy --modality text -o locked/a.npy",
    ],
)
def test_a_locked_folder_is_refused(folder, words, monkeypatch):
    (folder / "locked").mkdir()
    may = os.access

    def access(path: Path, mode: int) -> bool:
        # The superuser may write anywhere, so the answer of the system is given for it.
        return may(path, mode) and not (Path(path).name == "locked" and mode & os.W_OK)

    monkeypatch.setattr(os, "access", access)
    assert "locked does not allow it" in refused(folder, *words.split())


def test_an_error_of_the_system_is_a_sentence_that_names_the_file(folder, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "c.safetensors")

    monkeypatch.setattr("modgap.corrections.Correction.save", full)
    said = refused(folder, "fit", "image.npy", "text.npy", "-o", "new.safetensors")
    assert said == "c.safetensors cannot be used: No space left on device."


@pytest.mark.parametrize("place", ["s3://bucket/out", "gs://bucket/out.npy", "memory://out.npy"])
def test_urls_to_write_to_are_refused(folder, place):
    words = ("apply", "c.safetensors", "image.npy", "--modality", "image", "--trust-rows")
    assert "writes to disks only" in refused(folder, *words, "-o", place)
    assert "writes to disks only" in refused(folder, "fix", "image.npy", "text.npy", "-o", place)
