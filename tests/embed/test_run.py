"""run:FOLDER gives the rows that the evaluation of the run has."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from modgap.core.checks import InputError
from modgap.embed.opening import open_model
from modgap.io import open_items, open_pair
from training import bars_config, digits_config, few_digits, write_captions

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

from modgap.train import load_data, train  # noqa: E402
from modgap.train.hooks import embed_split  # noqa: E402
from modgap.train.towers.build import TwoTower  # noqa: E402


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """A run on coloured bars, with its held-out images and captions."""
    place = tmp_path_factory.mktemp("bars")
    data = write_captions(place)
    config = bars_config(data, train={"epochs": 1})
    result = train(config, output=place / "run")
    held_out = open_items(data).split("test")
    images = [
        Image.open(io.BytesIO(held_out.stored(row))).convert("RGB") for row in range(len(held_out))
    ]
    captions = [caption for row in range(len(held_out)) for caption in held_out.captions(row)]
    return place / "run", images, captions, result


def test_rows_are_those_of_the_runs_evaluation(bars):
    folder, images, captions, result = bars
    model = open_model(f"run:{folder}", device="cpu")
    # What the loop calls after a step, on data that it reads by itself.
    data = load_data(bars_config(folder.parent / "bars.parquet").data)
    network = TwoTower.load(folder / "model.safetensors")
    X, Y, _ = embed_split(network, data.test, data.prepare, batch_size=64)
    rows = model.encode_images(images)
    np.testing.assert_allclose(rows, X, atol=1e-5)
    np.testing.assert_allclose(model.encode_texts(captions), Y, atol=1e-5)
    backwards = model.encode_images(images[::-1], batch_size=5)[::-1]
    np.testing.assert_allclose(backwards, rows, atol=1e-5)
    assert model.temperature == pytest.approx(result.temperature)
    assert (model.dim, model.image_side) == (X.shape[1], 32)
    written = open_pair(folder / "embeddings.safetensors").x.rows()  # unit rows in float16
    np.testing.assert_allclose(model.encode_images(images, normalise=True), written, atol=1e-3)


def test_a_run_on_digits_takes_grey_scans(tmp_path):
    from sklearn.datasets import load_digits

    train(digits_config(train={"steps": 2}), output=tmp_path / "run", data=few_digits())
    model = open_model(f"run:{tmp_path / 'run'}", device="cpu")
    scans = load_digits().images[:3]
    images = [Image.fromarray((scan * 255 / 16).astype(np.uint8)).convert("RGB") for scan in scans]
    pixels = model.prepare(images, "image")[0]["pixels"]
    np.testing.assert_allclose(pixels[:, 0], scans / 16, atol=1 / 255)
    assert model.encode_texts(["a small seven"]).shape == (1, model.dim)


def test_hidden_layers_end_in_the_rows(bars):
    folder, images, captions, _ = bars
    model = open_model(f"run:{folder}", device="cpu")
    network = model.networks[0]
    for modality, items, norm in (
        ("image", images, network.image.body.post_layernorm),
        ("text", captions, network.text.body.final_layer_norm),
    ):
        last = model.layers(modality)[-1]
        rows = torch.from_numpy(model.encode_layers(items, modality, [last])[last])
        with torch.inference_mode():
            expected = getattr(network, modality).projection(norm(rows))
        encode = model.encode_images if modality == "image" else model.encode_texts
        np.testing.assert_allclose(encode(items), expected, atol=1e-5)


def test_random_weights_and_no_normalisation(bars):
    folder, images, captions, _ = bars
    one, again, other = (
        open_model(f"run:{folder}", random=seed).encode_texts(captions) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3
    bare = open_model(f"run:{folder}", random=1, norm_layers=False, input_normalisation=False)
    pixels = bare.prepare(images, "image")[0]["pixels"]
    assert 0 <= float(pixels.min()) < float(pixels.max()) <= 1


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"[" * 100_000),
        ("config.json", b'{"data": 5}'),
        ("result.json", b'{"temperature": "warm"}'),
        ("tokenizer.json", b"\xff\xfe"),
        ("model.safetensors", b"cut"),
    ],
)
def test_damaged_files_of_a_run_are_one_sentence(bars, tmp_path, file, content):
    shutil.copytree(bars[0], tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(content)
    with pytest.raises(InputError) as raised:
        open_model(f"run:{tmp_path / 'run'}")
    assert str(tmp_path / "run") in str(raised.value)


def test_an_architecture_of_a_run_that_is_none_is_one_sentence(bars, tmp_path):
    shutil.copytree(bars[0], tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    with safe_open(path, "np") as file:
        noted = file.metadata()
    for architecture in ("[" * 100_000, "[1]", '{"model_type": "bert", "hidden_size": "x"}'):
        header = json.loads(noted["modgap"])
        header["config"]["text"] |= {"kind": "encoder", "architecture": architecture}
        save_file(load_file(path), path, metadata={**noted, "modgap": json.dumps(header)})
        with pytest.raises(InputError, match="cannot be opened as a model of modgap"):
            open_model(f"run:{path.parent}")
