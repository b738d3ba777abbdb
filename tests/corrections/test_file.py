"""A correction's file: what goes in comes out, and what is not one is refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from modgap.corrections import Affine, Calibrate, Correction, OrthogonalShift, Whiten
from reference import unit


@pytest.fixture
def path(tmp_path):
    return tmp_path / "correction.safetensors"


@pytest.fixture
def saved(pairs, path):
    """A file that can be read, to be spoiled."""
    Whiten().fit(*pairs).correction_.save(path)
    return path


def read(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["modgap"])


def spoil(path, change):
    """Write the file anew with a changed header or changed tensors."""
    tensors, header = read(path)
    header = change(tensors, header) or header
    save_file(tensors, path, metadata={"modgap": json.dumps(header)})


@pytest.mark.parametrize(
    "names",
    [
        ("image", "text"),
        ("a picture", "ein Satz"),
        ("画像", "текст ñ"),
        ("img/left", "txt\\right"),
        ('say "x"', "it's: {y}"),
        ("__metadata__", "document"),
    ],
)
def test_a_correction_comes_back_as_it_was_whatever_its_modalities_are_called(pairs, path, names):
    X, Y = pairs
    shift = OrthogonalShift("y", 0.9, amount=0.7, threshold="each")
    first = shift.fit(X, Y, names=names, model="ViT-B/16 “x”")
    correction = first.correction_
    correction.save(path)
    again = Correction.load(path)
    assert (again.names, again.metric) == (names, "euclidean")
    assert again.about == correction.about
    assert again.about["parameters"] == {
        "move": "y",
        "explained_variance": 0.9,
        "amount": 0.7,
        "threshold": "each",
    }
    assert set(again.maps) == set(correction.maps)
    for role in ("document", "query"):
        np.testing.assert_array_equal(again.x(X, role), correction.x(X, role))
        np.testing.assert_array_equal(again.y(Y, role), correction.y(Y, role))


def test_every_part_of_every_map_comes_back_exactly(rng, path):
    maps = {
        ("a", "document"): Affine(3, rng.normal(size=(4, 3)), 0.1, rng.normal(size=4), True),
        ("a", "query"): Affine(3, rng.normal(size=(4, 3)).T.copy().T, -2.0, normalise=True),
        ("b", "document"): Affine(3, rng.normal(size=(4, 3)), offset=rng.normal(size=4)),
    }
    Correction(("a", "b"), maps, "inner_product", {"notes": ["ü", None, 1.5]}).save(path)
    again = Correction.load(path)
    assert again.metric == "inner_product"
    assert again.about == {"notes": ["ü", None, 1.5]}
    for key, was in maps.items():
        now = again.maps[key]
        for part in ("scale", "renormalise", "dim_in", "blocks", "normalise"):
            assert getattr(now, part) == getattr(was, part)
        np.testing.assert_array_equal(now.matrix, was.matrix)
        if was.offset is None:
            assert now.offset is None
        else:
            np.testing.assert_array_equal(now.offset, was.offset)


def test_the_file_is_plain_safetensors_that_says_what_it_is(saved):
    tensors, header = read(saved)
    assert sorted(tensors) == [
        "image.document.matrix",
        "image.document.offset",
        "image.fitted.mean",
        "image.fitted.variance",
        "text.document.matrix",
        "text.document.offset",
        "text.fitted.mean",
        "text.fitted.variance",
    ]
    assert (header["queries"], header["fitted"]) == (["image", "text"], {"image": 60, "text": 60})
    assert header["demands"].splitlines()[-1] == "  rank by    cosine"
    assert (header["dim_in"], header["dim_out"]) == (12, 12)
    assert header["about"]["method"] == "Whiten"
    assert header["about"]["fitted_on"] == {"image": 60, "text": 60}


def test_what_a_correction_knows_of_its_rows_comes_back(pairs, path):
    X, Y = pairs
    Calibrate().fit(X, Y).correction_.save(path)
    again = Correction.load(path)
    assert again.queries == ("text",)
    assert again.unit_rows
    for name, rows in (("image", unit(X)), ("text", unit(Y))):
        assert again.fitted[name].n == 60
        np.testing.assert_allclose(again.fitted[name].mean, rows.mean(0), atol=1e-12)
        np.testing.assert_allclose(again.fitted[name].variance, rows.var(0), atol=1e-12)
    with pytest.raises(ValueError, match="serves text queries, not image queries"):
        again.x(X, "query")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        Correction.load(saved)


@pytest.mark.parametrize(
    "metadata", [None, {"format": "pt"}, {"modgap": "no JSON {"}, {"modgap": '["a list"]'}]
)
def test_another_safetensors_file_is_refused(path, metadata):
    save_file({"weight": np.ones((2, 2))}, path, metadata=metadata)
    with pytest.raises(ValueError, match="but not a correction that modgap wrote"):
        Correction.load(path)


def test_a_model_in_a_dtype_that_numpy_lacks_is_refused_in_the_same_words(path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    save_torch({"weight": torch.ones(2, 2, dtype=torch.bfloat16)}, path)
    with pytest.raises(ValueError, match="but not a correction that modgap wrote"):
        Correction.load(path)


@pytest.mark.parametrize("number", [2, "1", 0, None])
def test_a_format_this_version_does_not_know_is_refused(saved, number):
    spoil(saved, lambda tensors, header: {**header, "format": number, "version": "7.0"})
    with pytest.raises(ValueError, match=f"by modgap 7.0 in format {number}, and this one reads 1"):
        Correction.load(saved)


def drop(key):
    def change(tensors, header):
        del header[key]

    return change


def set_entry(key, value):
    def change(tensors, header):
        header["maps"][0][key] = value

    return change


def set_tensor(key, value):
    def change(tensors, header):
        tensors[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, h: drop("image.document.offset")(h, t), "image.document.offset"),
        (lambda t, h: drop("text.document.matrix")(h, t), "text.document.matrix"),
        (lambda t, h: drop("text.fitted.mean")(h, t), "text.fitted.mean"),
        (set_tensor("text.fitted.variance", np.ones(5)), "mean and variance of text must be"),
        (lambda t, h: {**h, "queries": ["audio"]}, "modality must be one of"),
        (lambda t, h: {**h, "fitted": 3}, "AttributeError"),
        (drop("names"), "KeyError"),
        (drop("metric"), "KeyError"),
        (drop("about"), "KeyError"),
        (set_entry("dim_in", "twelve"), "dim_in must be a whole number"),
        (set_entry("dim_in", 5), r"must be \(d_out, 5\), got shape \(12, 12\)"),
        (set_entry("role", "reader"), "image.reader.matrix"),
        (set_entry("modality", "audio"), "audio.document.matrix"),
        (lambda t, h: {**h, "maps": h["maps"][:1]}, "needs a document map for 'text'"),
        (lambda t, h: h["maps"].append("text"), "TypeError"),
        (lambda t, h: {**h, "maps": 3}, "TypeError"),
        (lambda t, h: {**h, "names": ["image"]}, "names must be two or more"),
        (lambda t, h: {**h, "metric": "manhattan"}, "metric must be one of"),
        (set_tensor("text.document.matrix", np.ones((12, 5))), "got shape"),
        (set_tensor("text.document.matrix", np.ones(12)), "got shape"),
        (set_tensor("text.document.offset", np.ones(5)), "got shape"),
        (set_tensor("text.document.offset", np.ones((1, 12))), "got shape"),
    ],
)
def test_a_file_that_is_not_whole_says_what_is_wrong(saved, change, message):
    spoil(saved, change)
    with pytest.raises(ValueError, match=f"is not a whole correction.*{message}"):
        Correction.load(saved)
