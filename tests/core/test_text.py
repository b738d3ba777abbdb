"""Labels, ids, groups and names are the same however their characters are encoded."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modgap import Calibrate, Correction, Embeddings, Modalities, retrieval
from modgap.core.checks import InputValueError, check_choice
from modgap.core.door import encode_groups
from modgap.core.text import same_texts
from modgap.corrections import Affine
from modgap.io.group_keys import label_keys
from modgap.tasks.task import check_labels

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


@given(st.lists(texts, min_size=1, max_size=8))
def test_any_encoding_of_a_label_is_the_same_label(labels):
    other = [unicodedata.normalize("NFD", one) for one in labels]
    n = len(labels)
    first, second = encode_groups([labels, other], [n, n], ["image", "text"])
    assert first.tolist() == second.tolist()
    assert label_keys(labels).tolist() == label_keys(other).tolist()
    assert same_texts(labels).tolist() == same_texts(np.array(other, dtype=object)).tolist()


@given(st.lists(texts, min_size=2, max_size=8))
def test_labels_that_differ_in_nfc_stay_apart(labels):
    codes = encode_groups([labels, labels], [len(labels)] * 2, ["image", "text"])[0]
    assert len({*codes.tolist()}) == len({unicodedata.normalize("NFC", one) for one in labels})


def test_compatible_characters_are_different_labels():
    assert len({*label_keys(["x2", "x\u00b2", "\ufb01", "fi"]).tolist()}) == 4


def test_rows_are_paired_by_ids_of_either_encoding_and_ids_stay_as_given():
    sides = [
        Embeddings.from_array(np.eye(2), ids=ids)
        for ids in ([COMPOSED, "b"], np.array(["b", DECOMPOSED], dtype=object))
    ]
    data = Modalities.of(*sides)
    assert data.pairing.startswith("by id: 2 of 2 image rows")
    assert data.y.ids.tolist() == ["b", DECOMPOSED]
    assert data.keys_of("image").tolist() == data.keys_of("text")[::-1].tolist()


def test_groups_of_either_encoding_match():
    found = retrieval(
        np.eye(2), np.eye(2)[::-1], k=1, groups=([COMPOSED, "b"], ["b", DECOMPOSED])
    ).recall()
    assert found["image_retrieval_recall@1"] == 1.0
    with pytest.raises(InputValueError, match=r"Unicode normalisation \(NFC\)"):
        retrieval(np.eye(2), np.eye(2), groups=(["a", "b"], ["A", "B"]))


def test_class_names_are_compared_in_nfc():
    assert check_labels([COMPOSED, DECOMPOSED], 2).tolist() == [COMPOSED] * 2


def test_modality_names_of_either_encoding_name_one_modality(tmp_path, rng):
    rows = rng.normal(size=(30, 4))
    data = Modalities.of({DECOMPOSED: rows, "text": rows + 1.0})
    assert data.names == (COMPOSED, "text")
    correction = Calibrate().fit(data, queries="text").correction_
    correction.save(tmp_path / "c.safetensors")
    loaded = Correction.load(tmp_path / "c.safetensors")
    for name in (COMPOSED, DECOMPOSED):
        np.testing.assert_array_equal(loaded.apply(rows, name), correction.apply(rows, COMPOSED))
    assert check_choice(DECOMPOSED, "modality", (COMPOSED,)) == COMPOSED
    with pytest.raises(InputValueError, match="names must differ"):
        Modalities.of({COMPOSED: rows, DECOMPOSED: rows})


def test_a_correction_with_names_as_they_were_written_before_is_read():
    maps = {(DECOMPOSED, "document"): Affine(2), ("text", "document"): Affine(2)}
    correction = Correction((DECOMPOSED, "text"), maps, queries=(DECOMPOSED,))
    assert correction.queries == (COMPOSED,)
    assert correction.apply(np.eye(2), DECOMPOSED, "query").tolist() == np.eye(2).tolist()
