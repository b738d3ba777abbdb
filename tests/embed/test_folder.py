"""Items embedded into a folder: in order, whole, resumable, whatever happens on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from engine_rows import contents
from modgap.core.checks import InputError
from modgap.embed import CallableModel, embed
from modgap.io import open_embeddings, open_pair
from photos import image_rows, make_model, make_photos, picture, text_rows


@pytest.mark.parametrize("captions", [1, 3])
def test_rows_are_those_of_the_model_in_order(tmp_path, captions):
    photos = make_photos(tmp_path / "photos", 11, captions)
    done = embed(make_model(), photos, tmp_path / "rows", batch_size=2, shard_items=4)
    assert done.rows == {"image": 11, "text": 11 * captions}
    data = open_pair(tmp_path / "rows")
    images = [Image.open(photos / f"{k}.png").convert("RGB") for k in range(11)]
    texts = [f"a photo {k}, {c}" for k in range(11) for c in range(captions)]
    np.testing.assert_allclose(data.x.rows(), make_model().encode_images(images), rtol=1e-6)
    np.testing.assert_allclose(data.y.rows(), make_model().encode_texts(texts), rtol=1e-6)
    assert data.y.captions.tolist() == texts
    assert data.x.ids.tolist() == [f"{k}.png" for k in range(11)]
    first, second = data.matches()
    assert sorted(first.tolist()) == [*range(11)]
    assert (second // captions).tolist() == first.tolist()


def test_one_caption_each_is_what_clip_retrieval_writes(tmp_path):
    embed(make_model(), make_photos(tmp_path / "photos", 5), tmp_path / "rows", shard_items=3)
    names = sorted(path for path in contents(tmp_path / "rows") if path != "embed.json")
    kinds = {"img_emb": "npy", "metadata": "parquet", "text_emb": "npy"}
    assert names == [f"{kind}/{kind}_{k}.{kinds[kind]}" for kind in kinds for k in range(2)]
    table = pq.read_table(tmp_path / "rows" / "metadata")
    assert table.column_names == ["image_path", "caption"]
    assert table["caption"].to_pylist() == [f"a photo {k}, 0" for k in range(5)]


def test_what_cannot_be_read_is_left_out_with_its_captions_and_named(tmp_path):
    photos = make_photos(tmp_path / "photos", 9, captions=2, broken=(0, 4, 5))
    done = embed(make_model(), photos, tmp_path / "rows", shard_items=2, batch_size=1)
    assert list(done.skipped) == ["0.png", "4.png", "5.png"]
    assert done.rows == {"image": 6, "text": 12}
    data = open_pair(tmp_path / "rows")
    assert data.x.ids.tolist() == ["1.png", "2.png", "3.png", "6.png", "7.png", "8.png"]
    assert data.y.groups.tolist() == [name for name in data.x.ids.tolist() for _ in range(2)]


def test_a_finished_folder_is_left_as_it_is(tmp_path):
    photos = make_photos(tmp_path / "photos", 5)
    embed(make_model(), photos, tmp_path / "rows", shard_items=2)
    before = contents(tmp_path / "rows")
    again = embed(make_model(), photos, tmp_path / "rows", shard_items=2)
    assert again.n_done_before == 5
    assert contents(tmp_path / "rows") == before


def test_a_run_goes_on_only_with_the_same_model_and_items(tmp_path):
    photos, rows = make_photos(tmp_path / "photos", 5), tmp_path / "rows"
    embed(make_model(), photos, rows, shard_items=2)
    other = make_photos(tmp_path / "other", 5, captions=2)
    before = contents(rows)
    for model, data, options, said in [
        (make_model("another"), photos, {}, "another model"),
        (make_model(shift=30.0), photos, {}, "other weights"),
        (make_model(), other, {}, "another set of items"),
        (make_model(), photos, {"dtype": "float16"}, "another dtype"),
        (make_model(), photos, {"normalise": True}, "another choice of --normalise"),
        (make_model(), photos, {"shard_items": 3}, "another number of items a shard"),
    ]:
        with pytest.raises(InputError, match=said):
            embed(model, data, rows, **{"shard_items": 2, **options})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        embed(make_model(), photos, tmp_path / "full")
    assert contents(rows) == before


def test_an_unfinished_folder_is_refused_by_readers(tmp_path, monkeypatch):
    photos, rows = make_photos(tmp_path / "photos", 5), tmp_path / "rows"
    model, count = make_model(), iter(range(100))
    give = model.rows

    def rows_then_stop(prepared, modality):
        if next(count) == 3:
            raise KeyboardInterrupt
        return give(prepared, modality)

    monkeypatch.setattr(model, "rows", rows_then_stop)
    with pytest.raises(KeyboardInterrupt):
        embed(model, photos, rows, shard_items=2, batch_size=2)
    with pytest.raises(InputError, match="is not finished"):
        open_pair(rows)
    done = embed(make_model(), photos, rows, shard_items=2, batch_size=2)
    assert 0 < done.n_done_before < 5
    assert open_pair(rows).x.n_rows == 5


def test_one_kind_alone(tmp_path):
    photos = tmp_path / "photos"
    for label in ("cat", "dog"):
        (photos / label).mkdir(parents=True)
        for k in range(2):
            (photos / label / f"{k}.png").write_bytes(picture(k + len(label)))
    done = embed(make_model(), photos, tmp_path / "rows")
    assert done.rows == {"image": 4}
    found = open_embeddings(tmp_path / "rows")
    assert found.labels.tolist() == ["cat", "cat", "dog", "dog"]
    (tmp_path / "queries.txt").write_text("a cat\na dog\n")
    assert embed(make_model(), tmp_path / "queries.txt", tmp_path / "asked").rows == {"text": 2}
    assert open_embeddings(tmp_path / "asked").captions.tolist() == ["a cat", "a dog"]


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda rows: rows * 1e6, {"dtype": "float16"}, "float16 cannot hold"),
        (lambda rows: rows * np.nan, {}, "NaN or infinity"),
        (lambda rows: rows[:, :2], {}, "rows of 3 columns"),
    ],
)
def test_numbers_that_cannot_be_stored_are_refused(change, options, said, tmp_path):
    model = CallableModel(lambda images: change(image_rows(images)), text_rows)
    with pytest.raises(InputError, match=said):
        embed(model, make_photos(tmp_path / "photos", 3), tmp_path / "rows", **options)


# Runs in a process of its own: children that embed slowly, killed one after the other.
_KILLER = """
import os, random, select, signal, sys, time
import PIL.Image, pyarrow.parquet  # once, not in every child
PIL.Image.init()
sys.path.insert(0, {tests!r})
from photos import make_model
from modgap.embed import embed

model = make_model()
give = model.rows
begun, begin = os.pipe()
def slowly(prepared, modality):
    if modality == "image":
        os.write(begin, b".")
    time.sleep(0.003)
    return give(prepared, modality)
model.rows = slowly
chance = random.Random(0)
for _ in range(6):
    child = os.fork()
    if not child:
        embed(model, {photos!r}, {rows!r}, batch_size=2, shard_items=4)
        os._exit(0)
    for _ in range(chance.randint(1, 6)):
        os.read(begun, 1)
    time.sleep(chance.uniform(0, 0.01))
    os.kill(child, signal.SIGKILL)
    os.set_blocking(begun, False)
    while os.read(begun, 999) if select.select([begun], [], [], 0)[0] else b"": pass
    os.set_blocking(begun, True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(os.listdir({rows!r})))
"""


def test_killed_at_random_points_it_ends_with_the_rows_of_an_uninterrupted_run(tmp_path):
    photos = make_photos(tmp_path / "photos", 60, captions=2, broken=(7, 41))
    embed(make_model(), photos, tmp_path / "whole", batch_size=2, shard_items=4)
    rows = tmp_path / "rows"
    rows.mkdir()
    tests = str(Path(__file__).parents[1])
    code = _KILLER.format(tests=tests, photos=str(photos), rows=str(rows))
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line.split()[0] for line in killed] == ["-9"] * 6
    done = embed(make_model(), photos, rows, batch_size=2, shard_items=4)
    assert 0 < done.n_done_before < 60
    assert contents(rows) == contents(tmp_path / "whole")


def test_a_folder_without_one_readable_item_leaves_nothing(tmp_path):
    photos = make_photos(tmp_path / "photos", 3, broken=(0, 1, 2))
    with pytest.raises(InputError, match=r"None of the 3 items .*; the first is 0\.png"):
        embed(make_model(), photos, tmp_path / "rows", shard_items=2)
    assert not (tmp_path / "rows").exists()
    (photos / "1.png").write_bytes(picture(1))
    done = embed(make_model(), photos, tmp_path / "rows", shard_items=2)
    assert done.rows == {"image": 1, "text": 1}


def test_items_that_have_no_text_are_a_sentence(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"image": ["0.png"], "caption": [["x"]]}\n')
    with pytest.raises(InputError, match="None of the 1 items"):
        embed(make_model(), tmp_path, tmp_path / "rows")
