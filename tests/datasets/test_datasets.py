import hashlib

import numpy as np
import pytest

from modgap.datasets import digits, load_digits


@pytest.fixture(scope="module")
def held_out():
    return load_digits()


def recall_at_1(queries, candidates):
    scores = queries @ candidates.T
    return (scores.argmax(1) == np.arange(len(queries))).mean()


@pytest.mark.parametrize(("split", "n_scans"), [("test", 1000), ("train", 797), ("all", 1797)])
def test_every_field_has_one_entry_per_scan_or_caption(split, n_scans):
    pairs = load_digits(split)
    n_captions = 5 * n_scans
    assert pairs.X.shape == (n_scans, 64)
    assert pairs.Y.shape == (n_captions, 64)
    assert pairs.X.dtype == pairs.Y.dtype == np.float32
    assert pairs.images.shape == (n_scans, 8, 8)
    assert len(pairs.labels) == len(pairs.groups[0]) == n_scans
    assert len(pairs.captions) == len(pairs.wording) == len(pairs.groups[1]) == n_captions


def test_train_and_test_share_no_scan_and_make_up_all():
    train, test, both = (load_digits(split).groups[0] for split in ("train", "test", "all"))
    assert not set(train) & set(test)
    assert sorted([*train, *test]) == list(both)


def test_splits_hold_the_digits_in_equal_shares():
    train, test = (load_digits(split).labels for split in ("train", "test"))
    shares = [np.bincount(labels) / len(labels) for labels in (train, test)]
    np.testing.assert_allclose(*shares, atol=0.002)


def test_rows_are_unit_unless_raw_ones_are_asked_for(held_out):
    raw = load_digits(unit=False)
    for unit_rows, raw_rows in ((held_out.X, raw.X), (held_out.Y, raw.Y)):
        norms = np.linalg.norm(raw_rows, axis=1)
        np.testing.assert_allclose(np.linalg.norm(unit_rows, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(unit_rows * norms[:, None], raw_rows, atol=1e-5)
        assert norms.std() > 0.03 * norms.mean()
        assert np.linalg.norm(raw_rows.mean(0)) > 0.5 * norms.mean()


def test_captions_are_those_of_their_group(held_out):
    scan_groups, caption_groups = held_out.groups
    images, labels = digits.load_scans()
    np.testing.assert_array_equal(held_out.images, images[scan_groups])
    for row in (0, 7, 4999):
        scan = caption_groups[row]
        captions = digits.describe(images[[scan]], labels[[scan]])[0]
        assert held_out.captions[row] == captions[held_out.wording[row]]


def test_captions_are_the_ones_that_were_embedded():
    pairs = load_digits("all")
    checksum = hashlib.sha256("\n".join(pairs.captions).encode()).hexdigest()
    assert checksum == pairs.recipe["captions_sha256"]


def test_every_caption_names_its_digit_and_every_wording_differs(held_out):
    per_scan = np.reshape(held_out.captions, (-1, 5))
    for label, captions in zip(held_out.labels, per_scan, strict=True):
        assert len(set(captions)) == 5
        assert all(f" {digits.DIGITS[label]}" in caption for caption in captions)


def test_captions_of_different_scans_mostly_differ(held_out):
    for captions in np.reshape(held_out.captions, (-1, 5)).T:
        assert len(set(captions)) > 0.85 * len(captions)


def test_measures_see_what_they_are_named_for():
    scan = np.zeros((8, 8))
    scan[np.arange(8), np.arange(8)[::-1]] = 16  # a thin stroke from lower left to upper right
    measured = {name: values[0] for name, values in digits.measure_scans(scan[None]).items()}
    assert measured["slant"] == 1
    assert measured["across"] == measured["down"] == measured["taper"] == 0
    assert measured["weight"] == 1 / 8
    assert measured["edge"] == 1
    assert measured["width"] == measured["height"] == pytest.approx(np.sqrt(5.25), abs=1e-6)
    assert measured["sides"] == measured["halves"] == 0
    assert measured["core"] == 2 / 8


def test_held_out_rows_have_a_gap_and_are_linearly_separable(held_out):
    from sklearn.linear_model import LogisticRegression

    X, Y = held_out.X, held_out.Y[held_out.wording == 0]
    assert np.linalg.norm(X.mean(0) - Y.mean(0)) > 0.5
    side = np.repeat([0, 1], 500)
    classifier = LogisticRegression().fit(np.concatenate([X[:500], Y[:500]]), side)
    assert classifier.score(np.concatenate([X[500:], Y[500:]]), side) > 0.99


@pytest.mark.parametrize("wording", range(5))
def test_held_out_retrieval_is_far_above_chance(held_out, wording):
    X, Y = held_out.X, held_out.Y[held_out.wording == wording]
    assert recall_at_1(X, Y) > 0.3  # chance is 0.001
    assert recall_at_1(Y, X) > 0.3


def test_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split must be one of 'test', 'train', 'all', got 'dev'"):
        load_digits("dev")
