"""Paths straight into every function; what is no rows at all is told what to call."""

from __future__ import annotations

import collections
import io
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import modgap
from modgap import Calibrate, Embeddings, Modalities
from modgap.core.checks import InputError, InputTypeError, InputValueError
from modgap.corrections import Center, Procrustes
from modgap.diagnosis.path import gap_paths
from modgap.evaluation import (
    Evaluator,
    Rephrase,
    UniformQuantiser,
    evaluate_correction,
    mixed_curve,
    mixed_retrieval,
    retrieval,
    robustness,
)
from modgap.io import write_pair
from modgap.moments import Moments, PairMoments
from modgap.tasks import zero_shot_task

m = modgap.measures
N, DIM = 130, 6
RNG = np.random.default_rng(2)
Z = RNG.normal(size=(N, DIM))
X = (Z + 1 + 0.2 * RNG.normal(size=Z.shape)).astype(np.float32)
Y = (Z - 1 + 0.2 * RNG.normal(size=Z.shape)).astype(np.float32)
SHUFFLED = RNG.permutation(N)
CORRECTION = Calibrate().fit(X, Y).correction_

ONE = {
    "cone": lambda X: m.cone(X).mean,
    "uniformity": m.uniformity,
    "conformity": m.conformity,
    "blur": lambda X: m.blur(X).to_dict(),
    "shell": lambda X: m.shell(X).to_dict(),
    "feature_offset": m.feature_offset,
    "norms": lambda X: m.norms(X).mean,
    "moments": lambda X: Moments.from_batch(X).given.mean,
    "moments of batches": lambda X: Moments.from_batches(
        [X] if isinstance(X, np.ndarray) else X
    ).given.mean,
    "apply": lambda X: CORRECTION.apply(X, "image"),
    "x": lambda X: CORRECTION.x(X),
    "bank": lambda X: Calibrate(hubs=0.5).fit(X, Y, queries="image", bank=X).correction_.apply(
        Y, "text"
    ),
    "zero_shot": lambda X: zero_shot_task(X, Y[:3], np.arange(N) % 3).score().mean,
}  # fmt: skip
TWO = {
    "gap_vector": m.gap_vector,
    "gap_distance": modgap.gap_distance,
    "gap_orthogonality": lambda *given: m.gap_orthogonality(*given).x.mean,
    "linear_separability": lambda *given: m.linear_separability(*given).to_dict(),
    "separability": m.separability,
    "feature_divergence": m.feature_divergence,
    "conformity_divergence": m.conformity_divergence,
    "wasserstein_uniformity": m.wasserstein_uniformity,
    "local_gaps": m.local_gaps,
    "margin": m.margin,
    "alignment": m.alignment,
    "conformity_difference": m.conformity_difference,
    "contrastive_loss": lambda *given: m.contrastive_loss(*given, temperature=0.1),
    "soft_assignments": lambda *given: m.soft_assignments(*given, temperature=0.1).x,
    "shift_landscape": lambda *given: m.shift_landscape(*given, lambdas=[0.1]).to_dict(),
    "origin_landscape": lambda *given: m.origin_landscape(*given, alphas=[0.1]).to_dict(),
    "projection": lambda *given: m.projection(*given).sides[0],
    "profile": lambda *given: m.profile(*given).to_dict(),
    "measure": lambda *given: modgap.measure(*given).to_dict(),
    "retrieval": lambda *given: modgap.retrieval(*given).recall(),
    "mixed_retrieval": lambda *given: modgap.mixed_retrieval(*given).to_dict(),
    "moments": lambda *given: PairMoments.from_batch(*given, paired=True).alignment(),
    "fuse": modgap.fuse,
    "fit": lambda *given: Calibrate().fit(*given).correction_.apply(X, "image"),
    "fit with pairs": lambda *given: Procrustes().fit(*given).correction_.apply(X, "image"),
    "transform": lambda *given: Calibrate().fit(X, Y).transform(*given)[1],
    "fit_transform": lambda *given: Calibrate().fit_transform(*given)[0],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("rows")
    np.save(place / "image.npy", X)
    np.save(place / "text.npy", Y)
    np.save(place / "both.npy", np.stack([X, Y]))
    write_pair(place / "pairs.parquet", X, Y, ids=np.arange(N), captions=[f"{i}" for i in range(N)])
    return place


def same(found, expected):
    if isinstance(expected, dict):
        assert str(found) == str(expected)
    else:
        assert np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True)


@pytest.mark.parametrize("name", ONE)
def test_a_path_is_rows_of_one_modality(folder, name):
    expected = ONE[name](X)
    same(ONE[name](str(folder / "image.npy")), expected)
    same(ONE[name](Embeddings.from_array(X)), expected)


@pytest.mark.parametrize("name", TWO)
def test_paths_are_rows_of_two_modalities(folder, name):
    expected = TWO[name](X, Y)
    same(TWO[name](folder / "image.npy", str(folder / "text.npy")), expected)
    same(TWO[name](folder / "pairs.parquet"), expected)


def test_rows_of_two_files_are_matched_by_id_where_a_measure_needs_pairs(tmp_path):
    modgap.write_embeddings(tmp_path / "image.parquet", X, ids=np.arange(N))
    modgap.write_embeddings(tmp_path / "text.parquet", Y[SHUFFLED], ids=np.arange(N)[SHUFFLED])
    paths = tmp_path / "image.parquet", tmp_path / "text.parquet"
    for measure in (m.margin, m.alignment, m.local_gaps):
        same(measure(*paths), measure(X, Y))
    moments = PairMoments.from_batch(X, Y, paired=True)
    same(PairMoments.from_batches(*paths, paired=True).alignment(), moments.alignment())
    same(modgap.fuse(*paths), modgap.fuse(X, Y))


def test_a_mapping_of_names_to_paths_is_any_number_of_modalities(folder):
    given = {"image": folder / "image.npy", "text": str(folder / "text.npy"), "audio": X}
    data = Modalities.of(given)
    assert (data.names, data.pairing) == (("image", "text", "audio"), "row by row")
    same(m.gap_matrix(given), m.gap_matrix({"image": X, "text": Y, "audio": X}))
    # One file may hold several, found by their names.
    shared = {"text": folder / "pairs.parquet", "image": folder / "pairs.parquet"}
    same(Modalities.of(shared).sides["text"].rows(), Y)


def test_a_path_beside_an_array_and_queries_from_a_file(folder):
    data = Modalities.of(folder / "image.npy", Y, groups=(range(N), range(N)))
    assert data.pairing == "by group"
    asked = data.with_queries({"text": folder / "pairs.parquet"})
    same(asked.queries_of("text").rows(), Y)


@pytest.mark.parametrize("stacked", [np.stack([X, Y]), "tensor"], ids=["array", "tensor"])
def test_two_modalities_may_be_stacked(stacked):
    if isinstance(stacked, str):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        stacked = torch.tensor(np.stack([X, Y]))
    assert np.isclose(modgap.gap_distance(stacked), modgap.gap_distance(X, Y))
    assert modgap.measure(stacked).gap_distance == pytest.approx(modgap.gap_distance(X, Y))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_tensors_with_gradients_and_in_half_precision_are_rows(dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    given = [torch.tensor(rows, requires_grad=True).to(getattr(torch, dtype)) for rows in (X, Y)]
    plain = [one.detach().float().numpy() for one in given]
    assert modgap.gap_distance(*given) == pytest.approx(modgap.gap_distance(*plain))
    assert modgap.gap_distance(*map(list, given)) == pytest.approx(modgap.gap_distance(*plain))
    assert modgap.gap_distance(*(list(one.double()) for one in given)) == modgap.gap_distance(
        *(one.astype(np.float64) for one in plain)
    )
    mapped = (Calibrate().fit(*rows).correction_.apply(X, "image") for rows in (given, plain))
    assert np.allclose(*mapped)


def test_the_whole_way_from_one_file(folder, tmp_path):
    path = folder / "pairs.parquet"
    diagnosis = modgap.diagnose(path)
    assert diagnosis.sentence == modgap.diagnose(X, Y).sentence
    assert modgap.evaluate_correction(path, correction=CORRECTION).n_groups == N
    assert modgap.fix(path, folder=tmp_path / "fixed").diagnoses
    page = modgap.report(path, diagnosis=diagnosis, umap=False)
    assert page.document["source"] == ["pairs.parquet", "pairs.parquet"]
    modgap.write_embeddings(tmp_path / "copy.npy", folder / "image.npy")
    same(np.load(tmp_path / "copy.npy"), X)


def test_the_live_explorer_takes_a_path(folder):
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from modgap.serve import Explorer

    info = Explorer(folder / "pairs.parquet").info()
    assert [(one.name, one.captions) for one in info.modalities] == [
        ("image", True),
        ("text", True),
    ]


class Model:
    def forward(self): ...


def pictures():
    return pytest.importorskip("PIL.Image", reason="pillow is not installed").new("RGB", (2, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [[1.0, 2.0], [3.0]], "rows do not have the same length"),
        (lambda: {"image": X}, r"a dict of 'image'\. Pass the rows of one modality"),
        (pictures, "a picture .* Pictures are embedded first: modgap embed"),
        (lambda: [pictures()], "pictures. Pictures are embedded first: modgap embed"),
        (lambda: ["a cat", "a dog"], "texts. Texts are embedded first: modgap embed"),
        (lambda: (row for row in X), r"a generator\. Collect its batches: np\.concatenate"),
        (lambda: iter([X]), r"a list_iterator\. Collect its batches"),
        (lambda: scipy.sparse.csr_matrix(X), r"a sparse csr_matrix\. Call \.toarray\(\)"),
        (lambda: scipy.sparse.csr_array(X), r"a sparse csr_array\. Call \.toarray\(\)"),
        (lambda: X[0], r"got shape \(6,\)\. One row alone is X\[None, :\]"),
        (lambda: X[None], r"np\.concatenate\(X\)"),
        (lambda: np.array([X[0], None], dtype=object), r"np\.stack\(X\)"),
        (lambda: np.ma.masked_greater(X, 1), "masked array. Drop the rows"),
        (lambda: np.empty((0, DIM)), "at least one row and one column"),
        (list, r"got shape \(0,\)\.$"),
        (lambda: [{"a": 1}], r"a list of dicts\. .*Table\.from_pylist"),
        (lambda: None, "got nothing. Pass an array"),
        (lambda: b"rows", "np.frombuffer"),
        (Model, r"a model \(Model\)\. Give it pictures and texts first"),
        (lambda: CORRECTION, r"a Correction\. Pass rows first, and a correction by its name"),
        (lambda: io.BytesIO(), r"an open file\. Pass its path"),
        (lambda: {1, 2}, "a set. Pass an array, a tensor, a path or a table"),
        (lambda: Modalities.of(X, Y), r"got Modalities of image and text.*data\.sides\['image'\]"),
        (lambda: "a cat", "There is no file or folder 'a cat'"),
        (lambda: "https://a.b/c.pt", r"https://a\.b/c\.pt is a torch file.*Download it first"),
        (lambda: "rows/*.npy", "read together as a folder: pass its path"),
        (lambda: "", "There is no file or folder ''"),
    ],
)
def test_each_wrong_type_is_told_what_to_call(make, message):
    with pytest.raises(InputError, match=message) as refused:
        m.norms(make())
    assert "\n" not in str(refused.value)


def test_what_a_model_puts_out_is_taken_apart_first():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    utils = pytest.importorskip("transformers.utils", reason="transformers is not installed")
    rows = torch.ones(3, 4)

    @dataclass
    class CLIPOutput(utils.ModelOutput):  # as transformers defines it
        logits_per_image: Any = None
        text_embeds: Any = None
        image_embeds: Any = None

    for call in (modgap.measure, m.norms):
        with pytest.raises(InputTypeError, match=r"CLIPOutput .* output\.text_embeds, output\.ima"):
            call(CLIPOutput(rows, rows, rows))
    with pytest.raises(InputTypeError, match=r"Call \.to_dense\(\)"):
        m.norms(rows.to_sparse())
    with pytest.raises(InputTypeError, match=r"a DataLoader\. .*torch\.cat"):
        m.norms(torch.utils.data.DataLoader([1]))


def test_one_modality_where_two_are_wanted_says_so(folder):
    with pytest.raises(InputTypeError, match="The rows of text are missing: give both"):
        modgap.measure(X)
    with pytest.raises(InputValueError, match=r"must hold two modalities.*the second path or tabl"):
        modgap.measure(folder / "image.npy")
    with pytest.raises(InputValueError, match=r"open_embeddings\(…, column='0'\) or '1'"):
        m.norms(folder / "both.npy")
    with pytest.raises(InputValueError, match="embedded first: modgap embed MODEL DATA"):
        modgap.measure(pd.DataFrame({"image": [b"1", b"2"], "caption": ["a", "b"]}))


def test_several_modalities_in_the_wrong_place_are_told_where_they_go(folder):
    for both in ([X, Y], (X, Y), [folder / "image.npy", str(folder / "text.npy")]):
        with pytest.raises(InputTypeError, match=r"one after the other, got a .* Pass \(X, Y\)"):
            modgap.measure(both)
    with pytest.raises(InputValueError, match="More than two modalities come as one map"):
        modgap.measure(X, Y, X)
    with pytest.raises(InputValueError, match=r"Modalities\.of\(…\)\.pair\('image', 'text'\)"):
        modgap.retrieval({"image": X, "text": Y, "audio": X})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Y": CORRECTION}, "Y must be rows, got a Correction. Pass it by name: correction="),
        ({"Y": Y, "correction": Procrustes()}, "got a Procrustes.* what it learned: correction_"),
        ({"Y": Y, "correction": "a.safetensors"}, r"got a str.*modgap\.Correction\.load\(path\)"),
    ],
)
def test_what_is_no_correction_is_told_how_to_get_one(given, message):
    with pytest.raises(InputTypeError, match=message):
        modgap.evaluate_correction(X, **given)


EVALUATED = {
    "retrieval": lambda X, Y, c: retrieval(X, Y, correction=c),
    "mixed": lambda X, Y, c: mixed_retrieval(X, Y, correction=c),
    "curve": lambda X, Y, c: mixed_curve(X, Y, correction=c),
    "evaluate": lambda X, Y, c: evaluate_correction(X, Y, c),
    "diagnose": lambda X, Y, _: modgap.diagnose(X, Y, trust_pairs=True),
    "paths": lambda X, Y, _: gap_paths(X, Y),
    "evaluator": lambda X, Y, _: Evaluator(Modalities.of(X, Y)),
}


@pytest.mark.parametrize("call", EVALUATED.values(), ids=EVALUATED)
@pytest.mark.parametrize(("number", "what"), [(np.nan, "NaN or infinity"), (0.0, "length zero")])
@pytest.mark.parametrize("corrected", [False, True])
def test_bad_rows_are_refused_by_name_where_they_come_in(rng, call, number, what, corrected):
    Z = rng.normal(size=(60, 6))
    X, Y = (Z + 0.1 * rng.normal(size=Z.shape) for _ in range(2))
    correction = Center().fit(X, Y).correction_ if corrected else None
    X[7] = number
    with pytest.raises(ValueError, match=rf"image.* {what}|Row 7 of image has {what}"):
        call(X, Y, correction)


def test_noise_and_codes_that_leave_no_usable_row_are_refused(rng):
    X, Y = (rng.normal(size=(20, 4)) for _ in range(2))
    wordings = np.stack([Y, np.full_like(Y, np.nan)])
    with pytest.raises(ValueError, match=r"candidates has .* NaN or infinity"):
        robustness(X, Y, Rephrase(wordings), 5)
    with pytest.raises(ValueError, match="coded candidates has 20 rows with length zero"):
        robustness(X, 0.1 * Y, UniformQuantiser(3, -9, 9), metric="cosine")


def test_a_diagnosis_checks_rows_as_they_come_in_and_matrices_as_they_are_made(rng):
    Z = rng.normal(size=(400, 8))
    X, Y = (Z + gap + 0.3 * rng.normal(size=Z.shape) for gap in (1, -1))
    calls = collections.Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_name.startswith("check_"):
            calls[frame.f_code.co_name] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        modgap.diagnose(X, Y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    # Some hundred matrices are made; in every search each would be checked many times over.
    assert sum(calls.values()) < 250, calls
