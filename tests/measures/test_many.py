"""``measure`` on more than two modalities: each once, every two together, the gap matrix."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest

import modgap
from conftest import make_many
from modgap.arrays import half_product_pass
from modgap.io import Embeddings, Modalities
from modgap.measures import (
    check_pairing,
    gap_distance,
    gap_matrix,
    measure,
    pairing_signal,
    side_rows,
    wasserstein_uniformity,
)

NAMES = ("image", "text", "audio")


@pytest.fixture(scope="module")
def data() -> Modalities:
    return make_many()


@pytest.fixture(scope="module")
def found(data):
    return measure(data)


def test_every_two_tell_what_they_tell_alone(data, found):
    assert [one.names for one in found.between] == [
        ("image", "text"), ("image", "audio"), ("text", "audio")
    ]  # fmt: skip
    for one in found.between:
        alone = measure(data.pair(*one.names))
        for key, value in alone.both.to_dict().items():
            assert json.dumps(one.to_dict()[key]) == json.dumps(value), key
        assert [m for m in found.modalities if m.name in one.names] == list(alone.modalities)


def test_the_gap_matrix_has_the_distance_between_every_two_means(data, found):
    rows = {name: side.rows() for name, side in data.sides.items()}
    for matrix in (found.gap_matrix, gap_matrix(rows), gap_matrix(data)):
        for i, a in enumerate(NAMES):
            for j, b in enumerate(NAMES):
                expected = np.linalg.norm(rows[a].mean(0) - rows[b].mean(0))
                assert matrix[i, j] == pytest.approx(expected, abs=1e-12)
                assert matrix[i, j] == pytest.approx(gap_distance(rows[a], rows[b]), abs=1e-12)


def test_a_rotation_and_a_common_shift_leave_the_gap_matrix(data, rng):
    turn = np.linalg.qr(rng.normal(size=(data.dim, data.dim)))[0]
    moved = {name: side.rows() @ turn + 3 for name, side in data.sides.items()}
    np.testing.assert_allclose(gap_matrix(moved), gap_matrix(data), atol=1e-12)


def test_the_gap_matrix_is_the_same_of_tensors_and_of_files(data, tmp_path):
    torch = pytest.importorskip("torch")
    rows = {name: side.rows() for name, side in data.sides.items()}
    tensors = {name: torch.from_numpy(one) for name, one in rows.items()}
    for name, one in rows.items():
        np.save(tmp_path / f"{name}.npy", one)
    paths = {name: tmp_path / f"{name}.npy" for name in rows}
    opened = modgap.open_modalities(paths, paired=False)
    for given in (tensors, opened):
        np.testing.assert_allclose(gap_matrix(given), gap_matrix(data), atol=1e-12)


def test_no_modality_is_measured_twice(data, monkeypatch):
    seen = []

    def counted(U, consumers):
        seen.append(U.shape)
        return half_product_pass(U, consumers)

    monkeypatch.setattr(side_rows, "half_product_pass", counted)
    measure(data)
    assert len(seen) == len(NAMES)


def test_uniformity_is_that_of_all_rows_together(data, found):
    rows = [side.rows() for side in data.sides.values()]
    together = wasserstein_uniformity(np.concatenate(rows[:2]), rows[2])
    assert found.wasserstein_uniformity == pytest.approx(together)


def test_it_prints_a_column_for_each_modality_the_gap_matrix_and_every_two(found):
    first, second = str(found).split("\n\n")
    header, *lines = first.splitlines()
    assert header.split() == [*NAMES, "all"]
    for name, distances in zip(NAMES, found.gap_matrix, strict=True):
        line = next(one for one in lines if one.startswith(f"gap to {name} "))
        shown = [float(cell) for cell in line.removeprefix(f"gap to {name}").split()]
        assert shown == pytest.approx([d for d in distances if d], abs=1e-4)
    rows = second.splitlines()
    assert [row.partition("  ")[0] for row in rows[1:4]] == [
        "image and text", "image and audio", "text and audio"
    ]  # fmt: skip
    assert rows[-1].startswith("The gap distance and the measures of each modality use every row.")
    page = found._repr_html_()
    assert page.count("<table ") == 2
    assert "image – its audio" in page


def test_json_holds_each_modality_once(found):
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [one["name"] for one in written["modalities"]] == list(NAMES)
    assert np.shape(written["gap_matrix"]) == (3, 3)
    assert [one["names"] for one in written["between"]] == [list(b.names) for b in found.between]
    assert all("modalities" not in one for one in written["between"])


def test_two_modalities_keep_their_keys(pairs):
    result = measure(*pairs)
    written = result.to_dict()
    assert "between" not in written
    assert written["gap_distance"] == written["gap_matrix"][0][1] == result.gap_distance
    assert written["pairs"] == result.pairs.to_dict()
    assert {*written} >= {
        "names", "dim", "seed", "gap_orthogonality", "linear_separability", "n_tags",
        "top_features", "feature_divergence_max", "conformity_divergence",
        "wasserstein_uniformity", "modalities",
    }  # fmt: skip
    assert [*result.lines()[0].to_dict()] == ["term", "label", "x", "y", "both"]
    assert result.pair_table() is None


def test_what_only_two_have_is_refused_for_more(found):
    for name in ("gap_distance", "pairs", "n_tags", "gap_orthogonality"):
        with pytest.raises(ValueError, match=r"measured on 3 modalities: image, text, audio\. Tak"):
            getattr(found, name)
    assert found.pair("audio", "image").names == ("image", "audio")
    with pytest.raises(ValueError, match="modality must be one of"):
        found.pair("image", "video")


def test_rows_without_pairs_and_of_any_number(data):
    rows = {name: side.rows()[: 40 - 5 * i] for i, (name, side) in enumerate(data.sides.items())}
    result = measure(rows)
    assert [m.n for m in result.modalities] == [40, 35, 30]
    assert all(one.pairs is None for one in result.between)
    assert "pairs" not in str(result).partition("The measures")[0]


def test_two_that_share_no_group_have_no_pairs():
    X = np.random.default_rng(0).normal(size=(40, 6))
    ids = {"image": range(40), "text": range(20, 60), "audio": range(40, 80)}
    sides = {n: Embeddings.from_array(X + i, ids=list(ids[n])) for i, n in enumerate(ids)}
    result = measure(Modalities.of(sides))
    assert [one.pairs and one.pairs.n_pairs for one in result.between] == [20, None, 20]


def test_a_sample_is_seeded(data):
    one, same, other = (
        json.dumps(measure(data, sample=20, seed=seed).to_dict()) for seed in (1, 1, 2)
    )
    assert one == same != other
    assert "a sample of 20, 20 and 20 rows (seed 1)" in str(measure(data, sample=20, seed=1))


def test_queries_of_their_own_are_measured_beside_the_documents(pairs):
    X, Y = pairs
    data = Modalities.of(X, Y).with_queries({"text": Y[:20] + 1}, {"text": np.arange(20)})
    result = measure(data)
    (asked,) = result.asking
    assert (asked.name, asked.n) == ("text queries", 20)
    expected = [np.linalg.norm((Y[:20] + 1).mean(0) - rows.mean(0)) for rows in (X, Y)]
    assert result.asking_gaps[0] == pytest.approx(expected)
    assert result.table()[0] == ("", "image", "text", "text queries", "both")
    plain = measure(X, Y).to_dict()
    added = {"asking", "asking_gaps"}
    shared = {key: value for key, value in result.to_dict().items() if key not in added}
    assert shared == {key: value for key, value in plain.items() if key not in added}


def test_digits_fused_with_their_captions_lie_between(digits_fused):
    matrix = measure(digits_fused, sample=200).gap_matrix
    image, text, fused = range(3)
    assert matrix[image, fused] < matrix[image, text]
    assert matrix[text, fused] < matrix[image, text]


@pytest.mark.published
def test_clap_beside_clip_has_pairs_within_a_model_and_none_across(clap_beside_clip):
    with pytest.warns(modgap.io.PairingWarning, match="look unpaired") as said:
        result = measure(clap_beside_clip, sample=500)
    assert result.names == ("image", "caption", "sound", "label")
    assert result.gap_matrix.shape == (4, 4)
    own = result.pair("image", "caption"), result.pair("sound", "label")
    across = [one for one in result.between if one not in own]
    assert len(said) == len(across)
    for model in own:
        assert all(model.pairs.alignment < one.pairs.alignment for one in across)


@pytest.mark.published
def test_clap_joined_to_clip_has_pairs_across_both_models(clap_joined_to_clip):
    result = measure(clap_joined_to_clip, sample=500)
    assert all(one.pairs.n_pairs == 50 for one in result.between)
    assert pairing_signal(clap_joined_to_clip).looks_paired
    # The turn put the labels onto the captions, so these two are the nearest of all.
    nearest = min(result.between, key=lambda one: one.pairs.alignment)
    assert nearest.names == ("caption", "label")


def test_the_pairing_signal_is_that_of_the_two_that_look_least_like_pairs(data):
    signals = [pairing_signal(data.pair(*one)) for one in combinations(NAMES, 2)]
    weakest = min(signals, key=lambda one: one.excess)
    assert pairing_signal(data) == weakest
    assert weakest.looks_paired
    rows = {name: side.rows() for name, side in data.sides.items()}
    mixed_up = Modalities.of({**rows, "audio": rows["audio"][::-1].copy()})
    assert "audio" in pairing_signal(mixed_up).names
    with pytest.raises(ValueError, match="and audio rows look unpaired"):
        check_pairing(mixed_up)
    assert pairing_signal(Modalities.of(rows, paired=False)) is None
