"""Do the pairs look like pairs? Shuffled rows are noticed, honest ones raise no alarm."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from command_line import make_files, modgap
from conftest import Captioned, load_published, make_pairs
from modgap import load_digits, measure, retrieval
from modgap.core.checks import InputValueError
from modgap.io import Embeddings, Modalities, PairingWarning
from modgap.measures import check_pairing, pairing_signal
from modgap.measures.pairing import MIN_PAIRS, signal_of_rows


def test_z_is_that_of_all_permutations() -> None:
    X, Y = make_pairs(n=6, d=3)
    U, V = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Y))
    sums = [
        sum(float(U[i] @ V[j]) for i, j in enumerate(order))
        for order in itertools.permutations(range(6))
    ]
    expected = (sums[0] - np.mean(sums)) / np.std(sums)
    assert signal_of_rows(X, Y).z == pytest.approx(expected)


def test_the_figures_are_those_of_the_rows() -> None:
    X, Y = np.eye(4)[[0, 1, 2, 3]], np.eye(4)[[0, 1, 3, 2]]
    found = signal_of_rows(X, Y)
    assert (found.cosine_matched, found.recall, found.chance) == (0.5, 0.5, 0.25)
    assert found.cosine_others == pytest.approx(2 / 12)


def test_the_first_of_equal_scores_are_all_found_and_chance_knows_it() -> None:
    X, Y = np.repeat(np.eye(3), 20, axis=0), np.repeat(np.eye(3) + 0.1, 20, axis=0)
    found = signal_of_rows(X, Y)
    assert (found.recall, found.chance) == (1, pytest.approx(1 / 3))
    assert found.looks_paired
    shuffled = signal_of_rows(X, np.random.default_rng(0).permutation(Y))
    assert shuffled.recall == pytest.approx(1 / 3, abs=0.2)
    assert not shuffled.looks_paired


def test_the_lengths_of_rows_and_the_order_of_the_sides_change_nothing() -> None:
    X, Y = make_pairs(n=80)
    found = signal_of_rows(X, Y)
    lengths = np.random.default_rng(1).uniform(0.1, 10, size=(80, 1))
    assert signal_of_rows(X * lengths, Y).z == pytest.approx(found.z)
    assert signal_of_rows(Y, X).z == pytest.approx(found.z)


def test_pairs_that_match_look_paired_and_shuffled_ones_do_not() -> None:
    X, Y = make_pairs(n=200)
    assert pairing_signal(Modalities.of(X, Y)).looks_paired is True
    shuffled = pairing_signal(Modalities.of(X, np.random.default_rng(0).permutation(Y)))
    assert shuffled.looks_paired is False
    assert "look unpaired: on 200 pairs" in shuffled.sentence
    assert f"z = {shuffled.z:.1f}" in shuffled.sentence


def test_few_pairs_pairs_all_alike_and_no_pairs_are_not_judged() -> None:
    rng = np.random.default_rng(0)
    few = Modalities.of(*rng.normal(size=(2, MIN_PAIRS - 1, 4)))
    assert pairing_signal(few).looks_paired is None
    check_pairing(few)
    alike = Modalities.of(np.ones((90, 4)), np.ones((90, 4)))
    assert pairing_signal(alike).looks_paired is None
    assert pairing_signal(Modalities.of(*rng.normal(size=(2, 90, 4)), paired=False)) is None
    assert pairing_signal(Modalities.of(np.ones((1, 4)), np.ones((1, 4)))).looks_paired is None


def test_rows_without_direction_are_left_out() -> None:
    X, Y = make_pairs(n=60)
    X[3], Y[5, 0] = 0, np.nan
    found = pairing_signal(Modalities.of(X, Y))
    assert (found.n_pairs, found.looks_paired) == (58, True)


def test_a_sample_of_groups_is_looked_at() -> None:
    X, Y = make_pairs(n=300)
    order = np.random.default_rng(3).permutation(300)
    found = pairing_signal(Modalities.of(X, Y[order], groups=(np.arange(300), order)), at_most=90)
    assert (found.n_pairs, found.looks_paired) == (90, True)
    assert pairing_signal(Modalities.of(X, Y), at_most=90).n_pairs == 90


def test_tensors_are_judged_like_arrays() -> None:
    torch = pytest.importorskip("torch")
    X, Y = make_pairs(n=60)
    found = signal_of_rows(torch.from_numpy(X), torch.from_numpy(Y))
    assert found.z == pytest.approx(signal_of_rows(X, Y).z)


def test_a_check_refuses_with_figures_and_names_the_ways_on() -> None:
    X, Y = make_pairs(n=100)
    data = Modalities.of(X, Y[::-1])
    with pytest.raises(InputValueError, match=r"look unpaired.*recall@1.*--unpaired.*trust_pairs"):
        check_pairing(data)
    check_pairing(data, trust_pairs=True)
    check_pairing(Modalities.of(X, Y))
    once = Modalities.of(X, 3 * X)
    with pytest.raises(InputValueError, match=r"rows are the same: was one file given twice\?"):
        check_pairing(once)
    check_pairing(once, trust_pairs=True)


def test_shuffled_rows_are_noticed_all_but_once_in_a_thousand_times() -> None:
    rng = np.random.default_rng(0)
    digits = load_digits()
    Y = digits.Y[::5]
    believed = 0
    for _ in range(2_000):
        rows = rng.choice(len(Y), MIN_PAIRS, replace=False)
        believed += signal_of_rows(digits.X[rows], Y[rng.permutation(rows)]).looks_paired
    assert believed <= 2


def rotation(dim: int, seed: int) -> np.ndarray:
    """A random rotation: what another encoder of the same content might have learned."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    return Q * np.sign(np.diagonal(R))


def test_captions_of_another_encoder_are_noticed_though_they_say_the_same() -> None:
    digits = load_digits()
    X, Y = digits.X[:500], digits.Y[::5][:500]
    found = [signal_of_rows(X, Y @ rotation(64, seed)) for seed in range(20)]
    assert max(one.z for one in found) > 4  # z alone would believe some of them
    assert not any(one.looks_paired for one in found)


@pytest.mark.filterwarnings("always::modgap.io.PairingWarning")
def test_measure_warns_of_shuffled_rows_and_goes_on(tmp_path: Path) -> None:
    X, Y = make_files(tmp_path, 60)
    with pytest.warns(PairingWarning, match="look unpaired: on 60 pairs"):
        assert measure(X, Y[::-1]).pairs is not None
    np.save(tmp_path / "shuffled.npy", Y[::-1])
    ran = modgap("measure", tmp_path / "image.npy", tmp_path / "shuffled.npy", "--json")
    assert ran.status == 0
    assert ran.err.count("modgap: warning: The image and text rows look unpaired") == 1
    unpaired = ("measure", tmp_path / "image.npy", tmp_path / "shuffled.npy", "--unpaired")
    assert modgap(*unpaired).err == ""


def honest_and_shuffled(data: Modalities, n: int) -> None:
    """Random subsets of n pairs, as they are and shuffled."""
    rng = np.random.default_rng(n)
    pairs = data.pairs()
    for _ in range(50):
        rows = rng.choice(pairs.x.n_rows, n, replace=False)
        X, Y = pairs.x.take(rows), pairs.y.take(rows)
        assert signal_of_rows(X, Y).looks_paired is not False
        assert signal_of_rows(X, rng.permutation(Y)).looks_paired is not True


def test_subsets_of_the_digits_raise_no_alarm_and_shuffled_ones_do() -> None:
    digits = load_digits()
    honest_and_shuffled(Modalities.of(digits.X, digits.Y, groups=digits.groups), 100)


@pytest.mark.parametrize(("noise", "recall"), [(0.0, 0.15), (1.25, 0.04)])
def test_subsets_of_good_and_weak_rows_raise_no_alarm_and_shuffled_ones_do(
    flickr8k: Captioned, rng: np.random.Generator, noise: float, recall: float
) -> None:
    X, Y = (rows + noise / 16 * rng.normal(size=rows.shape) for rows in (flickr8k.X, flickr8k.Y))
    groups = flickr8k.gx, flickr8k.gy
    found = retrieval(X, Y, (1,), groups=groups).recall()["image_retrieval_recall@1"]
    assert found == pytest.approx(recall, abs=0.01)
    honest_and_shuffled(Modalities.of(X, Y, groups=groups), MIN_PAIRS)


@pytest.mark.published
@pytest.mark.parametrize("name", ["clip", "videoclip"])
def test_subsets_of_published_pairs_raise_no_alarm_and_shuffled_ones_do(name: str) -> None:
    X, Y = load_published(f"features_{name}.npy")
    honest_and_shuffled(Modalities.of(X, Y), MIN_PAIRS)
    data = Modalities.of(Embeddings.from_array(X), Embeddings.from_array(Y))
    assert pairing_signal(data).looks_paired


@pytest.mark.published
@pytest.mark.parametrize("name", ["clip", "videoclip"])
def test_published_texts_of_another_encoder_are_noticed(name: str) -> None:
    X, Y = load_published(f"features_{name}.npy")
    for seed in range(10):
        assert signal_of_rows(X, Y @ rotation(X.shape[1], seed)).looks_paired is False


@pytest.mark.published
@pytest.mark.parametrize("name", ["clip", "videoclip"])
def test_published_rows_of_random_weights_are_at_chance(name: str) -> None:
    X, Y = load_published(f"features_{name}_random.npy")
    assert pairing_signal(Modalities.of(X, Y)).looks_paired is False
    with pytest.raises(InputValueError, match="random weights"):
        check_pairing(Modalities.of(X, Y))
