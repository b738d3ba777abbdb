"""Files of corrections: one, or one for each query modality in a folder."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import make_pairs
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    load_corrections,
    save_corrections,
)

X, Y = make_pairs()
TWO = {name: Calibrate().fit(X, Y, queries=name).correction_ for name in ("text", "image")}


def same(a: Correction, b: Correction) -> bool:
    rows = X[:5]
    return a.queries == b.queries and all(
        np.array_equal(a.apply(rows, name), b.apply(rows, name)) for name in a.names
    )


def test_one_correction_goes_to_the_path_and_several_beside_it(tmp_path):
    path = tmp_path / "correction.safetensors"
    assert save_corrections({"text": TWO["text"]}, path) == [path]
    path.unlink()
    assert sorted(save_corrections(TWO, path)) == [
        tmp_path / "correction-image.safetensors",
        tmp_path / "correction-text.safetensors",
    ]
    assert not path.exists()


@pytest.mark.parametrize("given", ["", "correction.safetensors"])
def test_several_are_read_back_by_folder_or_by_the_path_they_were_written_to(tmp_path, given):
    save_corrections(TWO, tmp_path / "correction.safetensors")
    for queries in (None, "both"):
        found = load_corrections(tmp_path / given, queries)
        assert set(found) == {"image", "text"}
        assert all(same(found[name], TWO[name]) for name in TWO)
    chosen = load_corrections(tmp_path / given, "image")
    assert list(chosen) == ["image"]
    assert same(chosen["image"], TWO["image"])


def test_one_file_that_serves_all_is_there_for_each_and_written_once(tmp_path):
    center = Center().fit(X, Y).correction_
    path = tmp_path / "c.safetensors"
    assert save_corrections(dict.fromkeys(("image", "text"), center), path) == [path]
    found = load_corrections(path, "both")
    assert list(found) == ["image", "text"]
    assert found["image"] is found["text"]


def test_a_correction_made_for_these_queries_comes_before_one_that_serves_all(tmp_path):
    Center().fit(X, Y).correction_.save(tmp_path / "correction.safetensors")
    TWO["text"].save(tmp_path / "correction-text.safetensors")
    found = load_corrections(tmp_path)
    assert found["text"].queries == ("text",)
    assert found["image"].queries == ("image", "text")


def test_a_name_that_no_file_can_have_is_read_from_inside_the_file(tmp_path):
    names = ("a/b", "c d")
    both = {q: Calibrate().fit(X, Y, names=names, queries=q).correction_ for q in names}
    files = save_corrections(both, tmp_path / "correction.safetensors")
    assert [file.parent for file in files] == [tmp_path, tmp_path]
    assert set(load_corrections(tmp_path, "both")) == {*names}


def test_what_does_not_serve_the_queries_is_refused_with_the_command_that_does(tmp_path):
    file = tmp_path / "correction.safetensors"
    TWO["text"].save(file)
    with pytest.raises(InputValueError, match=r"serves text queries, not image .*--queries image"):
        load_corrections(file, "image")
    with pytest.raises(InputValueError, match=r"serves text queries only.*fit … --queries both"):
        load_corrections(tmp_path, "both")
    with pytest.raises(InputValueError, match="queries must be one of 'image', 'text', 'both'"):
        load_corrections(file, "sound")
    with pytest.raises(InputValueError, match=r"There is no correction at .*gone. Make one"):
        load_corrections(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputValueError, match=r"no correction-NAME\.safetensors"):
        load_corrections(tmp_path / "empty")


def test_files_that_contradict_each_other_are_refused(tmp_path):
    TWO["text"].save(tmp_path / "correction-text.safetensors")
    TWO["text"].save(tmp_path / "correction-words.safetensors")
    with pytest.raises(InputValueError, match=r"Two corrections at .* serve text queries"):
        load_corrections(tmp_path)
    other = Calibrate().fit(X, Y, names=("photo", "text")).correction_
    other.save(tmp_path / "correction-words.safetensors")
    with pytest.raises(InputValueError, match="must name the same modalities"):
        load_corrections(tmp_path)
    with pytest.raises(InputValueError, match="no correction to write"):
        save_corrections({}, tmp_path / "x.safetensors")
