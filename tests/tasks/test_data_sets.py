"""Task data sets in their published layouts, and what is said where a layout is wrong."""

from __future__ import annotations

import json

import pytest

from item_files import make_aokvqa, make_fairface, make_mmvp, write, write_table
from modgap.core.checks import InputValueError
from modgap.io.images import ImageError
from modgap.tasks import open_aokvqa, open_fairface, open_mmvp


def test_aokvqa_has_questions_choices_and_photographs(tmp_path):
    data = open_aokvqa(make_aokvqa(tmp_path))
    assert len(data) == 3
    assert data.ids == ("q0", "q1", "q2")
    assert data.questions[2] == "What is number 2?"
    assert data.choices[0] == ("cat", "dog", "bee", "ant")
    assert data.correct.tolist() == [0, 1, 2]
    assert data.direct_answers == (("cat",) * 10,) * 3
    assert data.images.names == ("000000299207.jpg", "000000000025.jpg")
    assert data.image_of.tolist() == [0, 1, 0]
    assert data.images.stored(1) == b"photo 25"


def test_aokvqa_finds_coco_where_it_is_said_to_be(tmp_path):
    make_aokvqa(tmp_path, "train")
    (tmp_path / "coco").rename(tmp_path / "elsewhere")
    for images in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "train2017"):
        for path in (tmp_path, tmp_path / "aokvqa_v1p0_train.json"):
            data = open_aokvqa(path, split="train", images=images)
            assert data.images.stored(0) == b"photo 299207"
    with pytest.raises(InputValueError, match="images must be a folder"):
        open_aokvqa(tmp_path, split="train", images=tmp_path / "nowhere")


def test_a_missing_photograph_is_not_fatal(tmp_path):
    make_aokvqa(tmp_path)
    (tmp_path / "coco" / "val2017" / "000000000025.jpg").unlink()
    with pytest.raises(ImageError, match="no such file"):
        open_aokvqa(tmp_path).images.stored(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question_id": "q0"}, "question 1: question_id 'q0' is there already"),
        ({"question": ""}, "question 1: question is missing"),
        ({"image_id": "25"}, "question 1: image_id is missing, or '25'"),
        ({"image_id": -1}, "12 digits"),
        ({"choices": ["one"]}, "choices must be two texts or more"),
        ({"choices": None}, "choices must be two texts or more"),
        ({"choices": ["a", None]}, "choices must be two texts or more"),
        ({"direct_answers": ["a", 1]}, "question 1: direct_answers must be texts"),
        ({"direct_answers": "cat"}, "question 1: direct_answers must be texts"),
        ({"correct_choice_idx": 4}, "must be below 4, got 4"),
        ({"correct_choice_idx": None}, "not published: take val"),
    ],
)
def test_a_ragged_question_is_refused_with_its_place(change, message, tmp_path):
    path = make_aokvqa(tmp_path) / "aokvqa_v1p0_val.json"
    entries = json.loads(path.read_text())
    entries[1] |= change
    path.write_text(json.dumps(entries))
    with pytest.raises(InputValueError, match=message):
        open_aokvqa(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]", b"[1]"])
def test_a_damaged_aokvqa_is_refused(content, tmp_path):
    make_aokvqa(tmp_path)
    write(tmp_path / "aokvqa_v1p0_val.json", content)
    with pytest.raises(InputValueError, match=r"aokvqa_v1p0_val\.json"):
        open_aokvqa(tmp_path)


def test_mmvp_has_pairs_of_statements_and_images(tmp_path):
    data = open_mmvp(make_mmvp(tmp_path))
    assert data.statements[:2] == ("a dog facing left", "a dog facing right")
    assert data.images.labels == ("Orientation",) * 2 + ("Camera Perspective",) * 2
    assert data.pairs.tolist() == [[0, 1], [2, 3]]
    assert data.images.names[2] == "Camera Perspective/31.jpg"
    assert [data.images.stored(row) for row in (0, 3)] == [b"image 1", b"image 32"]
    assert data.images.captions(0) == ("a dog facing left",)


def test_mmvp_with_underscores_in_its_folders_is_read(tmp_path):
    images = make_mmvp(tmp_path) / "MLLM_VLM Images"
    (images / "Camera Perspective").rename(images / "Camera_Perspective")
    assert open_mmvp(tmp_path).images.stored(2) == b"image 31"
    images.rename(tmp_path / "elsewhere")
    assert open_mmvp(tmp_path, images=tmp_path / "elsewhere").images.stored(2) == b"image 31"
    with pytest.raises(InputValueError, match="must hold the folder 'MLLM_VLM Images'"):
        open_mmvp(tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one row"),
        ([(1, "Color", "red")], "pairs of rows, got 1 rows"),
        ([(1, "Color", "red"), (2, "Text", "blue")], "rows 1 and 2 must be a pair of one Type"),
        ([(1, "Color", "red"), (1, "Color", "blue")], "name every image once"),
        ([(1, "Color", "red"), (2, "Color", " ")], "row 2: Statement is empty"),
        ([("../../1", "Color", "red"), (2, "Color", "x")], "must name images inside"),
    ],
)
def test_a_ragged_mmvp_is_refused(rows, message, tmp_path):
    make_mmvp(tmp_path)
    write_table(tmp_path / "Questions.csv", [("Question ID", "Type", "Statement"), *rows])
    with pytest.raises(InputValueError, match=message):
        open_mmvp(tmp_path)


def test_fairface_has_faces_with_groups(tmp_path):
    make_fairface(tmp_path)
    for split in ("val", "train"):
        data = open_fairface(tmp_path, split=split)
        assert len(data) == 2
        assert data.images.fields["age"] == ("3-9", "more than 70")
        assert data.images.fields["gender"] == ("Male", "Female")
        assert data.images.fields["race"] == ("East Asian", "Latino_Hispanic")
        assert data.images.names == (f"{split}/1.jpg", f"{split}/2.jpg")
        assert data.images.stored(1) == f"{split}/2.jpg".encode()
        assert data.images.fields["service_test"] == ("False", "True")


def test_fairface_images_may_lie_where_their_archive_put_them(tmp_path):
    make_fairface(tmp_path)
    home = tmp_path / "fairface-img-margin025-trainval"
    home.mkdir()
    (tmp_path / "val").rename(home / "val")
    assert open_fairface(tmp_path).images.stored(0) == b"val/1.jpg"
    home.rename(tmp_path / "other")
    assert open_fairface(tmp_path, images=tmp_path / "other").images.stored(0) == b"val/1.jpg"


def test_a_wrong_layout_says_which_file_was_expected(tmp_path):
    write(tmp_path / "labels.csv")
    for opened, name in (
        (open_aokvqa, r"aokvqa_v1p0_val\.json of A-OKVQA"),
        (open_mmvp, r"Questions\.csv of MMVP-VLM"),
        (open_fairface, r"fairface_label_val\.csv of FairFace"),
    ):
        with pytest.raises(InputValueError, match=f"must hold {name}. It holds 'labels.csv'"):
            opened(tmp_path)
        with pytest.raises(InputValueError, match="must be the folder of"):
            opened(tmp_path / "nowhere")
    write_table(tmp_path / "fairface_label_val.csv", [("file", "sex"), ("val/1.jpg", "Male")])
    with pytest.raises(InputValueError, match="must have the columns 'file', 'age'"):
        open_fairface(tmp_path)
    with pytest.raises(InputValueError, match="split must be one of"):
        open_fairface(tmp_path, split="test")
