"""``modgap vslerp``: rows along the way, the nearest images of a bank, and decoded pictures."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

import reference
from command_line import modgap
from modgap.core.checks import InputValueError, MissingExtraError
from modgap.embed import CallableModel, embed
from modgap.embed.interpolation import interpolate, open_end, open_image_bank
from modgap.embed.unclip import UnCLIP
from modgap.io import open_embeddings

COLOURS = {"red": (250, 5, 5), "green": (5, 250, 5), "blue": (5, 5, 250), "grey": (90, 90, 90)}

ANGLES = np.linspace(-0.6, 2.2, 5)
ARC = [(round(120 + 100 * np.cos(t)), 120, round(120 + 100 * np.sin(t))) for t in ANGLES]


def colours(images):
    """The mean colour of each image: a row that anybody can check."""
    return np.array([np.asarray(image).mean(axis=(0, 1)) / 255 for image in images])


MODEL = CallableModel(
    images=colours,
    texts=lambda texts: (
        np.array([np.array(COLOURS[text.split()[-1]]) / 255 for text in texts])
        if texts != ["one"]
        else np.ones((1, 3))
    ),
    name="colours",
)


@pytest.fixture
def photos(tmp_path):
    """Images of one colour each, from red to blue along an arc around grey."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(5):
        colour = ARC[k]
        Image.new("RGB", (40, 30), colour).save(folder / f"{k}.png")
    return folder


@pytest.fixture
def bank(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.embed.shards.PROBE", "a red")
    rows = tmp_path / "rows"
    embed(MODEL, photos, rows)
    return rows


@pytest.fixture
def ends(tmp_path):
    rows = np.random.default_rng(3).normal(size=(6, 4)) + 2
    path = tmp_path / "image.npy"
    np.save(path, rows)
    return path, rows


# Rows


def test_every_row_is_that_of_the_formula(ends, tmp_path):
    path, rows = ends
    out = tmp_path / "way.npy"
    ran = modgap(
        "vslerp", f"{path}:1", f"{path}:4", "--alpha", "0,0.5,1", "--theta", "0,0.3,1", "-o", out
    )
    assert ran.status == 0, ran.err
    found = np.load(out).reshape(3, 3, 4)
    for a, alpha in enumerate((0, 0.5, 1)):
        for s, theta in enumerate((0, 0.3, 1)):
            want = reference.vslerp(rows[1], rows[4], theta, alpha, rows.mean(axis=0))
            np.testing.assert_allclose(found[a, s], want, rtol=1e-5)
    assert "α = 0.5, θ = 0.3" in ran.out


def test_the_mean_is_of_the_rows_that_were_named(ends, tmp_path):
    path, rows = ends
    other = tmp_path / "other.npy"
    np.save(other, rows + 5)
    out = tmp_path / "way.safetensors"
    ran = modgap(
        "vslerp", f"{path}:0", f"{other}:1", "--mean", other, "--alpha", "1", "--steps", "3",
        "-o", out,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    want = reference.vslerp(rows[0], rows[1] + 5, 0.5, 1, rows.mean(axis=0) + 5)
    np.testing.assert_allclose(load_file(out)["embedding"][1], want, rtol=1e-5)
    ran = modgap("vslerp", f"{path}:0", f"{path}:1", "--steps", 2, "-o", tmp_path / "way.parquet")
    assert ran.status == 0, ran.err
    assert open_embeddings(tmp_path / "way.parquet").ids[3] == "α = 0.5, θ = 1"


def test_steps_that_would_take_all_memory_are_refused(ends):
    path, _ = ends
    ran = modgap("vslerp", f"{path}:0", f"{path}:1", "--steps", 10_000_000)
    assert ran.status == 2
    assert "steps must be between 2 and 10000, got 10000000" in ran.err


def test_around_the_mean_steps_keep_their_distance_and_slerp_comes_nearer():
    mean = np.array([4.0, 0, 0])
    a, b = np.array([[4.0, 1, 0], [4, 0, 1]])
    radii = interpolate(a, b, thetas=[0, 0.5, 1], alphas=[0, 1], mean=mean).radii
    np.testing.assert_allclose(radii[1], 1)
    np.testing.assert_allclose(radii[0, [0, 2]], 1)
    assert radii[0, 1] < 0.8


def test_the_document_says_where_the_rows_lie_and_not_what_they_are(ends):
    path, _ = ends
    found = modgap("vslerp", f"{path}:1", f"{path}:4", "--alpha", "0,1", "--json").json
    assert found["schema"] == "modgap/vslerp/2"
    assert np.array(found["radii"]).shape == (2, 7)
    assert "rows" not in found


def test_rows_are_named_by_id_too(bank, tmp_path):
    found = open_end(f"{bank}:3.png")
    np.testing.assert_allclose(found.row, np.array(ARC[3]) / 255, atol=1e-6)


def test_images_and_texts_are_embedded_by_the_model(photos):
    image = open_end(str(photos / "0.png"), MODEL)
    np.testing.assert_allclose(image.row, np.array(ARC[0]) / 255, atol=1e-6)
    np.testing.assert_allclose(open_end("a red", MODEL).row, np.array([250, 5, 5]) / 255)


# Pictures


def test_the_nearest_images_go_from_one_end_to_the_other(bank, photos):
    held = open_image_bank(bank, photos)
    rows = held.rows.rows()
    found = interpolate(
        rows[0], rows[4], thetas=np.linspace(0, 1, 5), alphas=[0, 1], mean=rows.mean(0), bank=held
    )
    assert list(found.names[1]) == sorted(found.names[1])
    assert found.names[1][::2] == ("0.png", "2.png", "4.png")
    assert Image.open(io.BytesIO(held.image(2))).getpixel((0, 0)) == ARC[2]


def test_steps_in_between_find_others_than_the_ends(bank):
    held = open_image_bank(bank)
    rows = held.rows.rows()
    ways = [
        interpolate(
            rows[0], rows[4], thetas=[0, 0.02, 0.98, 1], alphas=[0], bank=held, with_ends=with_ends
        ).names[0]
        for with_ends in (False, True)
    ]
    assert ways[0] == ("0.png", "1.png", "3.png", "4.png")
    assert ways[1] == ("0.png", "0.png", "4.png", "4.png")


@pytest.mark.parametrize("suffix", ["png", "html"])
def test_a_filmstrip_has_a_row_for_each_alpha_and_a_column_for_each_step(
    bank, photos, tmp_path, suffix
):
    picture = tmp_path / f"way.{suffix}"
    ran = modgap(
        "vslerp", f"{bank}:0", f"{bank}:4", "--bank", bank, "--alpha", "0,1", "--steps", 3,
        "--images", photos, "--picture", picture,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "2.png" in ran.out
    assert "missing" not in ran.err
    if suffix == "html":
        page = picture.read_text()
        assert page.count('<img src="data:image/jpeg;base64,') == 6
        assert page.count("<th>α = ") == 2
        assert page.count("<th>θ = ") == 3
    else:
        with Image.open(picture) as image:
            assert image.width > image.height


def test_images_of_a_file_of_rows_are_given_beside_it(bank, photos, tmp_path):
    rows = tmp_path / "rows.npy"
    np.save(rows, open_image_bank(bank).rows.rows())
    held = open_image_bank(rows, photos)
    assert held.image(4) == (photos / "4.png").read_bytes()
    (photos / "5.png").write_bytes((photos / "4.png").read_bytes())
    with pytest.raises(InputValueError, match="an image for each of the 5 rows"):
        open_image_bank(rows, photos)


def test_an_image_that_is_gone_is_named_and_leaves_its_place_empty(bank, photos, tmp_path):
    (photos / "0.png").write_bytes(b"no image")
    picture = tmp_path / "way.html"
    ran = modgap(
        "vslerp", f"{bank}:0", f"{bank}:4", "--bank", bank, "--images", photos,
        "--alpha", "1", "--picture", picture,
    )  # fmt: skip
    assert ran.status == 0
    assert "images are missing, the first is 0.png: " in ran.err
    assert picture.read_text().count("<img") < 7


def test_a_filmstrip_asks_for_the_images_of_its_bank(bank, tmp_path):
    ran = modgap("vslerp", f"{bank}:0", f"{bank}:4", "--bank", bank, "--picture", "way.png")
    assert ran.status == 2
    assert f"needs the images of {bank}: name them with --images." in ran.err


def test_names_of_images_are_text_and_never_markup(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.embed.shards.PROBE", "a red")
    (photos / "0.png").rename(photos / "<b>0.png")
    embed(MODEL, photos, tmp_path / "rows")
    picture = tmp_path / "way.html"
    modgap(
        "vslerp", f"{tmp_path}/rows:4", f"{tmp_path}/rows:1", "--bank", tmp_path / "rows",
        "--images", photos, "--picture", picture,
    )  # fmt: skip
    assert "<b>" not in picture.read_text()
    assert "&lt;b&gt;0.png" in picture.read_text()


# Decoding


class StandIn:
    """What diffusers' pipelines do with rows, as far as modgap sees it: a picture of one colour."""

    calls: list[dict[str, Any]]

    def __init__(self):
        self.calls = []
        self.image_encoder = types.SimpleNamespace(config=types.SimpleNamespace(projection_dim=3))

    def to(self, device):
        return self

    def set_progress_bar_config(self, **_):
        pass

    def _made(self, rows, **more):
        self.calls.append({"rows": rows, **more})
        colour = tuple(int(255 * value) for value in rows[0].clamp(0, 1))
        return types.SimpleNamespace(images=[Image.new("RGB", (32, 32), colour)])


class UnCLIPImageVariationPipeline(StandIn):
    def __call__(self, image=None, *, image_embeddings, generator):
        return self._made(image_embeddings, seed=generator.initial_seed())


class StableUnCLIPImg2ImgPipeline(StandIn):
    def __call__(self, image=None, *, image_embeds, generator):
        return self._made(image_embeds, seed=generator.initial_seed())


class TextToImagePipeline(StandIn):
    pass


@pytest.fixture
def diffusers(monkeypatch):
    """A module in place of diffusers, whose hub has three pipelines."""
    hub = {
        "karlo": UnCLIPImageVariationPipeline(),
        "stable": StableUnCLIPImg2ImgPipeline(),
        "other": TextToImagePipeline(),
    }

    class DiffusionPipeline:
        @staticmethod
        def from_pretrained(name, torch_dtype):
            if name not in hub:
                raise OSError(f"{name} is not cached.\nMore lines.")
            return hub[name]

    module = types.ModuleType("diffusers")
    module.DiffusionPipeline = DiffusionPipeline
    module.hub = hub
    monkeypatch.setitem(sys.modules, "diffusers", module)
    return module


@pytest.mark.parametrize("name", ["karlo", "stable"])
def test_rows_are_decoded_one_by_one_from_the_same_noise(diffusers, name):
    rows = np.array([[1.0, 0, 0], [0, 0, 1.0]])
    red, blue = UnCLIP(name, device="cpu").decode(rows, seed=7)
    assert (red.getpixel((0, 0)), blue.getpixel((0, 0))) == ((255, 0, 0), (0, 0, 255))
    calls = diffusers.hub[name].calls
    assert [call["rows"].shape for call in calls] == [(1, 3), (1, 3)]
    assert [call["seed"] for call in calls] == [7, 7]


def test_the_command_writes_frames_and_a_filmstrip(diffusers, bank, tmp_path):
    frames, picture = tmp_path / "frames", tmp_path / "way.html"
    ran = modgap(
        "vslerp", f"{bank}:0", f"{bank}:4", "--alpha", "0,1", "--steps", 3, "--decoder", "karlo",
        "--frames", frames, "--picture", picture,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert sorted(path.name for path in frames.iterdir()) == [
        f"alpha{alpha}_step0{step}.png" for alpha in (0, 1) for step in range(3)
    ]
    assert Image.open(frames / "alpha1_step00.png").getpixel((0, 0)) == ARC[0]
    assert picture.read_text().count("<img") == 6


def test_a_decoder_is_refused_in_words(diffusers):
    with pytest.raises(InputValueError, match=r"hf download nowhere$"):
        UnCLIP("nowhere")
    with pytest.raises(InputValueError, match="a TextToImagePipeline, which takes no image rows"):
        UnCLIP("other")
    with pytest.raises(InputValueError, match=r"rows of 3 columns, got shape \(2, 5\)"):
        list(UnCLIP("karlo", device="cpu").decode(np.ones((2, 5))))


def test_without_diffusers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'modgap\[unclip\]'"):
        UnCLIP("karlo")


# Refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("image.npy:9", "image.npy:1"), "must name a row from 0 to 5, got 9"),
        (("image.npy:bee.jpg", "image.npy:1"), "has no ids, got 'bee.jpg'"),
        (("image.npy", "image.npy:1"), "such as image.npy:ROW. Images and texts need --model"),
        (("a dog", "image.npy:1"), "must be a row of a file, such as image.npy:12"),
        (("image.npy:0", "wide.npy:1"), "same number of columns, got 4 and 5"),
        (("image.npy:0", "other.npy:1"), "name the rows that it is of with --mean"),
        (("image.npy:0", "image.npy:1", "--alpha", "a,b"), "numbers with commas between"),
        (("image.npy:0", "image.npy:1", "--picture", "a.png"), "--bank, or --decoder"),
        (("image.npy:0", "image.npy:1", "--picture", "a.doc", "--bank", "x"), "must end in .png"),
        (("image.npy:0", "image.npy:1", "--images", "x"), "name its rows with --bank"),
        (("image.npy:0", "image.npy:1", "--frames", "x"), "name one with --decoder"),
        (("image.npy:0", "image.npy:1", "--decoder", "x"), "say where with --frames"),
        (("image.npy:0", "image.npy:0", "--alpha", "1", "--mean", "one.npy"), "differ from alpha"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(ends, tmp_path, monkeypatch, words, said):
    _, rows = ends
    np.save(tmp_path / "wide.npy", np.ones((2, 5)))
    np.save(tmp_path / "other.npy", rows)
    np.save(tmp_path / "one.npy", rows[:1])
    monkeypatch.chdir(tmp_path)
    ran = modgap("vslerp", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_an_image_that_is_not_there_is_no_text():
    with pytest.raises(InputValueError, match=r"There is no image 'bee\.jpg'"):
        open_end("bee.jpg", MODEL)
