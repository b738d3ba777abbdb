"""What every corrector must do: a suite that runs on ours, and on yours."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.base import clone

from modgap.corrections.base import Corrector, NotFitted
from modgap.corrections.correction import METRICS, Correction, Role
from modgap.moments import PairMoments


def check_corrector(corrector: Corrector) -> None:
    """Raise an AssertionError that names the first promise a corrector does not keep.

    Whether ``to_torch`` equals NumPy is left out where torch is not installed.

    >>> from modgap.corrections import Center
    >>> check_corrector(Center())
    """
    for check in _CHECKS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                check(corrector)
            except Exception as error:  # a corrector may fail in any way it likes
                promise = check.__name__.removeprefix("_").replace("_", " ")
                raise AssertionError(f"{type(corrector).__name__}: {promise}. {error}") from error


def _data(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with a gap, more rows than dimensions."""
    rng = np.random.default_rng(7)
    shared = rng.normal(size=(40, 8))
    gap = rng.normal(size=8)
    X = shared + 0.3 * rng.normal(size=(40, 8)) + gap
    Y = shared + 0.3 * rng.normal(size=(40, 8)) - gap
    return X.astype(dtype), Y.astype(dtype)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _uses(correction: Correction) -> Iterator[tuple[str, Role, np.ndarray]]:
    """Every modality and role that the correction serves, with rows of that modality."""
    for name, rows in zip(correction.names, _data(), strict=True):
        yield name, "document", rows
        if name in correction.queries:
            yield name, "query", rows


def _fitted(corrector: Corrector, dtype: type = np.float64) -> Corrector:
    return clone(corrector).fit(*_data(dtype))


def _it_can_be_cloned_and_its_parameters_set(corrector: Corrector) -> None:
    twin = clone(corrector)
    assert twin is not corrector
    assert twin.get_params() == corrector.get_params()
    assert not hasattr(twin, "correction_"), "a clone must not be fitted"
    twin.set_params(**corrector.get_params())


def _it_says_when_it_is_not_fitted(corrector: Corrector) -> None:
    try:
        clone(corrector).transform(*_data())
    except NotFitted:
        return
    raise AssertionError("transform before fit must raise NotFitted")


def _fit_returns_itself_and_leaves_a_correction(corrector: Corrector) -> None:
    fitted = clone(corrector)
    assert fitted.fit(*_data()) is fitted
    correction = fitted.correction_
    assert isinstance(correction, Correction)
    assert correction.metric in METRICS
    assert correction.about["method"] == type(corrector).__name__
    assert correction.about["fitted_on"] == {"image": 40, "text": 40}


def _fit_keeps_parameters_and_input_unchanged(corrector: Corrector) -> None:
    X, Y = _data()
    before = (X.copy(), Y.copy(), corrector.get_params())
    fitted = clone(corrector).fit(X, Y)
    fitted.transform(X, Y)
    assert np.array_equal(X, before[0]), "X was changed"
    assert np.array_equal(Y, before[1]), "Y was changed"
    assert fitted.get_params() == before[2], "parameters were changed"


def _fitting_twice_gives_the_same_maps(corrector: Corrector) -> None:
    first, second = _fitted(corrector), _fitted(corrector)
    for a, b in zip(first.transform(*_data()), second.transform(*_data()), strict=True):
        assert np.array_equal(a, b)


def _transform_is_the_correction_on_documents(corrector: Corrector) -> None:
    fitted = _fitted(corrector)
    X, Y = _data()
    both = fitted.transform(X, Y)
    apart = fitted.transform_x(X), fitted.transform_y(Y)
    kept = fitted.correction_.x(X), fitted.correction_.y(Y)
    for a, b, c in zip(both, apart, kept, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)


def _new_rows_of_one_modality_alone_are_mapped_row_by_row(corrector: Corrector) -> None:
    correction = _fitted(corrector).correction_
    for name, role, rows in _uses(correction):
        whole = correction.apply(rows, name, role)
        single = np.vstack([correction.apply(row[None], name, role) for row in rows])
        assert np.allclose(whole, single, atol=1e-12), f"{name}, role {role}"


def _rows_of_any_length_are_mapped_alike(corrector: Corrector) -> None:
    rng = np.random.default_rng(8)
    X, Y = _data()
    lengths = [10.0 ** rng.uniform(-6, 6, size=(len(rows), 1)) for rows in (X, Y)]
    of_unit_rows = clone(corrector).fit(*(_unit(rows) for rows in (X, Y))).correction_
    correction = clone(corrector).fit(X * lengths[0], Y * lengths[1]).correction_
    for name, role, rows in _uses(correction):
        expected = of_unit_rows.apply(_unit(rows), name, role)
        factor = lengths[correction.names.index(name)]
        found = correction.apply(rows * factor, name, role)
        assert np.allclose(found, expected, atol=1e-8), f"{name}, role {role}"


def _rows_as_given_stay_as_long_as_they_are(corrector: Corrector) -> None:
    correction = clone(corrector).fit(*_data(), rows="given").correction_
    assert not any(affine.normalise for affine in correction.maps.values())
    assert correction.about["rows"] == "given"


def _precision_is_kept(corrector: Corrector) -> None:
    wide, narrow = _fitted(corrector), _fitted(corrector, np.float32)
    rows = _data(np.float32)
    for a, b in zip(wide.transform(*_data()), narrow.transform(*rows), strict=True):
        assert b.dtype == np.float32, f"float32 rows became {b.dtype}"
        assert np.allclose(a, b, atol=1e-3)


def _moments_give_the_same_maps_as_rows(corrector: Corrector) -> None:
    X, Y = _data()
    moments = PairMoments.from_batch(X, Y, paired=True)
    streamed = clone(corrector).fit_moments(moments).correction_
    whole = _fitted(corrector).correction_
    for side, rows in (("x", X), ("y", Y)):
        a, b = getattr(streamed, side)(rows), getattr(whole, side)(rows)
        assert np.allclose(a, b, atol=1e-6), f"side {side}"


def _sides_of_different_length_are_taken_or_refused_in_words(corrector: Corrector) -> None:
    X, Y = _data()
    try:
        clone(corrector).fit(X, Y[:-3])
        taken = True
    except ValueError:
        taken = False
    assert taken is not corrector.needs_pairs, (
        f"needs_pairs is {corrector.needs_pairs}, and unpaired rows were "
        f"{'taken' if taken else 'refused'}"
    )


def _rows_of_another_dimension_are_refused(corrector: Corrector) -> None:
    fitted = _fitted(corrector)
    try:
        fitted.transform_x(np.ones((3, 5)))
    except ValueError:
        return
    raise AssertionError("rows of 5 columns were taken by a correction for 8")


def _the_correction_survives_its_file(corrector: Corrector) -> None:
    correction = _fitted(corrector).correction_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "correction.safetensors"
        correction.save(path)
        again = Correction.load(path)
    assert again.metric == correction.metric
    assert dict(again.about) == dict(correction.about), "about must hold plain JSON values"
    assert again.queries == correction.queries
    for name, role, rows in _uses(correction):
        found, expected = (c.apply(rows, name, role) for c in (again, correction))
        assert np.array_equal(found, expected), f"{name}, role {role}"


def _torch_gives_what_numpy_gives(corrector: Corrector) -> None:
    if find_spec("torch") is None:
        return
    import torch

    correction = _fitted(corrector).correction_
    module = correction.to_torch()
    for name, role, rows in _uses(correction):
        found = module(torch.from_numpy(rows), name, role).numpy()
        assert np.allclose(found, correction.apply(rows, name, role), atol=1e-10), (
            f"{name}, role {role}"
        )


def _the_inverse_takes_rows_back_where_it_exists(corrector: Corrector) -> None:
    correction = _fitted(corrector).correction_
    try:
        back = correction.inverse()
    except ValueError:
        return
    for name, role, rows in _uses(correction):
        again = back.apply(correction.apply(rows, name, role), name, role)
        expected = _unit(rows) if correction.unit_rows else rows
        assert np.allclose(again, expected, atol=1e-8), f"{name}, role {role}"


def _a_fitted_corrector_can_be_sent_to_another_process(corrector: Corrector) -> None:
    fitted = _fitted(corrector)
    again = pickle.loads(pickle.dumps(fitted))  # what joblib does; files are never read this way
    X, _ = _data()
    assert np.array_equal(again.transform_x(X), fitted.transform_x(X))


_CHECKS: tuple[Callable[[Corrector], None], ...] = (
    _it_can_be_cloned_and_its_parameters_set,
    _it_says_when_it_is_not_fitted,
    _fit_returns_itself_and_leaves_a_correction,
    _fit_keeps_parameters_and_input_unchanged,
    _fitting_twice_gives_the_same_maps,
    _transform_is_the_correction_on_documents,
    _new_rows_of_one_modality_alone_are_mapped_row_by_row,
    _rows_of_any_length_are_mapped_alike,
    _rows_as_given_stay_as_long_as_they_are,
    _precision_is_kept,
    _moments_give_the_same_maps_as_rows,
    _sides_of_different_length_are_taken_or_refused_in_words,
    _rows_of_another_dimension_are_refused,
    _the_correction_survives_its_file,
    _torch_gives_what_numpy_gives,
    _the_inverse_takes_rows_back_where_it_exists,
    _a_fitted_corrector_can_be_sent_to_another_process,
)
