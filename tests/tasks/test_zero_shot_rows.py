"""From pictures, classes and templates to the rows of a task, with a model made of functions."""

from __future__ import annotations

import numpy as np
import pytest

from item_files import tone, wav, write
from modgap.embed import CallableModel
from modgap.io import open_items
from modgap.tasks import LabelledItems, sweep_task, task_rows, zero_shot_task
from modgap.tasks.zero_shot import read_classes, read_templates
from task_rows import colour_model, png, write_photos

OPENAI = ("itap of a {}.", "a bad photo of the {}.", "a origami {}.")


@pytest.fixture
def folder(tmp_path):
    return write_photos(tmp_path / "photos")


@pytest.fixture
def model():
    return colour_model()


def zero_shot_rows(model, items, templates=None, classes=None):
    return task_rows(model, LabelledItems(items, templates, classes))


def class_texts(model, classes, templates):
    filled = [template.replace("{}", words) for words in classes for template in templates]
    return model.encode_texts(filled).reshape(len(classes), len(templates), -1)


def test_class_texts_are_every_class_in_every_template(model, folder) -> None:
    found = zero_shot_rows(model, open_items(folder), OPENAI).inputs["class_texts"]
    assert found.shape == (3, 3, 4)
    for c, words in enumerate(("blue", "light green", "red")):
        for t, template in enumerate(OPENAI):
            expected = model.encode_texts([template.replace("{}", words)])[0]
            np.testing.assert_array_equal(found[c, t], expected)


def test_pictures_by_class_are_classified_by_their_colour(model, folder) -> None:
    items = open_items(folder)
    found = zero_shot_rows(model, items)
    assert found.about["classes"] == ("blue", "light_green", "red")
    assert found.inputs["names"] == ("image", "text")
    assert len(found.items) == 30
    assert [found.about["classes"][label] for label in found.inputs["labels"]] == list(items.labels)
    assert zero_shot_task(**found.inputs).score().mean == 1.0
    np.testing.assert_array_equal(
        found.inputs["class_texts"],
        class_texts(model, ["blue", "light green", "red"], ["a photo of a {}."]),
    )
    swept = sweep_task(zero_shot_task(**found.inputs), resamples=100)
    assert swept.raw.value.value == 1.0
    assert swept.chosen.way == "as they are"


def test_batches_and_threads_change_nothing_and_order_is_kept(model, folder) -> None:
    items = open_items(folder)
    whole, kept, _ = model.encode_items(items, batch_size=64, workers=1)
    parts, same, _ = model.encode_items(items, batch_size=7, workers=3)
    np.testing.assert_array_equal(whole, parts)
    assert kept == same == list(range(30))


def test_what_cannot_be_read_or_has_no_label_is_named_and_left_out(model, folder) -> None:
    write(folder / "red" / "broken.png", b"not a picture")
    found = zero_shot_rows(model, open_items(folder))
    assert len(found.items) == len(found.inputs["labels"]) == len(found.inputs["X"]) == 30
    assert [name for name in found.skipped if "broken" in name]
    assert zero_shot_task(**found.inputs).score().mean == 1.0


def test_given_classes_have_their_order_and_their_words(model, folder, tmp_path) -> None:
    write(tmp_path / "classes.txt", b"red\tbright red\nblue\nlight_green\n\n")
    classes = read_classes(tmp_path / "classes.txt")
    assert classes == {"red": "bright red", "blue": "blue", "light_green": "light green"}
    found = zero_shot_rows(model, open_items(folder), "a {}", classes=classes)
    assert found.about["classes"] == ("red", "blue", "light_green")
    np.testing.assert_array_equal(
        found.inputs["class_texts"][0], model.encode_texts(["a bright red"])
    )


def test_sounds_have_a_template_of_their_own(model, tmp_path) -> None:
    for label, loud in (("dog", 0.1), ("rain", 0.9)):
        for k in range(3):
            write(tmp_path / "sounds" / label / f"{k}.wav", wav(loud * tone()))
    found = zero_shot_rows(model, open_items(tmp_path / "sounds"))
    assert found.inputs["names"] == ("audio", "text")
    expected = class_texts(model, ["dog", "rain"], ["this is a sound of {}."])
    np.testing.assert_array_equal(found.inputs["class_texts"], expected)


def test_templates_are_read_from_a_file(tmp_path) -> None:
    path = write(tmp_path / "templates.txt", b"itap of a {}.\n\n  a origami {}.\n")
    assert read_templates(path) == ("itap of a {}.", "a origami {}.")


@pytest.mark.parametrize(
    ("read", "stored", "sentence"),
    [
        (read_templates, b"\n\n", "no templates"),
        (read_templates, b"\xff\xfe\x00{}", "UTF-8"),
        (read_classes, b"a\nb\na\n", "twice"),
        (read_classes, b"\n", "a class a line"),
    ],
)
def test_bad_lists_are_refused_in_one_sentence(tmp_path, read, stored, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(write(tmp_path / "list.txt", stored))


def deaf_model():
    return CallableModel(images=lambda images: np.ones((len(images), 2)),
                         texts=lambda texts: np.ones((len(texts), 2)))  # fmt: skip


# Other options, files in place of the photos, and what is said.
BAD = [
    ({"templates": ["a photo of a {}.", "a photo of it"]}, {}, r"A template must have \{\}"),
    ({"classes": ["red", "blue"]}, {}, "not among the 2 classes given"),
    ({"classes": ["red", "blue", "red", "light_green"]}, {}, "each class once"),
    ({}, {"a.png": png((1, 2, 3))}, "have no labels"),
    ({}, {"a/x.png": b"nothing", "b/x.png": b"nothing"}, "None of the 2 items"),
    ({"model": deaf_model()}, {"a/1.wav": wav(tone()), "b/1.wav": wav(tone())}, "not audio"),
]


@pytest.mark.parametrize(("change", "files", "sentence"), BAD, ids=[bad[2] for bad in BAD])
def test_bad_input_is_one_sentence(model, folder, tmp_path, change, files, sentence) -> None:
    for name, stored in files.items():
        write(tmp_path / "other" / name, stored)
    items = open_items(tmp_path / "other" if files else folder)
    with pytest.raises(ValueError, match=sentence):
        zero_shot_rows(**{"model": model, "items": items} | change)


def test_texts_and_a_single_class_are_nothing_to_classify(model, folder, tmp_path) -> None:
    with pytest.raises(ValueError, match="at least two classes"):
        zero_shot_rows(model, open_items(folder).select(range(5)))
    with pytest.raises(ValueError, match="holds texts"):
        zero_shot_rows(model, open_items(write(tmp_path / "texts.txt", b"a dog\na cat\n")))
