"""No NaN and no infinity leaves in silence: maps, banks and what they give are checked."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command_line import refuse
from modgap import Calibrate, Correction, diagnose, measure, retrieval
from modgap.core.checks import InputError, InputValueError
from modgap.corrections import Affine, FittedRows, Hubs
from modgap.evaluation import Gaussian, mixed_retrieval, robustness
from modgap.io import write_embeddings
from modgap.moments import Moments
from modgap.search import ScoreCalibrator, judge_hits, search

N, D = 40, 6
BAD = [np.nan, np.inf, -np.inf]
_A = np.random.default_rng(0).normal(size=(N, D))
_B = _A + 0.5 * np.random.default_rng(1).normal(size=(N, D)) + 1.0


def _one_row(value: float, dtype: str = "f8") -> tuple[np.ndarray, np.ndarray]:
    X, Y = _A.astype(dtype), _B.astype(dtype)
    X[3] = Y[3] = value
    return X, Y


def _scaled(x: float, y: float, dtype: str = "f8") -> tuple[np.ndarray, np.ndarray]:
    return (_A * x).astype(dtype), (_B * y).astype(dtype)


_SCALES = np.logspace(-90, 90, N)[:, None]
_SCALES32 = np.logspace(-40, 37, N)[:, None]
EXTREMES = {
    "rows of 1e-300": _scaled(1e-300, 1e-300),
    "rows of 1e-90": _scaled(1e-90, 1e-90),
    "rows of 1e98": _scaled(1e98, 1e98),
    "huge and tiny": _scaled(1e90, 1e-90),
    "float32 near its end": _scaled(3e37, 3e37, "f4"),
    "float32 of 1e30": _scaled(1e30, 1e30, "f4"),
    "float32 subnormal": _scaled(1e-43, 1e-43, "f4"),
    "float16 at its end": tuple(np.clip(A * 3e4, -65504, 65504).astype("f2") for A in (_A, _B)),
    "float16 subnormal": _scaled(1e-6, 1e-6, "f2"),
    "one huge row": _one_row(1e99),
    "one tiny row": _one_row(1e-99),
    "one row of 3e38": _one_row(3e38, "f4"),
    "one subnormal row": _one_row(1e-45, "f4"),
    "mixed scales": (_A * _SCALES, _B * _SCALES[::-1]),
    "mixed scales in float32": ((_A * _SCALES32).astype("f4"), (_B * _SCALES32).astype("f4")),
    "mixed columns": (_A * np.logspace(-60, 60, D), _B * np.logspace(-60, 60, D)),
    "equal rows": (np.ones((N, D)), np.ones((N, D))),
    "equal and opposite": (np.ones((N, D)), -np.ones((N, D))),
    "opposite rows": (_A, -_A),
    "the same rows": (_A, _A),
    "one-hot rows": (np.eye(D)[np.arange(N) % D],) * 2,
    "one column": (_A[:, :1] + 5, _B[:, :1] + 5),
    "two rows": (_A[:2], _B[:2]),
    "one row": (_A[:1], _B[:1]),
    "two equal rows": (_A[[0, 0]], _B[[0, 0]]),
    "a column of zeros": tuple(A * (np.arange(D) > 0) for A in (_A, _B)),
    "a row of zeros": _one_row(0.0),
    "rank one": tuple(np.outer(A[:, 0] + 3, np.ones(D)) for A in (_A, _B)),
}


def _fitted_and_applied(X, Y):
    for rows in ("unit", "given"):
        correction = Calibrate().fit(X, Y, rows=rows).correction_
        for name, side in zip(correction.names, (X, Y), strict=True):
            yield correction.apply(side, name)


def _hub_columns(X, Y):
    yield Calibrate(hubs=0.5).fit(X, Y, queries="text", rows="given").correction_.apply(X, "image")


METRICS = ("cosine", "inner_product", "euclidean")
DOORS = {
    "fit and apply": _fitted_and_applied,
    "hubs": _hub_columns,
    "search": lambda X, Y: (search(X, Y, 3, metric)[1] for metric in METRICS),
    "retrieval": lambda X, Y: ([*retrieval(X, Y, metric=m).recall().values()] for m in METRICS),
    "mixed": lambda X, Y: [mixed_retrieval(X, Y).ndcg],
    "robustness": lambda X, Y: [robustness(X, Y, Gaussian(0.1), draws=2).share],
    "measure": lambda X, Y: [measure(X, Y).gap_distance],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("door", DOORS)
def test_extremes_are_refused_in_words_or_give_finite_numbers(door, extreme):
    X, Y = EXTREMES[extreme]
    found = []
    with contextlib.suppress(InputError):
        found.extend(DOORS[door](X, Y))
    for numbers in found:
        assert np.all(np.isfinite(np.asarray(numbers)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_diagnosis_of_one_row_at_the_end_of_float32_warns_of_no_numbers():
    diagnose(*EXTREMES["one row of 3e38"])


@pytest.mark.parametrize("bad", BAD)
def test_maps_and_what_goes_with_them_must_be_finite(bad):
    with pytest.raises(InputValueError, match=r"matrix of a map must hold finite .* at \[1, 0\]"):
        Affine(2, np.array([[1.0, 0.0], [bad, 1.0]]))
    with pytest.raises(InputValueError, match=r"offset of a map must hold finite numbers"):
        Affine(2, offset=np.array([bad, 0.0]))
    with pytest.raises(InputValueError, match="scale of a map must be finite"):
        Affine(2, scale=bad)
    with pytest.raises(InputValueError, match="blocks of a map must hold finite"):
        Affine(2, blocks=(1.0, bad))
    with pytest.raises(InputValueError, match="mean of the fitted rows must hold finite"):
        FittedRows(5, np.array([bad, 0.0]), np.ones(2))
    with pytest.raises(InputValueError, match="A bank must be a matrix of finite numbers"):
        Hubs(0.5, 5, np.full((20, 2), bad))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A correction with hubs, moments and a score calibrator, in files."""
    folder = tmp_path_factory.mktemp("saved")
    Calibrate(hubs=0.5).fit(_A, _B, queries="text").correction_.save(folder / "correction")
    Moments.from_batch(_A).save(folder / "moments")
    hits = judge_hits(_B, _A, pair=("text", "image"))
    ScoreCalibrator().fit(hits).save(folder / "calibrator")
    return folder


@pytest.mark.parametrize(
    ("kind", "load", "message"),
    [
        ("correction", Correction.load, "is not a whole correction"),
        ("moments", Moments.load, "of a set of moments must hold finite numbers"),
        ("calibrator", ScoreCalibrator.load, "is not a complete score calibrator"),
    ],
)
def test_a_file_with_a_number_that_is_none_is_refused(saved, tmp_path, kind, load, message):
    from safetensors import safe_open

    with safe_open(saved / kind, framework="numpy") as file:
        header = file.metadata()
    for name, values in load_file(saved / kind).items():
        if values.dtype.kind != "f":
            continue
        tensors = {n: v.copy() for n, v in load_file(saved / kind).items()}
        tensors[name].reshape(-1)[-1] = np.nan
        save_file(tensors, tmp_path / "bad", metadata=header)
        with pytest.raises(InputValueError, match=message):
            load(tmp_path / "bad")


def _stretching(scale: float, dim: int = 4) -> Correction:
    maps = {(name, "document"): Affine(dim, scale=scale) for name in ("image", "text")}
    return Correction(("image", "text"), maps, "inner_product")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_rows_that_a_map_takes_out_of_range_are_named(library):
    rows = np.ones((5, 4), dtype=np.float32)
    rows[3] = 1e10
    if library == "torch":
        rows = pytest.importorskip("torch").from_numpy(rows)
    with pytest.raises(InputValueError) as refused:
        _stretching(1e30).apply(rows, "image")
    assert str(refused.value) == (
        "corrected image has 1 row with NaN or infinity, the first at row 3. The correction takes "
        "them out of the range of float32: scale the rows, or fit it on rows like these."
    )


def test_a_stream_names_the_row_of_the_whole(rng):
    batches = [np.ones((3, 4), dtype=np.float32), np.full((3, 4), 1e10, dtype=np.float32)]
    with pytest.raises(InputValueError, match="the first at row 3"):
        list(_stretching(1e30).map("image").over(batches, "image"))


def test_a_spread_beyond_float64_is_refused_and_gives_no_map_to_zero():
    X, Y = EXTREMES["rows of 1e98"]
    with pytest.raises(InputValueError, match="their spread is unknown"):
        Calibrate().fit(X, Y, rows="given")


def test_rows_that_would_vanish_in_a_narrower_type_are_refused(tmp_path):
    rows = np.ones((3, 4), dtype=np.float32)
    rows[2] = 1e-9
    with pytest.raises(InputValueError, match=r"row 2 is all below 5\.96046e-08, and"):
        write_embeddings(tmp_path / "x.npy", rows, dtype="float16")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("scale", "dtype", "message"),
    [(1e38, "float32", "corrected image has"), (1e4, "float16", "must fit into float16")],
)
def test_apply_writes_nothing_that_is_out_of_range(tmp_path, scale, dtype, message):
    np.save(tmp_path / "image.npy", np.full((30, 4), 100, dtype=np.float32))
    _stretching(scale).save(tmp_path / "c.safetensors")
    said = refuse(
        "apply", tmp_path / "c.safetensors", tmp_path / "image.npy", "--modality", "image",
        "-o", tmp_path / "out.npy", "--dtype", dtype,
    )  # fmt: skip
    assert message in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.safetensors", "image.npy"]


@pytest.mark.parametrize(("scale", "row"), [(1e30, 1e-20), (1.0, 1.0)])
def test_an_index_refuses_the_last_row_before_it_stores_the_first(tmp_path, scale, row):
    pytest.importorskip("faiss", reason="faiss is not installed")
    from modgap.index import open_index

    place = tmp_path / "x.faiss"
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    before = _stretching(1.0)  # what is there before stays
    with open_index(place, before, create=True) as index:
        index.write_all({"image": rows})
    rows *= row
    rows[29] *= 1e25
    with (
        pytest.raises(InputValueError, match=r"row 29|Row 29"),
        open_index(place, _stretching(scale), create=True, replace=True, batch_rows=5) as index,
    ):
        index.write_all({"image": rows})
    with open_index(place, before) as index:
        assert index.count() == 30


def test_scores_out_of_range_are_refused(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    from modgap.index import open_index

    with open_index(tmp_path / "x.faiss", _stretching(1.0), create=True) as index:
        index.write_all({"image": np.full((5, 4), 1e10, dtype=np.float32)})
        index.finish()
        with pytest.raises(InputValueError, match="scores of query 1 leave the range of float32"):
            index.search(np.array([[1.0] * 4, [1e35] * 4], dtype=np.float32), "text")


@pytest.mark.parametrize("bits", ["int8", "1bit"])
def test_codes_of_rows_out_of_range_are_refused(bits):
    pytest.importorskip("faiss", reason="faiss is not installed")
    from modgap.index.quantised import QuantisedIndex

    rows = np.random.default_rng(0).normal(size=(60, 8))
    with pytest.raises(InputValueError, match="leave the range of float32"):
        QuantisedIndex(bits).fit({"image": rows * 1e30, "text": rows})
    train, far = {"image": rows, "text": rows + 1.0}, {"image": rows * 1e8, "text": rows}
    with pytest.raises(InputValueError, match="out of the range of float16"):
        QuantisedIndex(bits).fit(far, train=train)
