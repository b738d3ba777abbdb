"""Parquet files and Hugging Face datasets on disk as items."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from item_files import IMAGES, write_images
from modgap.core.checks import InputError, InputValueError
from modgap.io import open_items
from modgap.io.images import ImageError

BYTES = list(IMAGES.values())


def save_arrow(folder, table, split=None, shards=1):
    """What save_to_disk writes, through PyArrow alone."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{i:05d}-of-{shards:05d}.arrow" for i in range(shards)]
    size = -(-table.num_rows // shards)
    for place, name in enumerate(names):
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table.slice(place * size, size), max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_split": split}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def noted(table, **features):
    """The note that Hugging Face's datasets leave in the schema."""
    note = json.dumps({"info": {"features": features}}).encode()
    return table.replace_schema_metadata({b"huggingface": note})


def table(**columns):
    return pa.table({"image": [{"bytes": b, "path": None} for b in BYTES], **columns})


def test_what_save_to_disk_writes_is_read(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["bee", "ant", "cat"]),
            "caption": datasets.Value("string"),
            "width": datasets.Value("int32"),
        }
    )
    columns = {
        "image": [{"bytes": b, "path": f"{i}.png"} for i, b in enumerate(BYTES)],
        "label": [0, 1, -1],
        "caption": ["A bee .", None, "A cat ."],
        "width": [3, None, 5],
    }
    data = datasets.Dataset.from_dict(columns, features=features)
    data.save_to_disk(tmp_path / "one", num_shards=2)
    datasets.DatasetDict({"train": data, "test": data.select([0])}).save_to_disk(tmp_path / "two")
    one = open_items(tmp_path / "one")
    assert [one.stored(row) for row in range(3)] == BYTES
    assert [one.captions(row) for row in range(3)] == [("A bee .",), (), ("A cat .",)]
    assert one.labels == ("bee", "ant", "")
    assert one.fields == {"width": (3, None, 5)}
    assert one.names[-1] == "data-00001-of-00002.arrow/0"
    two = open_items(tmp_path / "two")
    assert two.splits() == {"train": 3, "test": 1}
    assert len(set(two.names)) == 4
    assert open_items(tmp_path / "two", split="test").stored(0) == BYTES[0]


def test_arrow_alone_is_enough(tmp_path):
    folder = save_arrow(tmp_path, table(text=["a", "b", "c"]), shards=2)
    data = open_items(folder)
    assert [(data.stored(i), data.captions(i)) for i in range(3)] == [
        (b, (text,)) for b, text in zip(BYTES, "abc", strict=True)
    ]


def test_sounds_are_told_by_their_feature(tmp_path):
    sounds = pa.table({"clip": [{"bytes": b"RIFF", "path": "1.wav"}], "label": [1]})
    features = {"clip": {"_type": "Audio"}, "label": {"_type": "ClassLabel", "names": ["a", "b"]}}
    save_arrow(tmp_path / "saved", noted(sounds, **features))
    pq.write_table(noted(sounds, **features), tmp_path / "s.parquet")
    for path in (tmp_path / "saved", tmp_path / "s.parquet"):
        data = open_items(path)
        assert (data.kind, data.labels, data.stored(0)) == ("audio", ("b",), b"RIFF")


def test_classes_that_are_no_label_are_fields_by_name(tmp_path):
    kinds = {"_type": "ClassLabel", "names": ["no", "yes"]}
    path = tmp_path / "f.parquet"
    pq.write_table(noted(table(old=[0, 1, 1], big=[1, 0, 0]), old=kinds, big=kinds), path)
    data = open_items(path)
    assert data.labels is None
    assert data.fields == {"old": ("no", "yes", "yes"), "big": ("yes", "no", "no")}


def test_rows_without_names_stay_apart_and_rows_of_a_name_become_one(tmp_path):
    path = tmp_path / "f.parquet"
    same = [{"bytes": b"same", "path": None}] * 3
    pq.write_table(pa.table({"image": same, "caption": ["a", "b", "c"]}), path)
    assert open_items(path).names == tuple(f"f.parquet/{row}" for row in range(3))
    columns = {"image": same, "caption": ["a", "b", "c"], "name": ["x", None, "x"]}
    pq.write_table(pa.table(columns), path)
    data = open_items(path)
    assert data.names == ("x", "f.parquet/1")
    assert data.captions(0) == ("a", "c")


def test_parquet_may_name_files_or_hold_texts_alone(tmp_path):
    write_images(tmp_path)
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"image_path": [*IMAGES, "../x.jpg", None]}), path)
    data = open_items(path)
    assert data.names == (*IMAGES, "../x.jpg", "f.parquet/4")
    assert data.stored(0) == BYTES[0]
    for row, message in {3: "must name images inside", 4: "neither"}.items():
        with pytest.raises(ImageError, match=message):
            data.stored(row)
    pq.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), path)
    assert (open_items(path).kind, open_items(path).captions(1)) == ("text", ("b",))


def test_nulls_and_too_large_files_are_not_fatal(tmp_path, monkeypatch):
    path = tmp_path / "f.parquet"
    images = [None, {"bytes": None, "path": None}, {"bytes": b"123456789", "path": None}]
    pq.write_table(pa.table({"image": pa.array(images)}), path)
    monkeypatch.setattr("modgap.io.images.MAX_BYTES", 8)
    data = open_items(path)
    for row, message in enumerate(("neither", "neither", "has 9 bytes, more than")):
        with pytest.raises(ImageError, match=message):
            data.stored(row)


def test_a_damaged_part_of_a_file_costs_only_its_items(tmp_path):
    path = tmp_path / "f.parquet"
    images = {"image": [b"one" * 50, b"two" * 50]}
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table(images), path, row_group_size=1, **plain)
    metadata = pq.read_metadata(path)
    place = metadata.row_group(1).column(0).data_page_offset
    stored = bytearray(path.read_bytes())
    stored[place : place + 8] = b"\xff" * 8
    path.write_bytes(stored)
    data = open_items(path)
    assert data.stored(0) == b"one" * 50
    with pytest.raises(ImageError, match="cannot be read"):
        data.stored(1)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (pa.table([["a"], ["b"]], names=["text", "text"]), "must name every column once"),
        (pa.table({"image": [1, 2]}), r"'image' of .* must hold bytes"),
        (table().slice(0, 0), "must hold images, sounds or texts, but it has none"),
        (
            pa.table({"image": [b"x"] * 3, "caption": ["x" * 2_000_000] * 3}),
            "A caption has 2,000,000 characters",
        ),
        (
            pa.table({"image": [b"x"] * 20, "caption": ["x" * 900_000] * 20}),
            "made to fill the memory",
        ),
    ],
    ids=["names", "numbers", "nothing", "a long caption", "long captions"],
)
def test_tables_that_hold_no_items_or_too_much_are_refused(made, said, tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.core.limits.UNPACKED_BYTES", 10_000_000)
    pq.write_table(made, tmp_path / "f.parquet", compression="zstd")
    with pytest.raises(InputError, match=said):
        open_items(tmp_path / "f.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", b"{}", "must list the Arrow files"),
        ("state.json", b"{", "JSON"),
        ("state.json", b"[]", "must list the Arrow files"),
        ("state.json", b'{"_data_files": [{"filename": "../x"}]}', "must name what lies beside"),
        ("state.json", b'{"_data_files": [{"filename": "no.arrow"}]}', "which is not there"),
        ("data-00000-of-00001.arrow", b"nothing", "Arrow stream"),
        ("dataset_dict.json", b'{"splits": []}', "must list the splits"),
        ("dataset_dict.json", b'{"splits": ["test"]}', "'test', which is not there"),
    ],
)
def test_a_damaged_dataset_says_which_file(name, content, message, tmp_path):
    folder = save_arrow(tmp_path / "saved", table())
    (folder / name).write_bytes(content)
    with pytest.raises(InputValueError, match=message):
        open_items(folder)


def test_offsets_that_point_outside_are_refused(tmp_path):
    folder = save_arrow(tmp_path / "saved", pa.table({"text": ["ab", "cd"]}))
    path = folder / "data-00000-of-00001.arrow"
    stored = path.read_bytes()
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 2, 4))
    assert stored.count(offsets) == 1
    path.write_bytes(stored.replace(offsets, offsets[:8] + (1 << 30).to_bytes(4, "little")))
    with pytest.raises(InputValueError, match="Arrow stream"):
        open_items(folder)


def test_shards_cannot_be_links_that_lead_out(tmp_path):
    folder = save_arrow(tmp_path / "saved", table())
    shard = folder / "data-00000-of-00001.arrow"
    shutil.move(shard, tmp_path / "elsewhere.arrow")
    shard.symlink_to(tmp_path / "elsewhere.arrow")
    with pytest.raises(InputValueError, match="leads out"):
        open_items(folder)


def test_a_pipe_among_arrow_files_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.arrow")
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    with pytest.raises(InputError, match="must be an Arrow file, but it is none"):
        open_items(tmp_path)
