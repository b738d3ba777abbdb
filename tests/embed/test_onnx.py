"""onnx:FOLDER gives the rows of the network that was exported."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

from embedders import TEXTS, pictures, write_model
from modgap.embed.opening import open_model

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

KINDS = ("clip", "siglip")


class Tower(torch.nn.Module):
    """One tower, or both with ``whole``, as exports have them."""

    def __init__(self, network, kind):
        super().__init__()
        self.network, self.kind = network, kind

    def forward(self, *inputs):
        texts, images = self.network.get_text_features, self.network.get_image_features
        if self.kind == "vision_model":
            return images(inputs[0]).pooler_output
        if self.kind == "text_model":
            return texts(*inputs).pooler_output
        return texts(inputs[0], inputs[2]).pooler_output, images(inputs[1]).pooler_output


def export(network, kind, path):
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 5, 3, 0, 0]])
    given = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    if kind == "vision_model":
        given = {"pixel_values": torch.zeros(2, 3, 32, 32)}
    elif kind == "model":
        given = {"input_ids": ids, "pixel_values": torch.zeros(3, 3, 32, 32),
                 "attention_mask": (ids > 0).long()}  # fmt: skip
    outputs = {"vision_model": ["image_embeds"], "text_model": ["text_embeds"],
               "model": ["text_embeds", "image_embeds"]}[kind]  # fmt: skip
    text = {0: "texts", 1: "tokens"}
    axes = {"input_ids": text, "attention_mask": text, "pixel_values": {0: "images"},
            "text_embeds": {0: "texts"}, "image_embeds": {0: "images"}}  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no other library is an old one
        torch.onnx.export(
            Tower(network, kind), tuple(given.values()), str(path), dynamo=False,
            input_names=list(given), output_names=outputs,
            dynamic_axes={name: axes[name] for name in (*given, *outputs)},
        )  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A CLIP and a SigLIP with the files of their towers beside them."""
    root = tmp_path_factory.mktemp("onnx")
    for kind in KINDS:
        folder = write_model(root / kind, kind)
        network = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
        for tower in ("vision_model", "text_model"):
            export(network.eval(), tower, folder / "onnx" / f"{tower}.onnx")
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_network_that_was_exported(folders, kind):
    exported = open_model(f"onnx:{folders / kind}")
    network = open_model(f"hf:{folders / kind}", device="cpu")
    assert (exported.dim, exported.modalities) == (network.dim, ("image", "text"))
    assert exported.image_side == 32
    for encode in ("encode_images", "encode_texts"):
        items = pictures() if encode == "encode_images" else TEXTS
        expected = getattr(network, encode)(items)
        rows = getattr(exported, encode)(items)
        np.testing.assert_allclose(rows, expected, atol=1e-5)
        few = getattr(exported, encode)(items[::-1], batch_size=2)[::-1]
        np.testing.assert_allclose(few, expected, atol=1e-5)


def test_rows_are_those_that_onnxruntime_gives(folders):
    model = open_model(f"onnx:{folders / 'clip'}")
    session = runtime.InferenceSession(str(folders / "clip" / "onnx" / "vision_model.onnx"))
    process = transformers.AutoImageProcessor.from_pretrained(folders / "clip", backend="pil")
    pixels = process(images=pictures(), return_tensors="np")["pixel_values"]
    expected = session.run(["image_embeds"], {"pixel_values": pixels})[0]
    np.testing.assert_allclose(model.encode_images(pictures()), expected, atol=1e-5)


def test_one_file_for_both_towers_will_do(folders, tmp_path):
    for file in (folders / "clip").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    network = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    export(network.eval(), "model", tmp_path / "model_fp16.onnx")
    model = open_model(f"onnx:{tmp_path}", variant="fp16", temperature=0.05)
    expected = open_model(f"onnx:{folders / 'clip'}")
    assert model.temperature == 0.05
    assert model.modalities == ("image", "text")
    images, texts = model.encode_images(pictures()), model.encode_texts(TEXTS)
    np.testing.assert_allclose(images, expected.encode_images(pictures()), atol=1e-5)
    np.testing.assert_allclose(texts, expected.encode_texts(TEXTS), atol=1e-5)
    with pytest.raises(ValueError, match=r"or onnx/model.onnx; it has model_fp16.onnx"):
        open_model(f"onnx:{tmp_path}")


def test_a_batch_is_split_over_several_sessions(folders, monkeypatch):
    from modgap.embed import onnx_model

    one = open_model(f"onnx:{folders / 'clip'}")
    cpus = ["CPUExecutionProvider"] * 3
    monkeypatch.setattr(onnx_model, "find_providers", lambda runtime, device: cpus)
    many = open_model(f"onnx:{folders / 'clip'}")
    assert len(many.prepare(TEXTS, "text")) == 3
    np.testing.assert_allclose(many.encode_texts(TEXTS), one.encode_texts(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("onnx/text_model.onnx", None, r"embeds image only: .* Put text_model.onnx beside"),
        ("onnx/text_model.onnx", b"no model", r"text_model\.onnx cannot be read by onnxruntime"),
        ("tokenizer.json", None, r"has no tokenizer\.json"),
    ],
)
def test_files_that_are_missing_or_broken_are_named(file, content, said, folders, tmp_path):
    shutil.copytree(folders / "clip", tmp_path / "clip")
    (tmp_path / "clip" / file).unlink()
    if content:
        (tmp_path / "clip" / file).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        open_model(f"onnx:{tmp_path / 'clip'}")


def test_what_a_file_fixes_cannot_be_changed(folders):
    for option in ({"random": 0}, {"precision": "bfloat16"}, {"norm_layers": False}):
        with pytest.raises(ValueError, match="of an ONNX file are fixed"):
            open_model(f"onnx:{folders / 'clip'}", **option)
    with pytest.raises(ValueError, match="has no hidden layers that can be read"):
        open_model(f"onnx:{folders / 'clip'}").layers("image")


def test_memory_that_is_used_up_says_to_lower_the_batch(folders, monkeypatch):
    model = open_model(f"onnx:{folders / 'clip'}")

    class Full:
        get_inputs = model.sessions[0]["text"].get_inputs

        def run(self, *inputs):
            raise Exception("Failed to allocate memory for requested buffer of size 20")

    monkeypatch.setitem(model.sessions[0], "text", Full())
    with pytest.raises(RuntimeError, match=r"not enough memory .* Lower the batch size\."):
        model.encode_texts(TEXTS)


def test_a_gpu_that_is_not_there_is_a_sentence(folders):
    if "CUDAExecutionProvider" in runtime.get_available_providers():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="onnxruntime finds no GPU here"):
        open_model(f"onnx:{folders / 'clip'}", device="cuda")
