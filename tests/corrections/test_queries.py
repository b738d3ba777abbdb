"""The query modalities: those named, else those that a correction serves, else text or all."""

from __future__ import annotations

import pytest

from modgap.core.checks import InputError
from modgap.corrections import Calibrate, Correction, query_modalities

NAMES = ("image", "text")


def test_text_is_the_default():
    assert query_modalities(None, NAMES) == query_modalities([], NAMES) == ("text",)
    with pytest.raises(InputError, match=r"Say which modality the queries are of .*: audio or im"):
        query_modalities(None, ("audio", "image"))
    assert query_modalities(None, ("audio", "image"), default="all") == ("audio", "image")


def test_those_named_come_in_the_order_of_the_modalities():
    assert query_modalities("image", NAMES) == ("image",)
    assert query_modalities(["text", "image"], NAMES) == NAMES
    with pytest.raises(InputError, match="queries must be one of 'image', 'text', got 'audio'"):
        query_modalities("audio", NAMES)


def test_both_and_all_mean_every_modality_unless_one_is_called_so():
    three = (*NAMES, "audio")
    assert query_modalities("both", NAMES) == query_modalities("all", NAMES) == NAMES
    assert query_modalities("all", three) == three
    with pytest.raises(InputError, match=r"two modalities, got 3: image, text, audio\. Say all"):
        query_modalities("both", three)
    assert query_modalities("both", ("both", "one", "other")) == ("both",)


def test_a_correction_must_serve_them_and_gives_the_default():
    serves_text = Correction.identity(3, NAMES, queries="text")
    assert query_modalities(None, NAMES, serves_text, default="all") == ("text",)
    with pytest.raises(InputError, match="serves text queries, not image queries"):
        query_modalities("image", NAMES, serves_text)


def test_a_corrector_for_one_kind_of_query_refuses_two(rng):
    X, Y = rng.normal(size=(2, 30, 4))
    with pytest.raises(InputError, match="one modality, got image and text"):
        Calibrate().fit(X, Y, queries="both")
