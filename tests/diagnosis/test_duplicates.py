"""Rows that stand several times: numbers are those of the true groups, and nothing leaks."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import modgap
from modgap import Modalities
from modgap.corrections import Calibrate, Center
from modgap.diagnosis import diagnose, fix
from modgap.diagnosis.splits import split
from modgap.evaluation import evaluate_correction, retrieval
from modgap.measures import measure

FEW = (Center(), Calibrate("keep"))


def photos(n=100, times=5, seed=0, how="equal", dim=16):
    """Photos and their captions row by row, each photo once for each caption; the true groups."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, dim))
    X = (shared + 0.5 * rng.normal(size=shared.shape) + 2).astype(np.float32)
    group = np.repeat(np.arange(n), times)
    X = X[group]
    if how == "near":
        X *= 1 + 1e-4 * rng.normal(size=X.shape).astype(np.float32)
    if how == "float16":  # some were stored in half precision
        X = np.where(rng.random((len(X), 1)) < 0.5, X.astype(np.float16), X).astype(np.float32)
    Y = (shared[group] + 0.5 * rng.normal(size=X.shape) - 2).astype(np.float32)
    return X, Y, (group, group)


def plain(result):
    """A result as JSON, without what it says of duplicates."""

    def without(node):
        if isinstance(node, dict):
            return {k: without(v) for k, v in node.items() if k != "duplicates"}
        return [without(one) for one in node] if isinstance(node, list) else node

    return without(json.loads(json.dumps(result.to_dict(), default=str)))


HOW = st.sampled_from(["equal", "near", "float16"])


@given(HOW, st.integers(0, 2**32), st.integers(2, 6), st.booleans())
@settings(deadline=None, max_examples=30)
def test_retrieval_is_that_of_the_true_groups(how, seed, times, texts_repeat):
    X, Y, groups = photos(30, times, seed, how)
    if texts_repeat:
        X, Y = Y, X
    found, wanted = retrieval(X, Y), retrieval(X, Y, groups=groups)
    assert np.array_equal(found.ranks_x, wanted.ranks_x)
    assert np.array_equal(found.ranks_y, wanted.ranks_y)
    what = "text" if texts_repeat else "image"
    assert found.duplicates.startswith(f"30 {what} rows occur {times} times each.")
    assert wanted.duplicates == ""


@given(HOW, st.integers(0, 2**32))
@settings(deadline=None, max_examples=6)
def test_verdict_and_metrics_are_those_of_the_true_groups(how, seed):
    X, Y, groups = photos(430, 2, seed % 1_000, how)
    options = {"correctors": FEW, "seed": seed % 7}
    found, wanted = diagnose(X, Y, **options), diagnose(X, Y, groups=groups, **options)
    # Sampled measures of pairs say of how many; the verdict and its metrics are alike.
    for one in (found, wanted):
        object.__setattr__(one, "measurement", None)
    assert plain(found) == plain(wanted)
    assert found.sentence == wanted.sentence
    assert f"on {found.n_groups['confirm']} held-out groups" in found.sentence
    assert found.notes[0] == (
        "430 image rows occur 2 times each. With copies in one group, 860 pairs form 430 groups, "
        "the largest with 2 image and 2 text rows."
    )


@given(HOW, st.integers(0, 2**32), st.booleans())
@settings(deadline=None, max_examples=30)
def test_no_copies_are_in_two_splits(how, seed, by_group):
    X, Y, _ = photos(40, 3, seed, how)
    Y[np.random.default_rng(seed).integers(0, 120, 8)] = Y[0]  # and one caption of many photos
    labels = np.arange(120)[::-1]
    data = Modalities.of(X, Y, groups=(labels, labels) if by_group else None)
    splits = split(data.with_duplicates_grouped(), seed=0)
    held = [splits.fit, splits.choose, splits.confirm]
    for place in (0, 1):
        rows = [list(one.sides.values())[place].rows() for one in held]
        rows = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in rows]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert np.max(rows[i] @ rows[j].T) < 1 - 5e-6


def test_an_evaluation_is_that_of_the_true_groups():
    X, Y, groups = photos()
    correction = Center().fit(X, Y).correction_
    found = evaluate_correction(X, Y, correction)
    wanted = evaluate_correction(X, Y, correction, groups=groups)
    apart = evaluate_correction(X, Y, correction, group_duplicates=False)
    assert plain(found) == plain(wanted)
    assert found.duplicates.startswith("100 image rows occur 5 times each.")
    assert (found.n_groups, apart.n_groups, apart.duplicates) == (100, 500, None)
    assert (found.counted, apart.counted) == ("groups", "pairs")


def test_measures_stay_and_say_what_stands_several_times():
    X, Y, _ = photos(40)
    found = measure(X, Y)
    assert found.pairs.n_pairs == 200
    assert "40 image rows occur 5 times each." in found.sampling()


def test_it_can_be_refused():
    X, Y, _ = photos()
    found = diagnose(X, Y, correctors=FEW, group_duplicates=False)
    assert (found.held_out, found.duplicates) == ("125 held-out pairs", None)
    assert retrieval(X, Y, 1, group_duplicates=False).recall()["image_retrieval_recall@1"] <= 0.2


def test_a_fix_is_that_of_the_true_groups(tmp_path):
    X, Y, groups = photos(120, 4)
    found = fix(X, Y, tmp_path / "found")
    wanted = fix(X, Y, tmp_path / "wanted", groups=groups)
    one, other = found.diagnoses["text"], wanted.diagnoses["text"]
    assert one.sentence == other.sentence
    assert one.n_groups == other.n_groups
    for name in ("image", "text"):
        file = f"documents-{name}.parquet"
        assert (tmp_path / "found" / file).read_bytes() == (tmp_path / "wanted" / file).read_bytes()


def test_few_class_names_are_too_few_groups_for_a_verdict():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 1_000)
    names = rng.normal(size=(10, 16))
    X, Y = names[labels] + 0.3 * rng.normal(size=(1_000, 16)) + 2, names[labels] - 2
    found = diagnose(X, Y, correctors=FEW)
    assert found.verdict == "not enough pairs"
    assert "1,000 pairs form 10 groups" in found.duplicates


def test_on_the_command_line_it_is_said_and_can_be_refused(tmp_path):
    X, Y, _ = photos(20)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    paths = [str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    said = "20 image rows occur 5 times each. With copies in one group, 100 pairs form 20 groups"
    for command in ("evaluate", "measure"):
        done = modgap(command, *paths)
        assert said in " ".join(done.out.split()), command
    refused = modgap("evaluate", *paths, "--no-group-duplicates", "--json")
    assert refused.json["n_groups"] == 100
