"""open_clip:NAME gives what open_clip gives; ``make test-openclip`` runs it where that is there."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from embedders import fake_open_clip, pictures
from modgap.embed.opening import open_model

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

pytestmark = pytest.mark.open_clip
TEXTS = ["a red bar", "two dogs run on the beach", "no", "a bar on the left", "grey"]
TINY = {
    "embed_dim": 12,
    "vision_cfg": {"image_size": 32, "layers": 3, "width": 16, "head_width": 8, "patch_size": 8},
    "text_cfg": {
        "context_length": 20, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 3,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip(
        "open_clip", reason="open_clip is not installed: make test-openclip", exc_type=ImportError
    )


@pytest.fixture(scope="module")
def tiny(library, tmp_path_factory):
    """A tiny model that open_clip knows, and a file of its weights."""
    place = tmp_path_factory.mktemp("open_clip")
    (place / "modgap-tiny.json").write_text(json.dumps(TINY))
    library.add_model_config(place / "modgap-tiny.json")
    torch.manual_seed(0)
    torch.save(library.create_model("modgap-tiny").state_dict(), place / "weights.pt")
    return f"modgap-tiny/{place}/weights.pt"


def test_rows_are_those_of_the_library_whatever_the_batch(library, tiny):
    model = open_model(f"open_clip:{tiny}", device="cpu")
    name, _, weights = tiny.partition("/")
    network, process = library.create_model_from_pretrained(name, pretrained=weights)
    with torch.inference_mode():
        images = network.eval().encode_image(torch.stack([process(i) for i in pictures()]))
        texts = network.encode_text(library.get_tokenizer(name)(TEXTS))
    assert (model.dim, model.modalities, model.image_side) == (12, ("image", "text"), 32)
    assert model.temperature == pytest.approx(0.07)
    np.testing.assert_allclose(model.encode_images(pictures()), images, atol=1e-5)
    np.testing.assert_allclose(model.encode_texts(TEXTS), texts, atol=1e-5)
    few = model.encode_images(pictures()[::-1], batch_size=2)[::-1]
    np.testing.assert_allclose(few, images, atol=1e-5)


def test_random_weights_are_the_seeds(tiny):
    one, again, other = (
        open_model("open_clip:modgap-tiny", random=seed).encode_texts(TEXTS) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3


def test_normalisation_can_be_switched_off(tiny):
    bare = open_model(f"open_clip:{tiny}", norm_layers=False, input_normalisation=False)
    assert not any(isinstance(m, torch.nn.LayerNorm) for m in bare.networks[0].modules())
    assert float(bare.prepare(pictures(), "image")[0]["pixels"].min()) >= 0
    assert np.isfinite(bare.encode_images(pictures())).all()


def test_hidden_layers_end_in_the_rows(tiny):
    model = open_model(f"open_clip:{tiny}", device="cpu")
    network = model.networks[0]
    last = model.layers("image")[-1]
    rows = torch.from_numpy(model.encode_layers(pictures(), "image", [last])[last])
    with torch.inference_mode():
        expected = network.visual.ln_post(rows) @ network.visual.proj
    np.testing.assert_allclose(model.encode_images(pictures()), expected, atol=1e-5)
    last = model.layers("text")[-1]
    rows = torch.from_numpy(model.encode_layers(TEXTS, "text", [last])[last])
    with torch.inference_mode():
        expected = network.ln_final(rows) @ network.text_projection
    np.testing.assert_allclose(model.encode_texts(TEXTS), expected, atol=1e-5)


def test_unknown_names_and_weights_suggest_near_ones(library, tiny):
    with pytest.raises(ValueError, match="Did you mean 'ViT-B-32'"):
        open_model("open_clip:ViT-B-3/laion2b_s34b_b79k")
    with pytest.raises(ValueError, match="Did you mean 'laion2b_s34b_b79k'"):
        open_model("open_clip:ViT-B-32/laion2b_s34b_b79")
    with pytest.raises(ValueError, match="must say which weights"):
        open_model("open_clip:ViT-B-32")
    with pytest.raises(ValueError, match="there is no such file"):
        open_model("open_clip:ViT-B-32//nowhere/weights.pt")
    with pytest.raises(ValueError, match=r"Did you mean 'weights\.pt'"):
        open_model(f"open_clip:{tiny.replace('weights', 'weight')}")


def test_open_clip_is_asked_as_it_documents(monkeypatch):
    asked = {}
    monkeypatch.setitem(sys.modules, "open_clip", fake_open_clip(asked))
    model = open_model("open_clip:ViT-B-32/laion2b_s34b_b79k")
    assert asked == {"name": "ViT-B-32", "pretrained": "laion2b_s34b_b79k"}
    assert model.temperature == pytest.approx(0.01)
    np.testing.assert_array_equal(model.encode_texts(["one", "three"])[:, 0], [3, 5])
    assert model.encode_images(pictures()).shape == (7, 3)
