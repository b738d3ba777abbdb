"""check_corrector passes on every corrector of ours, and catches each kind of broken one."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import (
    CORRECTORS,
    Affine,
    Calibrate,
    Center,
    Corrector,
    ExpectedWrong,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
    check_corrector,
)
from modgap.corrections.calibrate import FORMS, MODES

SETTINGS = [
    Shift(),
    Shift(0.0),
    Shift(-0.3),
    Shift(amount=1),
    OrthogonalShift(),
    OrthogonalShift("x", 0.5),
    OrthogonalShift("y", 0.95, amount=0.4),
    OrthogonalShift("x", 0.0),
    OrthogonalShift("y", 0.95, threshold="each"),
    OriginShift(),
    OriginShift(0.5, "x"),
    OriginShift(0.75, "y"),
    Center(),
    Whiten(),
    Whiten(0.0),
    Whiten(1.0),
    Procrustes(),
    *(Calibrate(mode, form) for mode in MODES for form in FORMS),
]


@pytest.mark.parametrize("corrector", SETTINGS, ids=repr)
def test_every_corrector_keeps_every_promise(corrector):
    check_corrector(corrector)


def test_every_corrector_is_among_those_checked():
    # A bank knows its own documents by keys, which rows alone do not have.
    assert {type(c) for c in SETTINGS} == {*CORRECTORS} - {ExpectedWrong}


class ChangesItsInput(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        X -= X.mean(axis=0)
        return self


class TransformsOtherwise(Center):
    def transform_x(self, X):
        return self._fitted().x(X) * 2


class ForgetsAParameter(Center):
    def __init__(self, amount=1.0):
        self.size = amount


class ChangesAParameter(Center):
    def __init__(self, amount=1.0):
        self.amount = abs(amount) + 1


class IsNotFinished(Center):
    def _maps(self, moments):
        raise NotImplementedError("to be written")


class TakesEveryDimension(Center):
    def transform_x(self, X):
        return np.ones((len(X), 8)) if X.shape[1] != 8 else super().transform_x(X)


class NeverFails(Center):
    def transform(self, X, Y):
        return (X, Y) if not hasattr(self, "correction_") else super().transform(X, Y)


class ReturnsNothing(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)


class LearnsItsParameter(Shift):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        self.amount = 3.0
        return self


class IsRandom(Center):
    def _maps(self, moments):
        noise = np.random.default_rng().normal(size=moments.x.dim)
        return {(side, "document"): Affine(moments.x.dim, offset=noise) for side in "xy"}


class NeedsPairsInSecret(Center):
    def fit(self, X, Y, **options):
        if len(X) != len(Y):
            raise ValueError("pairs only")
        return super().fit(X, Y, **options)


class ClaimsToNeedPairs(Center):
    needs_pairs = True

    def fit(self, X, Y, **options):
        self.correction_ = Center().fit(X, Y, **options).correction_
        self.correction_.about["method"] = type(self).__name__
        return self


class MapsRowsByTheirNeighbours(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        kept = self.correction_

        class Batchwise(type(kept)):
            def apply(self, rows, modality, role="document"):
                return super().apply(rows, modality, role) - rows.mean(axis=0)

        self.correction_ = Batchwise(kept.names, kept.maps, kept.metric, kept.about)
        return self


class LooksAtLengths(Center):
    def fit(self, X, Y, **options):
        return super().fit(X, Y, **{"rows": "given", **options})


class AlwaysNormalises(Center):
    def fit(self, X, Y, **options):
        return super().fit(X, Y, **{**options, "rows": "unit"})


class IsOtherwiseInTorch(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        kept = self.correction_

        class Otherwise(type(kept)):
            def to_torch(self):
                return Shift(0.1).fit(X, Y).correction_.to_torch()

        self.correction_ = Otherwise(kept.names, kept.maps, kept.metric, kept.about)
        return self


class WidensRows(Center):
    def transform(self, X, Y):
        return tuple(rows.astype(np.float64) for rows in super().transform(X, Y))


class FitsRowsAndMomentsDifferently(Center):
    def _fit_rows(self, data, moments, unit):
        return Shift(0.5)._maps(moments)


class NotesAnArray(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        object.__setattr__(self.correction_, "about", {**self.correction_.about, "noted": (1, 2)})
        return self


class CannotBePickled(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        self.helper_ = X[0].copy()
        return self

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        self.correction_ = Shift(0.0).fit(np.ones((2, 8)), np.ones((2, 8))).correction_


class HasAWrongInverse(Center):
    def fit(self, X, Y, **options):
        super().fit(X, Y, **options)
        kept = self.correction_

        class Irreversible(type(kept)):
            def inverse(self):
                return kept

        self.correction_ = Irreversible(kept.names, kept.maps, kept.metric, kept.about)
        return self


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (ChangesItsInput(), "fit keeps parameters and input unchanged. X was changed"),
        (TransformsOtherwise(), "transform is the correction on documents"),
        (TakesEveryDimension(), "rows of another dimension are refused"),
        (ForgetsAParameter(), "it can be cloned and its parameters set"),
        (ChangesAParameter(), "it can be cloned and its parameters set"),
        (IsNotFinished(), "fit returns itself and leaves a correction. to be written"),
        (NeverFails(), "it says when it is not fitted"),
        (ReturnsNothing(), "fit returns itself and leaves a correction"),
        (LearnsItsParameter(), "fit keeps parameters and input unchanged. parameters were"),
        (IsRandom(), "fitting twice gives the same maps"),
        (NeedsPairsInSecret(), "sides of different length are taken or refused in words"),
        (ClaimsToNeedPairs(), "needs_pairs is True, and unpaired rows were taken"),
        (MapsRowsByTheirNeighbours(), "new rows of one modality alone are mapped row by row"),
        (LooksAtLengths(), "rows of any length are mapped alike. image, role document"),
        (AlwaysNormalises(), "rows as given stay as long as they are"),
        (IsOtherwiseInTorch(), "torch gives what numpy gives. image, role document"),
        (WidensRows(), "precision is kept. float32 rows became float64"),
        (FitsRowsAndMomentsDifferently(), "moments give the same maps as rows"),
        (NotesAnArray(), "the correction survives its file. about must hold plain JSON values"),
        (CannotBePickled(), "a fitted corrector can be sent to another process"),
        (HasAWrongInverse(), "the inverse takes rows back where it exists"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Corrector) else "",
)
def test_a_broken_corrector_is_caught_and_the_promise_named(broken, promise):
    with pytest.raises(AssertionError, match=promise) as caught:
        check_corrector(broken)
    assert str(caught.value).startswith(type(broken).__name__)
