"""Any number of modalities by name, which of their rows match, and queries of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import open_modalities, open_queries

N, M, D = 12, 20, 4
RNG = np.random.default_rng(0)
ROWS = {
    name: RNG.normal(size=(n, D)).astype(np.float32)
    for name, n in (("image", N), ("text", M), ("audio", N))
}
GROUPS = {"image": np.arange(N), "text": np.arange(M) % N, "audio": np.arange(N)[::-1]}


@pytest.fixture
def files(tmp_path):
    """Three files, and a file of labels beside each."""
    for name, rows in ROWS.items():
        np.save(tmp_path / f"{name}.npy", rows)
        np.save(tmp_path / f"{name}-groups.npy", GROUPS[name])
    return {name: tmp_path / f"{name}.npy" for name in ROWS}


def assert_matches(data):
    """Which rows match is what the labels say, for every two modalities."""
    assert data.paired
    assert data.names == tuple(ROWS)
    for a, codes in zip(data.names, data.groups, strict=True):
        for b, others in zip(data.names, data.groups, strict=True):
            expected = np.equal.outer(GROUPS[a], GROUPS[b])
            np.testing.assert_array_equal(np.equal.outer(codes, others), expected)


def test_labels_come_by_name_in_order_or_with_commas(files):
    labels = {name: path.with_name(f"{name}-groups.npy") for name, path in files.items()}
    for groups in (labels, list(labels.values()), ",".join(map(str, labels.values())), GROUPS):
        assert_matches(open_modalities(files, groups=groups))


def test_one_column_or_one_file_serves_all(tmp_path):
    paths = {}
    for name, rows in ROWS.items():
        paths[name] = tmp_path / f"{name}.parquet"
        frame = {"id": range(len(rows)), "v": list(rows), "product": GROUPS[name], "other": 1.0}
        pd.DataFrame(frame).to_parquet(paths[name])
    assert_matches(open_modalities(paths, groups="product"))
    np.savetxt(tmp_path / "labels.txt", np.arange(N) // 2, fmt="%d")
    even = {name: path for name, path in paths.items() if name != "text"}
    data = open_modalities(even, groups=tmp_path / "labels.txt")
    assert data.n_groups == N // 2


def test_recognised_group_columns_are_used_where_all_have_them(tmp_path):
    for name, rows in ROWS.items():
        np.savez(tmp_path / f"{name}.npz", embedding=rows, groups=GROUPS[name])
    paths = {name: tmp_path / f"{name}.npz" for name in ROWS}
    assert_matches(open_modalities(paths))
    np.savez(tmp_path / "audio.npz", embedding=ROWS["audio"])
    assert not open_modalities(paths).paired


def test_rows_of_one_id_are_pairs(tmp_path):
    for name, rows in ROWS.items():
        ids = [f"item {label}" for label in GROUPS[name]]
        pd.DataFrame({"id": ids, "v": list(rows)}).to_parquet(tmp_path / f"{name}.parquet")
    data = open_modalities({name: tmp_path / f"{name}.parquet" for name in ROWS})
    assert data.pairing.startswith("by id: 12 of 12 image rows and 20 of 20 text rows and 12 of 12")
    assert_matches(data)


def test_one_file_may_hold_several_modalities(tmp_path):
    np.savez(
        tmp_path / "all.npz",
        image_features=ROWS["image"],
        txt=ROWS["text"],
        sound=ROWS["audio"],
        text_groups=GROUPS["text"],
        image_groups=GROUPS["image"],
        audio_groups=GROUPS["audio"],
    )
    paths = dict.fromkeys(ROWS, tmp_path / "all.npz")
    assert_matches(open_modalities(paths, columns={"audio": "sound"}))
    with pytest.raises(InputValueError, match=r"holds more than one matrix: .*Choose one"):
        open_modalities(paths)


@pytest.mark.parametrize(
    ("change", "options", "error", "text"),
    [
        ({"audio": "absent.npy"}, {}, InputValueError, "There is no file or folder '.*absent.npy'"),
        ({"audio": "wide.npy"}, {}, InputValueError,
         "image and audio must have the same number of columns, got 4 and 5"),
        ({"audio": "image.npy"}, {}, InputValueError,
         "image and audio are both 'embedding' of .*image.npy. Give each a file"),
        ({}, {"paired": True}, InputValueError, "rows of image and text must be pairs, got 12 and"),
        ({}, {"groups": {"image": GROUPS["image"]}}, InputValueError,
         "the same modalities as the rows, image, text, audio, got image"),
        ({}, {"groups": [GROUPS["image"]] * 2}, InputValueError,
         "one for all modalities, or one for each of image, text, audio"),
        ({}, {"groups": [GROUPS["image"]] * 3}, InputValueError,
         r"one label per row of .*text.npy: 20 rows, got shape \(12,\)"),
        ({}, {"groups": 7}, InputTypeError, "or one for each side, got int"),
        ({}, {"columns": {"video": "v"}}, InputValueError, "modality must be one of 'image', 'tex"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened(files, change, options, error, text):
    folder = files["image"].parent
    np.save(folder / "wide.npy", np.ones((N, D + 1), np.float32))
    paths = {**files, **{name: folder / file for name, file in change.items()}}
    with pytest.raises(error, match=text):
        open_modalities(paths, **options)


def test_queries_have_files_and_labels_of_their_own(files, tmp_path):
    data = open_modalities(files, groups=GROUPS)
    asked = RNG.normal(size=(3, D))
    np.savez(tmp_path / "q.npz", embedding=asked, groups=[5, 99, 5], wanted=[1, 1, 2])
    np.save(tmp_path / "labels.npy", np.array([4, 4, 4]))
    for given, labels in ((None, [5, 99, 5]), ("wanted", [1, 1, 2]), ("labels.npy", [4, 4, 4])):
        groups = given and {"text": tmp_path / given if given.endswith("npy") else given}
        found = open_queries(data, {"text": tmp_path / "q.npz"}, groups)
        np.testing.assert_array_equal(found.queries_of("text").rows(), asked)
        matching = np.equal.outer(found.query_groups("text"), data.groups[0])
        np.testing.assert_array_equal(matching, np.equal.outer(labels, GROUPS["image"]))
    assert not found.asks_apart("image")


@pytest.mark.parametrize(
    ("rows", "groups", "text"),
    [
        ("video", {}, "modality must be one of 'image', 'text', 'audio', got 'video'"),
        ("text", {"image": "wanted"}, "modality of queries must be one of 'text', got 'image'"),
        ("text", {"text": "nope"}, "groups must name a column of .*q.npz or a file, got 'nope'"),
        ("text", {"text": [1, 2]}, r"one label per row of .*q.npz: 3 rows, got shape \(2,\)"),
    ],
)
def test_queries_that_cannot_be_opened(files, tmp_path, rows, groups, text):
    np.savez(tmp_path / "q.npz", embedding=np.ones((3, D)), wanted=[1, 1, 2])
    with pytest.raises(InputValueError, match=text):
        open_queries(open_modalities(files, groups=GROUPS), {rows: tmp_path / "q.npz"}, groups)
