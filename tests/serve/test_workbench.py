"""Fitting on the server: the metrics are those of diagnose; what is kept, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modgap import diagnose
from modgap.core.checks import InputError
from modgap.core.stopping import Stopped, stoppable
from modgap.corrections import (
    CORRECTORS,
    METHODS,
    Calibrate,
    Center,
    OrthogonalShift,
    Procrustes,
    Shift,
    make_corrector,
    row_length,
)
from modgap.diagnosis.splits import split
from modgap.io import Modalities, embeddings
from modgap.io._matrices import PickedRows
from modgap.serve import Explorer
from modgap.serve.workbench import RECOMMENDED, Bench, Unknown
from serving import make_data


def nothing(*_: Any) -> None:
    pass


def fit(explorer: Explorer, corrector: Any, progress: Any = nothing) -> str:
    """Fit and remember a correction, as a job does; its identifier."""
    fitted = explorer.try_out(corrector, progress)
    explorer.corrections.add(fitted)
    return fitted.id


@pytest.fixture(scope="module")
def data():
    return make_data(120, 240)


@pytest.mark.parametrize(
    "corrector", [Shift(0.4), Procrustes(), Calibrate("mixed"), OrthogonalShift("x", 0.7)], ids=repr
)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_metrics_are_those_of_the_trial_of_diagnose(data, corrector, metric):
    result = diagnose(data, correctors=[corrector], seed=3, metric=metric)
    fitted = Bench(data, seed=3, metric=metric).fit(corrector, nothing)
    (trial,) = result.trials
    assert fitted.name == trial.method
    assert fitted.correction.metric == trial.metric
    assert fitted.n_groups == result.n_groups["confirm"]
    assert fitted.raw.to_dict() == result.raw.to_dict()
    assert fitted.corrected.to_dict() == trial.confirm.to_dict()
    assert fitted.queries == result.queries == ("text",)


def test_the_metrics_are_about_the_modality_that_asks(data):
    result = diagnose(data, correctors=[Calibrate()], queries="image")
    fitted = Bench(data, queries="image").fit(Calibrate(), nothing)
    assert fitted.raw.to_dict() == result.raw.to_dict()
    assert fitted.corrected.to_dict() == result.trials[0].confirm.to_dict()
    assert fitted.correction.queries == ("image",)
    assert "text_retrieval_recall@1" in fitted.raw.metrics
    assert "image_retrieval_recall@1" not in fitted.raw.metrics


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_what_serves_one_kind_of_query_is_fitted_for_each(data, metric):
    fitted = Bench(data, metric=metric).fit(Calibrate(), nothing)
    fit, rows = split(data, 0).fit, row_length(metric)
    for asking in data.names:
        correction = fitted.serving(asking)
        assert correction.queries == (asking,)
        assert correction.unit_rows == (metric == "cosine")
        alone = Calibrate().fit(fit, queries=asking, rows=rows).correction_
        np.testing.assert_allclose(correction.x(data.X), alone.x(data.X))
    everyone = Bench(data, metric=metric).fit(Center(), nothing)
    assert everyone.serving("image") is everyone.serving("text") is everyone.correction


def test_several_that_ask_need_a_form_that_serves_them_all(data):
    bench = Bench(data, queries=("image", "text"))
    with pytest.raises(InputError, match="serves the queries of one modality, but image and"):
        bench.fit(Calibrate(), nothing)
    fitted = bench.fit(Calibrate(form="blocks"), nothing)
    assert len([name for name in fitted.raw.metrics if "recall" in name]) == 2


def test_files_of_two_kinds_of_query_are_told_apart_whatever_the_names():
    rows = make_data(30, 30)
    explorer = Explorer(Modalities.of(rows.X, rows.Y, ("画像", "音声")), queries="音声")
    identifier = fit(explorer, Calibrate())
    files = [explorer.corrections.file(identifier, name) for name in ("画像", "音声")]
    assert len({name for name, _ in files}) == len({data for _, data in files}) == 2
    assert explorer.corrections.file(identifier) == files[1]
    assert all(name.isascii() for name, _ in files)


def test_without_pairs_too():
    data = make_data(70, 90, paired=False)
    result = diagnose(data, correctors=[Center()])
    fitted = Bench(data).fit(Center(), nothing)
    assert fitted.corrected.to_dict() == result.trials[0].confirm.to_dict()
    assert fitted.n_groups == result.n_groups["confirm"] == 35


def test_the_goal_is_the_one_asked_for(data):
    fitted = Bench(data, goal="robust").fit(Shift(0.5), nothing)
    robust = fitted.corrected.metrics["robust_to_noise"].value
    assert fitted.corrected.goal.value.value == pytest.approx(robust.value)


def test_the_rows_as_they_are_are_evaluated_once(data):
    bench, steps = Bench(data), []
    for amount in (0.2, 0.3):
        bench.fit(Shift(amount), lambda *step: steps.append(step))
    assert [step[1:] for step in steps] == [(0, 5), (1, 5), (2, 5), (3, 5), (2, 5), (3, 5)]


@pytest.mark.filterwarnings("default")  # refused where warnings are only printed, too
@pytest.mark.parametrize(
    ("n", "paired", "corrector", "said"),
    [
        (40, False, Procrustes(), "Procrustes needs pairs"),
        (5, True, Center(), r"needs at least 8 .*, got 5\."),
        (5, False, Center(), r"needs at least 8 .*, got 5\."),
        (120, True, OrthogonalShift("y", 1.0), r"moves nothing.*0\.95"),
    ],
)
def test_what_cannot_be_fitted_is_refused(n, paired, corrector, said):
    with pytest.raises(InputError, match=said):
        Bench(make_data(n, n, paired=paired)).fit(corrector, nothing)


def test_a_shift_that_moves_nothing_is_refused_where_warnings_are_errors(data):
    with pytest.raises(InputError, match="moves nothing"):
        Bench(data).fit(OrthogonalShift("y", 1.0), nothing)


def test_the_oldest_correction_gives_way_and_the_recommended_one_never(data):
    explorer = Explorer(data, kept=2)
    result = diagnose(data, correctors=[Center(), Shift(0.5)])
    first = fit(explorer, Shift(0.1))
    # With fewer than 100 groups to confirm on nothing is recommended; here something is.
    object.__setattr__(result, "recommended", "Center()")
    object.__setattr__(result, "correction", Center().fit(data.x.rows(), data.y.rows()).correction_)
    explorer.corrections.recommend(result)
    explorer.search("text", row=0, correction=first)
    later = [fit(explorer, Shift(amount)) for amount in (0.2, 0.3)]
    assert list(explorer.corrections.listed()) == [RECOMMENDED, *later]
    with pytest.raises(Unknown):
        explorer.search("text", row=0, correction=first)
    shown = explorer.corrections.get(RECOMMENDED)
    assert shown.name == "Center()"
    assert shown.corrected is result.trials[0].confirm
    assert shown.raw is result.raw


def test_the_same_fit_again_replaces_the_earlier_one():
    explorer = Explorer(make_data())
    first, other, again = (fit(explorer, Shift(a)) for a in (0.1, 0.2, 0.1))
    assert list(explorer.corrections.listed()) == [other, again]
    with pytest.raises(Unknown):
        explorer.corrections.get(first)


def test_nothing_is_recommended_where_diagnose_recommends_nothing():
    data = make_data()
    explorer = Explorer(data)
    # Too few pairs for a verdict, and Center changes rankings: nothing is written.
    explorer.corrections.recommend(diagnose(data, correctors=[Center()]))
    assert explorer.corrections.listed() == {}


@pytest.mark.parametrize("paired", [True, False])
def test_the_correction_of_the_report_serves_queries_of_both_kinds(paired):
    data = make_data(paired=paired)
    explorer = Explorer(data)
    document = explorer.document(nothing, umap=False)
    fitted = explorer.corrections.get(RECOMMENDED)
    assert (
        fitted.label
        == document["fix"]["label"]
        == "balances the modalities; too few pairs to test relevance"
    )
    for asking in data.names:
        expected = Calibrate().fit(data, queries=asking).correction_
        np.testing.assert_allclose(fitted.serving(asking).y(data.Y), expected.y(data.Y))
    assert fitted.queries == fitted.correction.queries == ("text",)


def test_every_corrector_is_offered_with_its_own_parameters_and_defaults():
    assert list(METHODS) == [kind.__name__ for kind in CORRECTORS]
    for kind in CORRECTORS:
        method = METHODS[kind.__name__]
        offered = {p.name: p.default for p in method.parameters}
        # A matrix cannot be typed into a form.
        assert offered == {
            name: value for name, value in kind().get_params().items() if name != "noise_covariance"
        }
        assert make_corrector(method.name, offered).get_params() == kind().get_params()
        assert method.summary.endswith((".", ")", ").", "tality"))
        for parameter in method.parameters:
            assert (parameter.choices is None) == (parameter.type == "number")


@pytest.mark.parametrize(
    ("method", "parameters", "said"),
    [
        ("shfit", {}, "method must be one of .*Did you mean 'shift'"),
        ("Shift", {"amout": 1}, r"Shift has no parameter 'amout'\. Its parameters are: amount\."),
        ("Center", {"amount": 1}, "Its parameters are: none"),
        ("Shift", {"amount": "much"}, "amount must be a number, got str"),
        ("Shift", {"amount": float("nan")}, "amount must be finite"),
        ("Shift", {"amount": 11}, r"amount must be between -10 and 10, got 11\."),
        ("Whiten", {"shrinkage": 1.5}, "shrinkage must be between 0 and 1, got 1.5"),
        ("Calibrate", {"mode": "kepe"}, "mode must be one of 'keep', 'mixed'.*'keep'"),
        ("Calibrate", {"mode": 3}, "mode must be one of"),
    ],
)
def test_wrong_parameters_are_refused_in_words(method, parameters, said):
    with pytest.raises(InputError, match=said):
        make_corrector(method, parameters)


def test_rows_that_cannot_be_evaluated_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).astype("float32")
    Y = X.copy()
    X[:] = np.eye(4)[0]  # all the same, and centred all on the origin
    data = Modalities.of(X, Y)
    with pytest.raises(InputError):
        Bench(data).fit(Center(), nothing)


def test_a_fit_has_places_to_stop_at_in_every_step_and_leaves_nothing(data):
    corrector = Calibrate(hubs=0.5)
    whole = Explorer(data)
    now, places = "", []

    def progress(step: str, *_: Any) -> None:
        nonlocal now
        now = step

    with stoppable(lambda: bool(places.append(now))):
        expected = whole.corrections.get(fit(whole, corrector, progress)).corrected.to_dict()
    steps = dict.fromkeys(places)
    assert list(steps) == [
        "reading the rows to fit and to evaluate on", "evaluating the rows as they are",
        f"fitting {corrector.label}", f"evaluating {corrector.label}",
        "placing the rows in the index",
    ]  # fmt: skip
    explorer, placed = Explorer(data), []
    remembered = explorer.index._remembered
    explorer.index._remembered = lambda correction: (
        placed.append(remembered(correction)) or placed[-1]
    )
    for step in steps:
        asked = 0

        def last_of_step(step: str = step) -> bool:
            nonlocal asked
            asked += now == step
            return asked == (1 if step.startswith("reading") else places.count(step))

        with stoppable(last_of_step), pytest.raises(Stopped):
            fit(explorer, corrector, progress)
        assert (explorer.corrections.listed(), any(placed)) == ({}, False)
    assert (
        explorer.corrections.get(fit(explorer, corrector, progress)).corrected.to_dict() == expected
    )


def test_many_rows_in_memory_are_not_copied_to_be_fitted_on(data, monkeypatch):
    def fitted() -> list[dict[str, Any]]:
        bench = Bench(data)
        tried = (Shift(0.4), Procrustes(), OrthogonalShift("x", 0.7))
        return [bench.fit(one, nothing).corrected.to_dict() for one in tried]

    expected = fitted()
    monkeypatch.setattr(embeddings, "MOST_COPIED", 10)
    sides = split(data, 0).fit.sides.values()
    assert all(isinstance(side.matrix, PickedRows) for side in sides)
    for found, known in zip(fitted(), expected, strict=True):
        for name, score in known["metrics"].items():
            value = found["metrics"][name]["value"]["value"]
            assert value == pytest.approx(score["value"]["value"], abs=1e-9)


def test_too_few_rows_to_fit_on_are_told_at_once():
    explorer = Explorer(make_data(6, 6))
    said = explorer.info().why_no_fit
    assert said is not None
    assert "needs at least 8 groups" in said
    with pytest.raises(InputError, match="needs at least 8 groups"):
        explorer.bench.check(Shift())
    assert Explorer(make_data(8, 8)).info().why_no_fit is None
