"""Maps from queries of a new model to those of an old one, and the correction with one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes

from conftest import unit
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Affine,
    Calibrate,
    Center,
    Correction,
    ExpectedWrong,
    demands,
    recognise,
)
from modgap.corrections.fingerprints import fingerprint
from modgap.corrections.new_model import MAP_METHODS, MapMethod, QueryMaps
from modgap.io import Embeddings

ORTHOGONAL = MapMethod("orthogonal")


def rows_of(n=200, d=8, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, d))
    return latent + rng.normal(size=d), latent - rng.normal(size=d) + 0.3 * rng.normal(size=(n, d))


def turned(rows, seed=1):
    d = rows.shape[1]
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    return rows @ rotation


def maps_of(correction, old, new):
    both = ({"text": Embeddings.of(rows, "text")} for rows in (old, new))
    return QueryMaps(correction, *both)


def old_correction(X, Y, corrector=None):
    if corrector is None:
        return Correction.identity(X.shape[1], queries="text")
    return replace(corrector.fit(X, Y).correction_, queries="text")


@given(st.integers(0, 2**32), st.integers(3, 40), st.integers(1, 6), st.floats(1e-4, 10))
@settings(deadline=None, max_examples=40)
def test_ridge_is_the_least_of_its_sum(seed, n, d_new, strength):
    """Any small step away from the map makes the sum larger."""
    rng = np.random.default_rng(seed)
    old, new = rng.normal(size=(n, 5)), rng.normal(size=(n, d_new))
    correction = Correction.identity(5, metric="inner_product", queries="text")
    affine = maps_of(correction, old, new).affine(MapMethod("ridge", strength))
    variance = new.var(axis=0).mean()

    def objective(matrix, offset):
        left = old - new @ matrix.T - offset
        return np.mean(np.sum(left**2, axis=1)) + strength * variance * np.sum(matrix**2)

    least = objective(affine.matrix, affine.offset)
    for _ in range(5):
        step = 1e-3 * rng.normal(size=affine.matrix.shape), 1e-3 * rng.normal(size=5)
        assert objective(affine.matrix + step[0], affine.offset + step[1]) >= least - 1e-12


@pytest.mark.parametrize("width", [5, 8, 12])
def test_the_orthogonal_map_keeps_angles_and_is_procrustes_where_widths_agree(width):
    old, _ = rows_of()
    new = np.random.default_rng(2).normal(size=(200, width))
    correction = Correction.identity(8, metric="inner_product", queries="text")
    matrix = maps_of(correction, old, new).affine(ORTHOGONAL).matrix
    gram = matrix @ matrix.T if width > 8 else matrix.T @ matrix
    np.testing.assert_allclose(gram, gram[0, 0] * np.eye(len(gram)), atol=1e-12)
    if width == 8:
        rotation, _ = orthogonal_procrustes(new - new.mean(axis=0), old - old.mean(axis=0))
        scale = gram[0, 0] ** 0.5
        np.testing.assert_allclose(matrix, scale * rotation.T, atol=1e-10)


@pytest.mark.parametrize("method", [MapMethod("ridge", 1e-4), ORTHOGONAL], ids=str)
@pytest.mark.parametrize(
    "corrector", [None, Center(), Calibrate(), Calibrate(hubs=0.5), ExpectedWrong()], ids=str
)
def test_queries_of_a_turned_model_come_out_as_those_of_the_old_one(corrector, method):
    X, Y = rows_of()
    correction = old_correction(X, Y, corrector)
    found = maps_of(correction, Y[:150], turned(Y)[:150]).correction(method)
    mapped = found.apply(turned(Y)[150:], "text", "query")
    wanted = correction.apply(Y[150:], "text", "query")
    if correction.metric == "cosine":
        wanted = unit(wanted)
    np.testing.assert_allclose(mapped, wanted, atol=2e-3)


@pytest.mark.parametrize("kind", ["ridge", "orthogonal"])
def test_rows_of_other_modalities_tell_how_a_model_is_turned(kind):
    """Where few rows of the modality that asks are at hand."""
    X, Y = rows_of()
    sides = {"image": X, "text": Y[:4]}
    old = {name: Embeddings.of(rows, name) for name, rows in sides.items()}
    new = {name: Embeddings.of(turned(rows), name) for name, rows in sides.items()}
    correction = Correction.identity(8, metric="inner_product", queries="text")
    maps = QueryMaps(correction, old, new)
    far, near = (
        maps.affine(MapMethod(kind, 1e-9, of_all))(turned(Y[4:])) - Y[4:]
        for of_all in (False, True)
    )
    assert np.abs(near).max() < 1e-6
    assert np.abs(far).max() > 0.5


def test_queries_keep_the_one_length_that_those_of_the_old_model_have():
    X, Y = rows_of()
    correction = old_correction(X, Y, Calibrate(form="blocks"))
    wanted = np.linalg.norm(correction.apply(Y, "text", "query"), axis=1)
    found = maps_of(correction, Y, turned(Y)).correction(ORTHOGONAL)
    got = np.linalg.norm(found.apply(turned(Y), "text", "query"), axis=1)
    assert np.ptp(wanted) < 1e-6
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("corrector", [None, Calibrate(), ExpectedWrong()], ids=str)
def test_documents_stay_as_they_are_stored(corrector, tmp_path):
    X, Y = rows_of()
    correction = old_correction(X, Y, corrector)
    new = np.random.default_rng(3).normal(size=(200, 13))
    found = maps_of(correction, Y, new).correction(MAP_METHODS[2], query_model="hf:new")
    found.save(tmp_path / "c.safetensors")
    loaded = Correction.load(tmp_path / "c.safetensors")
    assert fingerprint(loaded) == fingerprint(correction)
    np.testing.assert_array_equal(loaded.apply(X, "image"), correction.apply(X, "image"))
    np.testing.assert_array_equal(
        loaded.apply(new, "text", "query"), found.apply(new, "text", "query")
    )
    assert loaded.queries == ("text",)
    assert loaded.query_model == "hf:new"
    said = "\n".join(demands(loaded))
    assert "8 of documents, 13 of queries" in said
    assert "rows of hf:new" in said


def test_queries_of_the_old_model_are_refused_or_recognised():
    X, Y = rows_of()
    correction = old_correction(X, Y, Calibrate())
    wide = maps_of(correction, Y, np.random.default_rng(3).normal(size=(200, 13)))
    with pytest.raises(InputValueError, match="rows of 13 columns, got 8"):
        wide.correction(ORTHOGONAL).apply(Y, "text", "query")
    # Of one width, their mean tells.
    far = Y + 6
    found = maps_of(correction, far, turned(far)).correction(ORTHOGONAL, query_model="new")
    assert recognise(found, turned(far), "text", "query").finding == "fits"
    assert recognise(found, far, "text", "query").finding == "another model"
    assert recognise(found, X, "image").finding == "fits"


@pytest.mark.parametrize("corrector", [None, Calibrate()], ids=str)
def test_lengths_of_new_queries_do_not_matter_where_those_of_old_ones_do_not(corrector):
    X, Y = rows_of()
    correction, lengths = old_correction(X, Y, corrector), np.linspace(0.1, 9, 200)[:, None]
    found = maps_of(correction, Y, turned(Y)).correction(ORTHOGONAL)
    longer = found.apply(turned(Y) * lengths, "text", "query")
    np.testing.assert_allclose(longer, found.apply(turned(Y), "text", "query"), atol=1e-12)


def test_a_file_whose_documents_differ_in_width_is_still_refused():
    X, Y = rows_of()
    correction = old_correction(X, Y)
    maps = {**correction.maps, ("text", "document"): Affine(9, np.ones((8, 9)))}
    with pytest.raises(InputValueError, match="take rows of one dimension"):
        replace(correction, maps=maps)
