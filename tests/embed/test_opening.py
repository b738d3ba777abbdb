"""Models by name: what is not there is said in one sentence, with what to do about it."""

from __future__ import annotations

import sys

import pytest

from modgap.embed.opening import open_model

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of models with one CLIP, and no way to the hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (tmp_path / "models--openai--clip-vit-base-patch32").mkdir()


@pytest.mark.parametrize(
    ("library", "model", "extra"),
    [
        ("transformers", "hf:openai/clip-vit-base-patch32", "embed"),
        ("sentence_transformers", "st:clip-ViT-B-32", "st"),
        ("onnxruntime", "onnx:anything", "onnx"),
        ("open_clip", "open_clip:ViT-B-32/laion2b_s34b_b79k", "open-clip"),
    ],
)
def test_a_library_that_is_not_installed_names_its_extra(library, model, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'modgap\[{extra}\]'"):
        open_model(model)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("hf:openai/clip-vit-base-patch23", "hf download openai/clip-vit-base-patch23"),
        ("hf:openai/clip-vit-base-patch23", r"Did you mean 'openai/clip-vit-base-patch32'\?"),
        ("st:clip-ViT-B-33", "hf download sentence-transformers/clip-ViT-B-33"),
        ("hf:{here}/clop", r"There is no folder .*clop\. Did you mean 'clip'\?"),
        ("hf:/nowhere/at/all", "There is no /nowhere/at either"),
        ("hf:{here}/clip", "cannot be opened as a model of transformers"),
        ("st:{here}/st", "cannot be opened as a model of sentence-transformers"),
        ("onnx:{here}/clip", r"must hold onnx/vision_model\.onnx and onnx/text_model"),
        ("onnx:{here}/clyp", "Did you mean 'clip'"),
        ("run:{here}/rum", "Did you mean 'run'"),
        ("run:{here}/run", r"has no model\.safetensors, which a finished run"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(model, said, cache, tmp_path):
    for name in ("clip", "run", "st"):
        (tmp_path / name).mkdir()
    (tmp_path / "st" / "modules.json").write_text("[]")
    with pytest.raises(ValueError, match=said) as raised:
        open_model(model.format(here=tmp_path))
    assert "\n" not in str(raised.value)
