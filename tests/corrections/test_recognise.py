"""Does a batch belong to the modality it is said to be of? Mix-ups are noticed, others pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import PUBLISHED, Captioned, load_published, load_published_tensors, unit
from modgap import Correction, load_digits
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    ExpectedWrong,
    RecognitionWarning,
    check_recognised,
    recognise,
)
from modgap.corrections.recognition import MAX_SAMPLE, MIN_ROWS
from modgap.io import Embeddings

DIM = 32


def make(n: int, offset: float, seed: int) -> np.ndarray:
    """Rows about one mean, of lengths that vary."""
    rng = np.random.default_rng(seed)
    mean = np.zeros(DIM)
    mean[:2] = 1, offset
    rows = mean + 0.2 * rng.normal(size=(n, DIM))
    return rows * rng.uniform(0.5, 2, size=(n, 1))


IMAGE, TEXT = 1.0, -1.0


@pytest.fixture(scope="module")
def correction() -> Correction:
    return Calibrate().fit(make(400, IMAGE, 0), make(300, TEXT, 1)).correction_


def test_rows_like_those_of_the_fit_are_recognised(correction: Correction) -> None:
    for name, offset in (("image", IMAGE), ("text", TEXT)):
        found = recognise(correction, make(50, offset, 2), name)
        assert (found.finding, found.refused, found.nearest) == ("fits", False, name)
        assert found.towards == pytest.approx(0, abs=0.1)
        assert found.foreign == pytest.approx(0, abs=0.1)


def test_rows_of_the_other_modality_are_refused_with_figures(correction: Correction) -> None:
    rows = make(50, TEXT, 2)
    found = recognise(correction, rows, "image")
    assert (found.finding, found.refused, found.nearest) == ("another modality", True, "text")
    assert found.towards == pytest.approx(1, abs=0.1)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for name, fit in correction.fitted.items():
        expected = np.linalg.norm(unit.mean(axis=0) - fit.mean)
        assert found.distances[name] == pytest.approx(expected)
    said = f"{found.distances['image']:.3f} from that of image"
    with pytest.raises(InputValueError, match=rf"are text rows.*{said}.*give them as text.*trust"):
        check_recognised(correction, rows, "image")
    with pytest.warns(RecognitionWarning, match="are text rows"):
        check_recognised(correction, rows, "image", trust_rows=True)


def test_rows_of_another_model_are_refused(correction: Correction) -> None:
    rows = make(50, IMAGE, 2)[:, ::-1]
    found = recognise(correction, rows, "image")
    assert (found.finding, found.refused) == ("another model", True)
    assert found.foreign == pytest.approx(1, abs=0.2)
    with pytest.raises(InputValueError, match="are of another model than the correction"):
        check_recognised(correction, rows, "image")


def test_rows_far_from_the_fit_are_warned_of_and_pass(correction: Correction) -> None:
    rows = make(50, IMAGE, 2)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:, 2] += 2
    found = recognise(correction, rows, "image")
    assert (found.finding, found.refused) == ("far", False)
    with pytest.warns(RecognitionWarning, match="far from those the correction was fitted on"):
        check_recognised(correction, rows, "image")


def test_the_lengths_of_rows_do_not_matter_where_they_are_brought_to_unit_length(
    correction: Correction,
) -> None:
    rows = make(50, IMAGE, 2)
    lengths = np.geomspace(1e-150, 1e150, 50)[:, None]
    found, expected = (recognise(correction, one, "image") for one in (rows * lengths, rows))
    assert found.towards == pytest.approx(expected.towards)
    assert found.foreign == pytest.approx(expected.foreign)


def test_rows_as_given_of_another_length_are_warned_of() -> None:
    given = Calibrate().fit(make(400, IMAGE, 0), make(300, TEXT, 1), rows="given").correction_
    assert recognise(given, make(50, IMAGE, 2), "image").finding == "fits"
    assert recognise(given, make(50, TEXT, 2), "image").finding == "another modality"
    long = recognise(given, 9 * make(50, IMAGE, 2), "image")
    assert (long.finding, long.refused) == ("far", False)
    assert long.length_ratio == pytest.approx(9, rel=0.3)
    assert "times as long" in long.sentence
    assert recognise(given, 9 * make(50, IMAGE, 2)[:, ::-1], "image").finding == "another model"


@pytest.mark.parametrize("n", [1, MIN_ROWS - 1])
def test_few_rows_are_never_judged(correction: Correction, n: int) -> None:
    found = recognise(correction, make(n, TEXT, 2), "image")
    assert (found.finding, found.refused, found.n_rows) == ("not judged", False, n)
    assert "too few" in found.sentence
    check_recognised(correction, make(n, TEXT, 2), "image")


def test_a_correction_that_knows_no_rows_judges_none(correction: Correction) -> None:
    unknown = Correction.identity(DIM)
    assert recognise(unknown, make(50, TEXT, 2), "image").finding == "not judged"
    few = Calibrate().fit(make(10, IMAGE, 0), make(300, TEXT, 1)).correction_
    assert recognise(few, make(50, TEXT, 2), "image").finding == "not judged"


def test_rows_that_cannot_be_used_are_left_to_others(correction: Correction) -> None:
    rows = make(50, IMAGE, 2)
    rows[0], rows[1, 3], rows[2, 4] = 0, np.nan, np.inf
    found = recognise(correction, rows, "image")
    assert (found.finding, found.n_rows) == ("fits", 47)


def test_unknown_modalities_and_other_widths_are_refused(correction: Correction) -> None:
    with pytest.raises(InputValueError, match="modality must be one of 'image', 'text'"):
        recognise(correction, make(50, IMAGE, 2), "audio")
    with pytest.raises(InputValueError, match="image must have 32 columns, got 30"):
        recognise(correction, make(50, IMAGE, 2)[:, 2:], "image")


def test_rows_of_a_file_are_looked_at_all_over(correction: Correction) -> None:
    rows = np.concatenate([make(300, IMAGE, 2), make(9_700, TEXT, 3)])
    found = recognise(correction, Embeddings.from_array(rows), "image")
    assert (found.finding, found.n_rows) == ("another modality", MAX_SAMPLE)
    assert recognise(correction, rows[:300], "image").finding == "fits"


def test_modalities_without_a_gap_cannot_be_told_apart() -> None:
    rows = make(400, IMAGE, 0)
    one = Calibrate().fit(rows, rows[::-1]).correction_
    assert recognise(one, make(50, IMAGE, 2), "image").finding == "fits"


def test_features_that_never_vary_are_left_out() -> None:
    def padded(n: int, offset: float, seed: int) -> np.ndarray:
        return np.concatenate([make(n, offset, seed), np.zeros((n, 5))], axis=1)

    fitted = Calibrate().fit(padded(400, IMAGE, 0), padded(300, TEXT, 1)).correction_
    assert recognise(fitted, padded(50, IMAGE, 2), "image").finding == "fits"
    assert recognise(fitted, padded(50, TEXT, 2), "image").finding == "another modality"


def test_any_number_of_modalities_can_be_told_apart() -> None:
    offsets = {"image": 1.0, "text": -1.0, "audio": 0.0}
    rows = {name: make(300, offset, i) for i, (name, offset) in enumerate(offsets.items())}
    fitted = Calibrate().fit(rows).correction_
    for said in offsets:
        for true, offset in offsets.items():
            found = recognise(fitted, make(60, offset, 9), said)
            assert found.refused == (said != true)
            assert found.nearest == true


def test_a_saved_correction_recognises_the_same(correction: Correction, tmp_path: Path) -> None:
    correction.save(tmp_path / "c.safetensors")
    rows = make(50, TEXT, 2)
    again = recognise(Correction.load(tmp_path / "c.safetensors"), rows, "image")
    assert again.sentence == recognise(correction, rows, "image").sentence


def batches(rng: np.random.Generator, rows: np.ndarray) -> list[np.ndarray]:
    """A batch at random, and one of a topic: the rows nearest to one of them."""
    directions = unit(rows)
    near = np.argsort(-(directions @ directions[rng.integers(len(rows))]))
    return [rows[rng.choice(len(rows), MIN_ROWS, replace=False)], rows[near[:MIN_ROWS]]]


def check_mixups(
    sides: tuple[np.ndarray, np.ndarray],
    wrong: tuple[np.ndarray, ...] = (),
    same: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Honest batches of the other half pass; swapped ones and those of other models do not."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        halves = [np.array_split(rng.permutation(rows), 2) for rows in sides]
        fitted = Calibrate().fit(halves[0][0], halves[1][0]).correction_
        for place, name in enumerate(("image", "text")):
            for rows in batches(rng, halves[place][1]):
                assert recognise(fitted, rows, name).finding == "fits"
            for rows in batches(rng, halves[1 - place][1]):
                assert recognise(fitted, rows, name).finding == "another modality"
            for other in wrong:
                for rows in batches(rng, other):
                    found = recognise(fitted, rows, name)
                    assert (found.finding, found.refused) == ("another model", True)
            if same is not None:
                for rows in batches(rng, same[place]):
                    assert not recognise(fitted, rows, name).refused


def test_mixups_of_the_digits_are_noticed() -> None:
    digits = load_digits()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    check_mixups((digits.X, digits.Y), (digits.X @ turn,))


def test_rows_of_a_model_with_a_small_gap_are_never_refused(flickr8k: Captioned) -> None:
    rng = np.random.default_rng(0)
    half = Calibrate().fit(flickr8k.X[:500], flickr8k.Y[:2500]).correction_
    for name, rows in (("image", flickr8k.X[500:]), ("text", flickr8k.Y[2500:])):
        for _ in range(20):
            assert not any(recognise(half, rows, name).refused for rows in batches(rng, rows))
    # A whole file says more than a batch, but not enough to refuse it.
    swapped = recognise(half, flickr8k.X[500:], "text")
    assert (swapped.finding, swapped.refused) == ("another modality", False)


Sides = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="session")
def published_sides() -> Callable[[str], Sides]:
    """The rows of a published set, by its file."""

    def load(name: str) -> Sides:
        if name.endswith(".npy"):
            return load_published(name)
        path = PUBLISHED.parent / "published" / name
        if not path.exists():
            pytest.skip(f"the published embeddings are not at {path.parent}")
        held = load_file(path)
        first = held["audio" if "audio" in held else "image"]
        return first, held["class_text" if "class_text" in held else "text"]

    return load


CLIP, UNSPLASH = "features_clip.npy", "unsplash-clip-b32.safetensors"
IMAGENET, ESC50 = "imagenet-clip-b32.safetensors", "esc50-clap.safetensors"


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "others", "same"),
    [
        (CLIP, (UNSPLASH, IMAGENET, ESC50, "features_clip_random.npy"), None),
        ("features_videoclip.npy", ("features_videoclip_random.npy",), None),
        (UNSPLASH, (CLIP, ESC50), IMAGENET),
        (IMAGENET, (CLIP, ESC50), UNSPLASH),
        (ESC50, (CLIP, UNSPLASH, IMAGENET), None),
    ],
)
def test_mixups_of_published_rows_are_noticed(
    published_sides: Callable[[str], Sides], name: str, others: tuple[str, ...], same: str | None
) -> None:
    wrong = tuple(rows for other in others for rows in published_sides(other))
    check_mixups(published_sides(name), wrong, published_sides(same) if same else None)


@pytest.mark.published
@pytest.mark.parametrize("name", [IMAGENET, ESC50])
def test_batches_of_single_classes_raise_no_alarm(
    published_sides: Callable[[str], Sides], name: str
) -> None:
    rows, texts = published_sides(name)
    labels = load_file(PUBLISHED.parent / "published" / name)["labels"]
    order = np.argsort(labels, kind="stable")  # ImageNet's classes are in the order of WordNet
    fitted = Calibrate().fit(rows[::2], texts).correction_
    for start in range(0, len(rows) - 39, 40):
        assert recognise(fitted, rows[order[start : start + 40]], "image").finding == "fits"


def test_documents_of_another_kind_are_noticed_by_a_fixed_correction_alone():
    photos, classes = (
        load_published_tensors(f"{name}-clip-b32") for name in ("unsplash", "imagenet")
    )
    X, Y = photos["image"], photos["text"]
    fixed = Calibrate().fit(X[:250], Y[:250]).correction_
    assert recognise(fixed, X[250:], "image").finding == "fits"
    assert recognise(fixed, Y[250:], "text").finding == "fits"
    found = recognise(fixed, classes["image"], "image")
    assert found.finding == "far"
    assert not found.refused
    assert "documents unlike those the correction was fitted on" in found.sentence
    assert "standard deviations too low" in found.sentence
    # Few rows may be of one topic, queries are of any kind, and merging knows any document.
    assert recognise(fixed, classes["image"][:99], "image").finding == "fits"
    assert recognise(fixed, classes["class_text"], "text", "query").finding == "fits"
    merged = ExpectedWrong().fit(X[:250], Y[:250]).correction_
    assert recognise(merged, classes["image"], "image").finding == "fits"
