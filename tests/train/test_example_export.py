"""examples/export_open_clip.py: rows of a CLIP model, which modgap reproduce then reads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from command_line import modgap
from embedders import fake_open_clip, write_model
from encoders import CAPTIONS
from modgap.embed import open_model

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SCRIPT = Path(__file__).parents[2] / "examples" / "export_open_clip.py"
N = 12


@pytest.fixture(scope="module")
def export() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_open_clip", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured pictures, each with two captions but the first."""
    folder = tmp_path_factory.mktemp("photos")
    lines = ["image,caption"]
    for k in range(N):
        pixels = np.random.default_rng(k).integers(256, size=(40, 48, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{k}.png")
        lines += [f"{k}.png,{caption}" for caption in (CAPTIONS[k], f"{CAPTIONS[k]}s")[: 1 + k]]
    (folder / "captions.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP of transformers with its tokenizer and processor."""
    return write_model(tmp_path_factory.mktemp("models") / "clip", "clip")


def test_the_rows_are_the_models_own_and_modgap_reads_them(export, photos, clip, tmp_path) -> None:
    (tmp_path / "classes.txt").write_text("red bar\ngreen bar\nblue bar\n")
    prompts = ("a {}", "no {}")
    options = export.main(
        f"hf:{clip}", photos, tmp_path, tmp_path / "classes.txt", prompts, batch=5
    )
    assert options[::3][:2] == ["--rows", "--groups"]
    image, text, group = (
        np.load(tmp_path / f"{name}.npy") for name in ("image", "text", "text_groups")
    )
    assert (len(image), len(text)) == (N, 2 * N - 1)
    np.testing.assert_array_equal(group, [0, *np.repeat(np.arange(1, N), 2)])
    assert np.ptp(np.linalg.norm(image, axis=1)) > 0  # raw
    model = open_model(f"hf:{clip}")
    one = model.encode_images([Image.open(photos / "7.png")])
    caption = model.encode_texts([CAPTIONS[7]])
    np.testing.assert_allclose(image[7], one[0], atol=1e-5)
    np.testing.assert_allclose(text[13], caption[0], atol=1e-5)
    np.save(tmp_path / "labels.npy", np.arange(N) % 3)
    options += ["--labels", tmp_path / "labels.npy", "-o", tmp_path / "out", "--seeds", 1]
    ran = modgap("reproduce", "yaras2024/table2", *options)
    assert ran.status == 0, ran.err
    assert "your rows: zero-shot" in ran.out
    assert "the first of each group" in " ".join(ran.out.split())


def test_open_clip_is_asked_as_it_documents(export, photos, tmp_path, monkeypatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "open_clip", fake_open_clip(asked))
    export.main("open_clip:ViT-B-32/laion2b_s34b_b79k", photos, tmp_path)
    assert asked == {"name": "ViT-B-32", "pretrained": "laion2b_s34b_b79k"}
    assert np.load(tmp_path / "image.npy").shape == (N, 3)
    assert np.load(tmp_path / "text.npy").shape == (2 * N - 1, 3)
