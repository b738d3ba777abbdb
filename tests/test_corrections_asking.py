"""Who asks: those named, else text, else all that a correction serves."""

from __future__ import annotations

import pytest

from modgap._validate import InputError
from modgap.corrections import Correction, asking_modalities, asking_modality, asking_or_text

NAMES = ("image", "text")


def test_text_asks_where_nobody_is_named():
    assert asking_modality(None, NAMES) == "text"
    assert asking_or_text(None, NAMES) == ("text",)
    with pytest.raises(InputError, match=r"Say which modality the queries are of .*: audio or im"):
        asking_or_text(None, ("audio", "image"))


def test_those_named_ask_in_the_order_of_the_modalities():
    assert asking_modality("image", NAMES) == "image"
    assert asking_or_text("image", NAMES) == asking_modalities("image", NAMES) == ("image",)
    assert asking_or_text(["text", "image"], NAMES) == NAMES
    for who in (asking_modality, asking_modalities, asking_or_text):
        with pytest.raises(InputError, match="queries must be one of 'image', 'text', got 'audio'"):
            who("audio", NAMES)


def test_all_that_a_correction_serves_ask_where_nobody_is_named():
    assert asking_modalities(None, NAMES) == NAMES
    serves_text = Correction.identity(3, NAMES, queries="text")
    assert asking_modalities(None, NAMES, serves_text) == ("text",)
    with pytest.raises(InputError, match="image"):
        asking_modalities("image", NAMES, serves_text)


def test_an_empty_list_means_nobody_or_the_default():
    with pytest.raises(InputError, match="queries must name at least one of image, text, got none"):
        asking_modalities([], NAMES)
    assert asking_or_text([], NAMES) == ("text",)
