"""``modgap fit`` and ``modgap apply``: a correction as one small file, and rows it changed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from command_line import DIM, make_files, modgap, refuse, succeed
from modgap import Correction, open_embeddings, write_embeddings
from modgap import corrections as library
from modgap.cli.fit import fit

METHODS = {method.option: getattr(library, name) for name, method in library.METHODS.items()}


@pytest.fixture
def files(tmp_path):
    make_files(tmp_path, 60)
    return tmp_path / "image.npy", tmp_path / "text.npy"


@pytest.fixture
def shift(files, tmp_path):
    """A correction with a query map of its own."""
    path = tmp_path / "shift.safetensors"
    settings = ("--set", "explained_variance=0.9", "--set", "move=y", "--metric", "euclidean")
    succeed("fit", *files, "--method", "orthogonal-shift", *settings, "-o", path)
    return path


def same_maps(a: Correction, b: Correction, rows: np.ndarray) -> None:
    assert a.queries == b.queries
    for name in a.names:
        for role in ("document", "query") if name in a.queries else ("document",):
            np.testing.assert_allclose(a.apply(rows, name, role), b.apply(rows, name, role), 1e-5)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "orthogonal-shift"])
def test_each_method_writes_the_correction_the_library_fits(files, tmp_path, method):
    if method == "expected-wrong":  # which needs more queries
        make_files(tmp_path, 120)
    path = tmp_path / "new" / "c.safetensors"
    ran = modgap("fit", *files, "--method", method, "-o", path, "--model", "toy")
    assert (ran.status, ran.out) == (0, "")
    X, Y = (np.load(file).astype("float64") for file in files)
    expected = METHODS[method]().fit(X, Y).correction_
    fitted = Correction.load(path)
    assert ran.err.startswith(f"wrote {path}\n{fitted}\n  next       modgap apply {path} ")
    same_maps(fitted, expected, X)
    assert fitted.about["method"] == METHODS[method].__name__
    assert fitted.about["model"] == "toy"
    assert fitted.about["fitted_on"] == {"image": len(X), "text": len(Y)}
    assert fitted.metric == expected.metric


def test_orthogonal_shift_is_fitted_on_the_rows_themselves(files, shift):
    X, Y = (np.load(file) for file in files)
    expected = library.OrthogonalShift("y", 0.9).fit(X, Y, rows="given").correction_
    same_maps(Correction.load(shift), expected, X)


@pytest.mark.parametrize(
    ("method", "setting", "parameters"),
    [
        ("shift", ["amount=0.3"], {"amount": 0.3}),
        ("origin-shift", ["amount=0.5", "move=x"], {"amount": 0.5, "move": "x"}),
        ("whiten", ["shrinkage=0.2"], {"shrinkage": 0.2}),
        (
            "orthogonal-shift",
            ["explained_variance=0.9", "threshold=each"],
            {"explained_variance": 0.9, "threshold": "each"},
        ),
    ],
)
def test_parameters_are_set_by_name(files, tmp_path, method, setting, parameters):
    path = tmp_path / "c.safetensors"
    words = [word for one in setting for word in ("--set", one)]
    assert modgap("fit", *files, "--method", method, *words, "-o", path).status == 0
    fitted = Correction.load(path)
    assert parameters.items() <= fitted.about["parameters"].items()
    X, Y = (np.load(file).astype("float64") for file in files)
    same_maps(fitted, METHODS[method](**parameters).fit(X, Y).correction_, X)


def test_help_names_every_corrector_and_no_other():
    # Written out there, because help must not load the correctors.
    option = inspect.signature(fit).parameters["method"].annotation.__metadata__[0]
    named = option.help.removeprefix("One of ").removesuffix(".").split(", ")
    assert named == [method.option for method in library.METHODS.values()]


def test_every_corrector_has_a_method():
    assert set(METHODS.values()) == set(library.CORRECTORS)


def test_calibrate_is_the_method_when_none_is_named(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert modgap("fit", *files).status == 0
    assert Correction.load("correction.safetensors").about["method"] == "Calibrate"


def test_the_correction_keeps_the_names_of_the_modalities(files, tmp_path):
    path = tmp_path / "c.safetensors"
    named = ("--names", "audio,caption", "-o", path)
    said = refuse("fit", *files, *named)
    assert "--queries): audio or caption." in said
    assert modgap("fit", *files, *named, "--queries", "audio").status == 0
    fitted = Correction.load(path)
    assert (fitted.names, fitted.queries) == (("audio", "caption"), ("audio",))
    # One that serves all need not be told.
    assert modgap("fit", *files, *named, "--method", "center").status == 0
    assert Correction.load(path).queries == ("audio", "caption")


def test_both_kinds_of_query_get_a_correction_each(files, tmp_path):
    path = tmp_path / "c.safetensors"
    succeed("fit", *files, "--queries", "both", "-o", path)
    assert not path.exists()
    X, Y = (np.load(file).astype("float64") for file in files)
    for name in ("text", "image"):
        fitted = Correction.load(tmp_path / f"c-{name}.safetensors")
        same_maps(fitted, library.Calibrate().fit(X, Y, queries=name).correction_, X)
    assert modgap("fit", *files, "--queries", "both", "--method", "center", "-o", path).status == 0
    assert Correction.load(path).queries == ("image", "text")


def test_rows_are_used_as_given_where_lengths_count(files, tmp_path):
    path = tmp_path / "c.safetensors"
    assert modgap("fit", *files, "--metric", "inner_product", "-o", path).status == 0
    X, Y = (np.load(file).astype("float64") for file in files)
    same_maps(Correction.load(path), library.Calibrate().fit(X, Y, rows="given").correction_, X)


@pytest.mark.parametrize("role", ["document", "query"])
@pytest.mark.parametrize("modality", ["image", "text"])
def test_applying_a_file_is_applying_the_correction(files, shift, tmp_path, modality, role):
    out = tmp_path / "new" / "fixed.npy"
    file = files[modality == "text"]
    ran = modgap("apply", shift, file, "--modality", modality, "--role", role, "-o", out)
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.splitlines()[0] == f"wrote {out}: 60 rows of {DIM} columns"
    rows = np.load(file)
    fixed = np.load(out)
    assert fixed.dtype == np.float32
    np.testing.assert_array_equal(fixed, Correction.load(shift).apply(rows, modality, role))
    moves = (modality, role) == ("text", "document")
    assert np.array_equal(fixed, rows) != moves


def test_applying_to_documents_says_what_they_demand_of_queries_and_metric(files, tmp_path):
    path, out = tmp_path / "my fix.safetensors", tmp_path / "fixed.npy"
    assert modgap("fit", *files, "-o", path).status == 0
    ran = modgap("apply", path, files[0], "--modality", "image", "-o", out)
    wrote, note = ran.err.splitlines()
    assert wrote.startswith("wrote ")
    assert note == (
        "modgap: note: these documents are ranked by inner product (cosine undoes the correction); "
        f"map text queries with: modgap apply '{path}' QUERIES.npy --modality text --role query "
        "-o text-queries.npy"
    )
    asked = modgap("apply", path, files[1], "--modality", "text", "--role", "query", "-o", out)
    assert len(asked.err.splitlines()) == 1


def test_documents_that_nothing_is_done_to_demand_nothing(tmp_path):
    Correction.identity(DIM).save(tmp_path / "c.safetensors")
    make_files(tmp_path, 60)
    words = ("--modality", "image", "-o", tmp_path / "fixed.npy")
    ran = modgap("apply", tmp_path / "c.safetensors", tmp_path / "image.npy", *words)
    assert len(ran.err.splitlines()) == 1


@pytest.mark.filterwarnings("always::modgap.corrections.RecognitionWarning")
def test_swapped_files_are_refused_and_only_warned_of_when_the_rows_are_trusted(
    files, shift, tmp_path
):
    out = tmp_path / "fixed.npy"
    said = refuse("apply", shift, files[1], "--modality", "image", "-o", out)
    assert said.startswith("modgap: The image rows are text rows: their mean is ")
    assert "--trust-rows" in said
    assert not out.exists()
    ran = succeed("apply", shift, files[1], "--modality", "image", "-o", out, "--trust-rows")
    assert ran.err.startswith("modgap: warning: The image rows are text rows: their mean is ")
    assert np.load(out).shape == (60, DIM)


@pytest.mark.parametrize("asked", [None, "float32", "float64"])
def test_rows_keep_their_precision_unless_another_is_asked_for(files, shift, tmp_path, asked):
    half = tmp_path / "half.npy"
    np.save(half, np.load(files[1]).astype("float16"))
    words = () if asked is None else ("--dtype", asked)
    out = tmp_path / "fixed.npy"
    assert modgap("apply", shift, half, "--modality", "text", "-o", out, *words).status == 0
    fixed = np.load(out)
    assert fixed.dtype == np.dtype(asked or "float16")
    expected = Correction.load(shift).y(np.load(half)).astype(fixed.dtype)
    np.testing.assert_array_equal(fixed, expected)


@pytest.mark.parametrize("to", ["parquet", "npz"])
def test_ids_captions_labels_and_groups_come_along(files, shift, tmp_path, to):
    columns = {
        "ids": np.array([f"id {i}" for i in range(60)]),
        "captions": np.array([f"ein Bild, № {i}" for i in range(60)]),
        "labels": np.arange(60) % 7,
        "groups": np.arange(60)[::-1].copy(),
    }
    write_embeddings(tmp_path / "rows.parquet", np.load(files[1]), **columns)
    out = tmp_path / f"fixed.{to}"
    succeed("apply", shift, tmp_path / "rows.parquet", "--modality", "text", "-o", out)
    fixed = open_embeddings(out)
    for kind, values in columns.items():
        assert getattr(fixed, kind).tolist() == values.tolist(), kind


def test_one_side_of_a_stacked_file_is_chosen_by_column(files, shift, tmp_path):
    np.save(tmp_path / "both.npy", np.stack([np.load(path) for path in files]))
    out = tmp_path / "fixed.npy"
    words = ("--modality", "text", "--column", "1", "-o", out)
    assert modgap("apply", shift, tmp_path / "both.npy", *words).status == 0
    expected = Correction.load(shift).y(np.load(files[1]))
    np.testing.assert_array_equal(np.load(out), expected)


def test_a_folder_of_two_corrections_is_applied_for_the_queries_that_are_named(files, tmp_path):
    both = tmp_path / "both"
    succeed("fit", *files, "--queries", "both", "-o", both / "correction.safetensors")
    X = np.load(files[0])
    kept = {
        name: Correction.load(both / f"correction-{name}.safetensors") for name in ("text", "image")
    }
    words = ("apply", both, files[0], "--modality", "image", "-o", tmp_path / "out.npy")
    said = refuse(*words)
    assert "Choose with --queries" in said
    assert modgap(*words, "--queries", "text").status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), kept["text"].apply(X, "image"))
    assert modgap(*words, "--queries", "both").status == 0
    for name, correction in kept.items():
        found = np.load(tmp_path / f"out-{name}.npy")
        np.testing.assert_array_equal(found, correction.apply(X, "image"))
    assert modgap(*words, "--role", "query").status == 0  # the one made for them
    asked = kept["image"].apply(X, "image", "query")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), asked)
