"""What can be embedded: tables, JSON Lines, folders and texts; nothing outside is read."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from item_files import (
    IMAGES,
    make_esc50,
    tone,
    wav,
    write,
    write_images,
    write_json_lines,
    write_table,
)
from mixbench_files import make_subset
from modgap.core.checks import InputValueError
from modgap.io import open_items
from modgap.io.images import ImageError
from modgap.io.items import ITEM_FORMATS


def test_rows_of_json_lines_have_captions_labels_and_other_fields(tmp_path):
    write_images(tmp_path / "images")
    path = write_json_lines(
        tmp_path / "data.jsonl",
        [
            {"image": "b.jpg", "caption": "A bee .", "label": 3, "year": 2020, "box": {"x": 1}},
            {"image": "b.jpg", "caption": "An insect .", "label": 3},
            {"image": "a.jpg", "captions": None, "caption": " ", "split": "test", "tags": ["x"]},
            {"image": None, "caption": "Nothing to see ."},
        ],
    )
    data = open_items(path)
    assert data.names == ("b.jpg", "a.jpg", "line 4")
    assert [data.captions(row) for row in range(2)] == [("A bee .", "An insect ."), ()]
    assert data.labels == ("3", "", "")
    assert data.fields == {"year": (2020, None, None), "tags": (None, ["x"], None)}
    assert data.stored(1) == IMAGES["a.jpg"]
    with pytest.raises(ImageError, match="no file is named"):
        data.stored(2)
    assert data.split("test").names == ("a.jpg",)
    assert data.select([1, 0]).names == ("a.jpg", "b.jpg")


def test_several_files_are_splits_and_names_stay_unique(tmp_path):
    write_images(tmp_path)
    for split in ("train", "test"):
        write_json_lines(tmp_path / f"{split}.jsonl", [{"image": "b.jpg", "label": split}])
    data = open_items(tmp_path)
    assert data.names == ("test/b.jpg", "train/b.jpg")
    assert data.splits() == {"test": 1, "train": 1}
    assert open_items(tmp_path, split="train").labels == ("train",)


def test_texts_alone_can_be_embedded(tmp_path):
    path = write_json_lines(
        tmp_path / "texts.jsonl",
        [{"id": 7, "text": "seven"}, {"id": 8, "text": "eight"}, {"id": 7, "text": "again"}],
    )
    data = open_items(path)
    assert (data.kind, data.names, data.fields) == ("text", ("7", "8", "7#2"), {})
    assert [data.captions(row) for row in range(3)] == [("seven",), ("eight",), ("again",)]
    with pytest.raises(ImageError, match="no file"):
        data.stored(0)
    assert repr(data) == f"Items({str(path)!r}, 3 texts)"


def test_a_text_file_has_a_text_a_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffA dog, a cat\r\n\r\n zwei \n".encode())
    data = open_items(path)
    assert (data.kind, data.names) == ("text", ("line 1", "line 3"))
    assert [data.captions(0), data.captions(1)] == [("A dog, a cat",), ("zwei",)]


def test_captions_txt_of_flickr8k_stays_a_table(tmp_path):
    write_images(tmp_path)
    (tmp_path / "captions.txt").write_text("image,caption\nb.jpg,A bee .\n")
    for path in (tmp_path, tmp_path / "captions.txt"):
        assert open_items(path).captions(0) == ("A bee .",)


def test_a_table_of_labels_needs_no_captions(tmp_path):
    write_images(tmp_path)
    write_table(tmp_path / "labels.csv", [("filename", "class"), *((n, n[0]) for n in IMAGES)])
    data = open_items(tmp_path)
    assert data.labels == ("b", "a", "c")
    assert data.captions(0) == ()
    assert data.fields == {}


def test_folders_are_classes(tmp_path):
    for name in ("dog/2.JPG", "dog/deep/1.png", "cat/9.jpeg", "cat/notes.txt", "cat/.hidden.jpg"):
        write(tmp_path / name, name.encode())
    data = open_items(tmp_path)
    assert data.names == ("cat/9.jpeg", "dog/2.JPG", "dog/deep/1.png")
    assert data.labels == ("cat", "dog", "dog")
    assert data.stored(1) == b"dog/2.JPG"
    assert data.splits() == {}
    assert data.captions(0) == ()


def test_train_and_val_above_the_classes_are_splits(tmp_path):
    for name in ("train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg"):
        write(tmp_path / "data" / name)
    data = open_items(tmp_path)
    assert data.splits() == {"train": 2, "val": 1}
    assert data.labels == ("cat", "dog", "cat")
    assert open_items(tmp_path, split="val").names == ("data/val/cat/1.jpg",)
    with pytest.raises(InputValueError, match=r"no split 'vall'. Did you mean 'val'\?"):
        open_items(tmp_path, split="vall")


def test_a_plain_folder_has_no_labels(tmp_path):
    assert open_items(write_images(tmp_path / "images")).labels is None
    data = open_items(tmp_path)
    assert (data.labels, data.kind, len(data)) == (None, "image", 3)


def test_names_that_are_no_text_can_still_be_written(tmp_path):
    write(tmp_path / os.fsdecode(b"\xff.jpg"), b"one")
    write_json_lines(tmp_path / "half.jsonl", [{"text": "\ud800 dog", "name": "\ud800"}])
    data = open_items(tmp_path, format="images")
    assert (data.names, data.stored(0)) == (("?.jpg",), b"one")
    half = open_items(tmp_path / "half.jsonl")
    assert (half.names, half.captions(0)) == (("?",), ("? dog",))


def test_sounds_lie_in_folders_or_tables(tmp_path):
    for name in ("rain/1.wav", "wind/2.flac"):
        write(tmp_path / "folders" / name, name.encode())
    folders = open_items(tmp_path / "folders")
    assert (folders.kind, folders.labels) == ("audio", ("rain", "wind"))
    write(tmp_path / "table" / "1.wav", wav(tone()))
    write_table(tmp_path / "table" / "clips.csv", [("file_name", "caption"), ("1.wav", "Rain .")])
    table = open_items(tmp_path / "table")
    assert (table.kind, table.captions(0), table.stored(0)) == ("audio", ("Rain .",), wav(tone()))
    write(tmp_path / "folders" / "rain" / "cover.jpg")
    with pytest.raises(InputValueError, match=r"holds 'images', 'audio'\. Choose one by format"):
        open_items(tmp_path / "folders")
    assert len(open_items(tmp_path / "folders", format="images")) == 1


def test_esc50_as_published(tmp_path):
    data = open_items(make_esc50(tmp_path))
    assert (data.kind, data.labels) == ("audio", ("dog", "chirping_birds", "dog"))
    assert data.names[0] == "1-100032-A-0.wav"
    assert data.fields["fold"] == ("1", "1", "5")
    assert data.stored(0) == wav(tone())
    (tmp_path / "audio").rename(tmp_path / "sounds")
    with pytest.raises(InputValueError, match=r"audio must be the folder of ESC-50's sounds"):
        open_items(tmp_path)
    assert len(open_items(tmp_path, images=tmp_path / "sounds")) == 3


def test_mixbench_documents_and_queries_can_be_embedded(tmp_path):
    folder = make_subset(tmp_path, n=6)
    write(folder / "images" / "0.jpg", b"photo")
    documents, queries = open_items(folder), open_items(folder / "queries.jsonl")
    assert (documents.kind, documents.names) == ("image", tuple("012345"))
    assert documents.captions(3) == ("the text of 3",)
    assert documents.stored(0) == b"photo"
    assert (queries.kind, queries.names[:2]) == ("text", ("q0", "q1"))
    assert queries.captions(0) == ("the text of q0",)


def test_shards_hold_sounds_and_classes(tmp_path):
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        said = json.dumps({"text": "Rain ."}).encode()
        for name, content in {"1.flac": b"s", "1.json": said, "1.cls": b"4\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    data = open_items(tmp_path)
    assert (data.kind, data.names, data.labels) == ("audio", ("0.tar/1.flac",), ("4",))
    assert (data.captions(0), data.stored(0)) == (("Rain .",), b"s")


def test_links_cannot_lead_out_of_the_folder(tmp_path):
    write(tmp_path / "secret.jpg", b"secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(ImageError, match="leads out"):
        open_items(tmp_path / "data").stored(0)


def test_whole_paths_are_read_if_they_lie_in_the_folder_that_is_named(tmp_path):
    images = write_images(tmp_path / "photos")
    path = write_json_lines(tmp_path / "d.jsonl", [{"image": str(images / "b.jpg")}])
    data = open_items(path, images=images)
    assert (data.names, data.stored(0)) == (("b.jpg",), IMAGES["b.jpg"])


def test_a_column_that_names_nothing_gives_way_to_another(tmp_path):
    write_images(tmp_path)
    write_table(tmp_path / "t.csv", [("image", "path", "text"), ("", "b.jpg", "A bee .")])
    assert open_items(tmp_path).names == ("b.jpg",)
    path = write_json_lines(tmp_path / "t.jsonl", [{"image": 5, "text": "only a text"}])
    assert open_items(path).kind == "text"


@pytest.mark.parametrize(
    ("place", "options", "expected"),
    [
        (".", {}, "must hold images, sounds"),
        (".", {"format": "esc50"}, "meta/esc50.csv and audio/"),
        (".", {"format": "huggingface"}, "state.json or dataset_dict.json"),
        (".", {"format": "mixbench"}, "corpus.jsonl and queries.jsonl"),
        (".", {"format": "text"}, "a file of texts: give its path"),
        (".", {"format": "json"}, r"format must be one of .* Did you mean 'jsonl'\?"),
        ("nowhere", {}, "There is no file or folder"),
    ],
)
def test_a_wrong_layout_says_what_was_expected(place, options, expected, tmp_path):
    with pytest.raises(InputValueError, match=expected):
        open_items(tmp_path / place, **options)


def test_files_of_two_kinds_are_refused(tmp_path):
    write_json_lines(tmp_path / "a.jsonl", [{"image": "a.jpg"}])
    write_json_lines(tmp_path / "b.jsonl", [{"text": "b"}])
    with pytest.raises(InputValueError, match="must all hold images, sounds or texts, got image"):
        open_items(tmp_path)


def test_the_docs_list_every_format():
    page = (Path(__file__).parents[3] / "docs" / "guides" / "search" / "embedding.md").read_text(
        encoding="utf-8"
    )
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= set(ITEM_FORMATS)
