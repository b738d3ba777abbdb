"""Every format of items says the same, and nothing outside the folder is read."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from item_files import IMAGES, write, write_images, write_json_lines, write_table
from modgap.core.checks import InputValueError
from modgap.io import open_items
from modgap.io.images import ImageError
from modgap.io.items.records import read_table

CAPTIONS = {
    "b.jpg": ("A bee, on a flower .", "An insect ."),
    "a.jpg": ("An ant .", "A small ant .", "Ant"),
    "c.png": ("A cat .",),
}
SPLITS = {"b.jpg": "train", "a.jpg": "train", "c.png": "test"}


def make_parquet(folder):
    path = folder / "data.parquet"
    table = {
        "name": list(IMAGES),
        "split": [SPLITS[name] for name in IMAGES],
        "image": list(IMAGES.values()),
        "captions": [list(CAPTIONS[name]) for name in IMAGES],
    }
    pq.write_table(pa.table(table), path, row_group_size=1)
    return path


def make_parquet_hf(folder):
    """As Hugging Face's datasets store images, with one caption per row."""
    rows = [(name, caption) for name in IMAGES for caption in CAPTIONS[name]]
    table = {
        "image": [{"bytes": IMAGES[name], "path": name} for name, _ in rows],
        "filename": [name for name, _ in rows],
        "split": [SPLITS[name] for name, _ in rows],
        "caption": [caption for _, caption in rows],
    }
    path = folder / "hf.parquet"
    pq.write_table(pa.table(table), path)
    return path


def make_csv(folder):
    """Rows of one image need not be neighbours."""
    rows = [
        (name, CAPTIONS[name][place], SPLITS[name])
        for place in range(3)
        for name in IMAGES
        if place < len(CAPTIONS[name])
    ]
    write_table(write_images(folder) / "captions.csv", [("image", "caption", "split"), *rows])
    return folder


def make_karpathy(folder):
    write_images(folder / "images")
    entries = [
        {"filename": name, "split": SPLITS[name], "sentences": [{"raw": c} for c in CAPTIONS[name]]}
        for name in IMAGES
    ]
    return write(folder / "dataset.json", json.dumps({"images": entries}).encode())


def make_coco(folder):
    """Two splits, in files of their own and with a folder of images each."""
    for split in ("train", "test"):
        names = [name for name in IMAGES if SPLITS[name] == split]
        for name in names:
            write(folder / split / name, IMAGES[name])
        annotations = [
            {"image_id": place, "caption": caption}
            for place, name in enumerate(names)
            for caption in CAPTIONS[name]
        ]
        entries = [{"id": place, "file_name": name} for place, name in enumerate(names)]
        stored = json.dumps({"images": entries, "annotations": annotations}).encode()
        write(folder / "annotations" / f"captions_{split}.json", stored)
    return folder


def add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def make_webdataset(folder):
    """Shards of two splits; one sample has its captions in JSON, the others in lines of text."""
    for split in ("train", "test"):
        (folder / split).mkdir()
        with tarfile.open(folder / split / "000.tar", "w") as tar:
            for name in IMAGES:
                if SPLITS[name] != split:
                    continue
                key = name.partition(".")[0]
                if name == "b.jpg":
                    add(tar, f"{key}.json", json.dumps({"captions": CAPTIONS[name]}).encode())
                else:
                    add(tar, f"{key}.txt", ("\n".join(CAPTIONS[name]) + "\n").encode())
                add(tar, name, IMAGES[name])
    return folder


MAKERS = [make_parquet, make_parquet_hf, make_csv, make_karpathy, make_coco, make_webdataset]


def contents(data):
    return [
        (Path(data.names[row]).name, data.captions(row), data.stored(row))
        for row in range(len(data))
    ]


EXPECTED = [(name, CAPTIONS[name], IMAGES[name]) for name in IMAGES]


@pytest.mark.parametrize("make", MAKERS)
def test_every_format_gives_the_same_rows(make, tmp_path):
    data = open_items(make(tmp_path))
    # Splits in folders or files of their own come in the order of their names.
    assert sorted(contents(data)) == sorted(EXPECTED)
    if make not in (make_coco, make_webdataset):
        assert contents(data) == EXPECTED
    assert (len(data), data.kind) == (3, "image")
    assert data.captioned_images().names == data.names
    assert (data.splits(), data.fields) == ({"train": 2, "test": 1}, {})


@pytest.mark.parametrize("make", MAKERS)
def test_a_split_holds_its_own_rows_in_order(make, tmp_path):
    path = make(tmp_path)
    assert contents(open_items(path, split="train")) == EXPECTED[:2]
    assert contents(open_items(path).split("test")) == EXPECTED[2:]
    assert contents(open_items(path, split="train").select([1, 0])) == EXPECTED[1::-1]
    with pytest.raises(InputValueError, match=r"no split 'tset'\. Did you mean 'test'\?"):
        open_items(path, split="tset")


def test_shards_of_hugging_face_say_their_split(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "validation"):
        table = pa.table({"image": [{"bytes": b"x", "path": None}], "text": [f"a {split}"]})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    data = open_items(tmp_path)
    assert data.splits() == {"train": 1, "validation": 1}
    assert data.captions(1) == ("a validation",)
    assert len(set(data.names)) == 2


def test_images_of_parquet_may_lie_beside_it(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"here")
    outside = tmp_path.parent / f"{tmp_path.name}-secret.jpg"
    outside.write_bytes(b"secret")
    images = [{"bytes": None, "path": p} for p in ("x.jpg", f"../{outside.name}", str(outside), "")]
    table = pa.table({"image": images, "caption": ["a"] * 4})
    pq.write_table(table, tmp_path / "t.parquet")
    data = open_items(tmp_path / "t.parquet")
    assert data.stored(0) == b"here"
    for row in (1, 2):
        with pytest.raises(ImageError, match="must name images inside"):
            data.stored(row)
    with pytest.raises(ImageError, match="neither a file nor a path"):
        data.stored(3)


def test_reading_row_groups_back_and_forth_gives_each_its_own_image(tmp_path):
    path = tmp_path / "t.parquet"
    stored = [bytes([i]) * 3 for i in range(20)]
    pq.write_table(pa.table({"image": stored, "caption": ["a"] * 20}), path, row_group_size=3)
    data = open_items(path)
    for row in [19, 0, 7, 1, 18, 7]:
        assert data.stored(row) == stored[row]


def test_a_table_may_use_tabs_a_byte_order_mark_and_other_names(tmp_path):
    write_images(tmp_path / "Images")
    table = "\ufefffilepath\ttitle\nb.jpg\tA bee, on a flower .\n\na.jpg\tAn ant .\n"
    (tmp_path / "captions.txt").write_text(table, encoding="utf-8")
    data = open_items(tmp_path)
    assert contents(data) == [
        ("b.jpg", ("A bee, on a flower .",), IMAGES["b.jpg"]),
        ("a.jpg", ("An ant .",), IMAGES["a.jpg"]),
    ]


def test_a_table_may_use_semicolons_and_must_be_utf8(tmp_path):
    table = tmp_path / "captions.csv"
    table.write_text("image;caption\n1.jpg;a dog, and a cat\n")
    assert read_table(table)[1] == [{"image": "1.jpg", "caption": "a dog, and a cat"}]
    table.write_bytes("image,caption\n1.jpg,café\n".encode("latin-1"))
    with pytest.raises(InputValueError, match="a table of UTF-8 text"):
        read_table(table)


def test_the_folder_of_images_can_be_given(tmp_path):
    write_images(tmp_path / "far" / "away")
    (tmp_path / "c.csv").write_text("image,caption\na.jpg,An ant .\n")
    data = open_items(tmp_path / "c.csv", images=tmp_path / "far" / "away")
    assert data.stored(0) == IMAGES["a.jpg"]
    with pytest.raises(InputValueError, match="images must be a folder"):
        open_items(tmp_path / "c.csv", images=tmp_path / "near")


def write_names(folder, names):
    """A table, JSON Lines and COCO's JSON that name files, each with a caption."""
    entries = [{"id": place, "file_name": name} for place, name in enumerate(names)]
    coco = json.dumps({"images": entries, "annotations": []}).encode()
    return {
        "csv": write_table(folder / "c.csv", [("image", "caption"), *((n, "x") for n in names)]),
        "jsonl": write_json_lines(folder / "c.jsonl", [{"image": n, "text": "x"} for n in names]),
        "json": write(folder / "c.json", coco),
    }


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@pytest.mark.parametrize("name", ["../secret.jpg", "x/../../secret.jpg", "/etc/hostname", "\x00"])
def test_names_that_lead_out_of_the_folder_are_refused(name, kind, tmp_path):
    write(tmp_path / "secret.jpg", b"secret")
    with pytest.raises(InputValueError, match=r"must name images inside"):
        open_items(write_names(tmp_path / "data", [name])[kind])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_what_a_name_leads_to_is_an_image_inside_or_an_error_of_that_image(kind, tmp_path):
    secret, folder = write(tmp_path / "secret.jpg", b"secret"), tmp_path / "data"
    write_images(folder / "inner")
    (folder / "within.jpg").symlink_to(folder / "inner" / "a.jpg")
    (folder / "out.jpg").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    (folder / "round").symlink_to(folder / "round")
    os.mkfifo(folder / "pipe.jpg")
    with (folder / "giant.jpg").open("wb") as file:
        file.truncate(2**30)
    said = {
        "out.jpg": "leads out",
        "up/secret.jpg": "leads out",
        "round": "leads out|cannot be read|no such file",
        "none.jpg": "no such file",
        "pipe.jpg": "no such file",
        "giant.jpg": "more than",
        "a" * 5000: "cannot be read",
    }
    data = open_items(write_names(folder, ["within.jpg", *said])[kind])
    assert data.stored(0) == IMAGES["a.jpg"]
    for row, why in enumerate(said.values(), 1):
        with pytest.raises(ImageError, match=why):
            data.stored(row)


@pytest.mark.parametrize("name", ["c.csv", "c.parquet", "c.tar", "captions_x.json"])
def test_a_table_that_is_a_link_out_of_the_folder_is_refused(name, tmp_path):
    (tmp_path / name).write_text("image,caption\na.jpg,An ant .\n")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(InputValueError, match="is a link that leads out"):
        open_items(folder)


def test_links_in_a_shard_are_passed_over(tmp_path):
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_bytes(b"secret")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            add(tar, f"link{kind!r}.txt", b"A secret .")
            link = tarfile.TarInfo(f"link{kind!r}.jpg")
            link.type, link.linkname = kind, str(secret)
            tar.addfile(link)
        add(tar, "../a.jpg", b"ant")  # never unpacked, so where it would go does not matter
        add(tar, "../a.txt", b"An ant .")
    data = open_items(tmp_path)
    assert [data.stored(row) for row in range(len(data))] == [b"ant"]


def test_keys_of_different_shards_are_different_images(tmp_path):
    for shard in ("0.tar", "1.tar"):
        with tarfile.open(tmp_path / shard, "w") as tar:
            add(tar, "7.txt", shard.encode())
            add(tar, "7.JPG", shard.encode())
    data = open_items(tmp_path)
    assert [data.stored(row) for row in range(2)] == [b"0.tar", b"1.tar"]
    assert len(set(data.names)) == 2


def test_a_shard_that_shrinks_is_noticed(tmp_path):
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as tar:
        add(tar, "a.txt", b"An ant .")
        add(tar, "a.jpg", b"ant" * 1000)
    data = open_items(path)
    os.truncate(path, 2000)
    with pytest.raises(ImageError, match="cut short"):
        data.stored(0)
    with pytest.raises(InputValueError, match="cannot be read as an uncompressed tar shard"):
        open_items(path)


def test_compressed_shards_and_double_keys_are_refused(tmp_path):
    with tarfile.open(tmp_path / "z.tar", "w:gz") as tar:
        add(tar, "a.jpg", b"ant")
    with pytest.raises(InputValueError, match="uncompressed tar"):
        open_items(tmp_path / "z.tar")
    with tarfile.open(tmp_path / "d.tar", "w") as tar:
        add(tar, "a.jpg", b"ant")
        add(tar, "a.png", b"ant")
    with pytest.raises(InputValueError, match="one image per key, got several of 'a'"):
        open_items(tmp_path / "d.tar")


def test_images_without_captions_are_left_out_and_named(tmp_path):
    write_images(tmp_path)
    (tmp_path / "c.csv").write_text("image,caption\na.jpg,An ant .\nb.jpg,  \n")
    with pytest.warns(UserWarning, match="1 of 2 images of .* no caption .* the first 'b.jpg'"):
        data = open_items(tmp_path).captioned_images()
    assert data.names == ("a.jpg",)
    for table in ("image,caption\nb.jpg,\n", "image,words\nb.jpg,bee\n"):
        (tmp_path / "c.csv").write_text(table)
        with pytest.raises(InputValueError, match="none of its 1 images has one"):
            open_items(tmp_path).captioned_images()
    (tmp_path / "t.txt").write_text("An ant .\n")
    with pytest.raises(InputValueError, match="images with captions, but it holds texts"):
        open_items(tmp_path / "t.txt").captioned_images()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.csv", b"size,words\n3,x\n", "must have a column of files"),
        ("c.csv", b"image,caption\na.jpg,A bee, on a flower\n", "line 2 has 3"),
        ("c.csv", b"image,caption\n", "at least one row"),
        ("c.csv", b"image,caption\na.jpg,\xff\xfe\n", "cannot be read as a table"),
        ("c.csv", b'image,caption\na.jpg,"An ant', "cannot be read as a table"),
        ("c.csv", b"", "is empty"),
        ("c.jsonl", b"", "is empty"),
        ("c.jsonl", b'{"size": 3}', "must have a column of files, called 'image' or 'audio'"),
        ("c.jsonl", b'{"image": null}', "must have a column of files"),
        ("c.jsonl", b'{"image": "a.jpg"}\n{"image": \n', "line 2: must be JSON"),
        ("c.jsonl", b"[1, 2]\n", "line 1: must be a JSON object"),
        ("c.jsonl", b'{"image": "\xff.jpg"}\n', "line 1: must be UTF-8"),
        ("c.jsonl", b"[" * 100_000 + b"\n", "line 1: must be JSON"),
        ("c.txt", b"\n \n", "a text in at least one line"),
        ("c.json", b'{"images": [', "must be JSON"),
        ("c.json", b"[" * 100_000, "must be JSON"),
        ("c.json", b"[]", "must be COCO captions JSON"),
        ("c.json", b'{"images": []}', "it has none"),
        ("c.json", b'{"images": [{"id": 1}]}', "must have a file_name"),
        (
            "c.json",
            b'{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1}]}',
            "must have an image_id and a caption",
        ),
        ("c.parquet", b"PAR1 no", "cannot be read as a Parquet file"),
        ("c.tar", b"\x00no tar", "cannot be read as an uncompressed tar shard"),
        ("c.zip", b"PK", r"must end in .*, got '.zip'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_files_are_refused_in_one_sentence(name, content, message, tmp_path):
    with pytest.raises((InputValueError, TypeError), match=message):
        open_items(write(tmp_path / name, content))


def test_a_folder_of_nothing_or_of_too_much_is_refused(tmp_path):
    with pytest.raises(InputValueError, match="nothing of it is there"):
        open_items(tmp_path)
    make_csv(tmp_path)
    make_parquet(tmp_path)
    with pytest.raises(InputValueError, match="holds 'parquet', 'csv'"):
        open_items(tmp_path)
    assert len(open_items(tmp_path, format="csv")) == 3
    (tmp_path / "more.csv").write_text("image,caption\na.jpg,More\n")
    assert open_items(tmp_path, format="csv").captions(3) == ("More",)


def test_rows_of_one_image_with_a_caption_each_become_one_even_without_a_name(tmp_path):
    """Otherwise an image could be trained on and held out; its path may be anything."""
    names = list(IMAGES)
    write_images(tmp_path / "images")
    stored = {name: (tmp_path / "images" / name).read_bytes() for name in names}
    order = [name for place in range(2) for name in names]
    for part, chosen in (("a", order[:4]), ("b", order[4:])):
        table = {
            "image": [{"bytes": stored[name], "path": "image.png"} for name in chosen],
            "caption": [f"{part} {k}" for k in range(len(chosen))],
        }
        pq.write_table(pa.table(table), tmp_path / f"{part}.parquet")
    data = open_items(tmp_path, format="parquet").captioned_images()
    distinct = {stored[name] for name in order}
    assert len(data) == len(distinct)
    assert sum(len(data.captions(row)) for row in range(len(data))) == len(order)
    assert {data.stored(row) for row in range(len(data))} == distinct
    assert data.names[0] == "a.parquet/0"
