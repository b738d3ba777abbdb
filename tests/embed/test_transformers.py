"""hf:NAME gives what transformers gives, for every kind of model."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from embedders import TEXTS, pictures, sounds, write_model
from encoders import write_text_encoder
from modgap.embed.opening import open_model

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

KINDS = ("clip", "siglip", "siglip2", "clap", "align", "blip")
ITEMS = {"image": pictures(), "text": TEXTS, "audio": sounds()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tiny model of each kind, written when first asked for."""
    root = tmp_path_factory.mktemp("models")

    def written(kind):
        place = root / kind
        return place if place.exists() else write_model(place, kind)

    return written


@pytest.fixture(scope="module")
def clip(folder):
    return open_model(f"hf:{folder('clip')}")


def by_the_library(folder, kind, modality):
    """All items at once through the model and its processors, as the library's pages show."""
    network = transformers.AutoModel.from_pretrained(folder).eval()
    if modality == "text":
        padding = "max_length" if kind.startswith("siglip") else True
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        inputs = tokenizer(TEXTS, padding=padding, truncation=True, return_tensors="pt")
    elif modality == "audio":
        extract = transformers.AutoFeatureExtractor.from_pretrained(folder)
        inputs = extract(ITEMS["audio"], sampling_rate=8000, return_tensors="pt")
    else:
        process = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        inputs = process(images=ITEMS["image"], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.inference_mode():
        found = getattr(network, f"get_{modality}_features")(**inputs)
    return found.pooler_output.numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_library_whatever_the_batch(folder, kind):
    model = open_model(f"hf:{folder(kind)}", device="cpu")
    assert model.modalities == (("audio", "text") if kind == "clap" else ("image", "text"))
    for modality in model.modalities:
        expected = by_the_library(folder(kind), kind, modality)
        encode = {"image": model.encode_images, "text": model.encode_texts,
                  "audio": model.encode_sounds}[modality]  # fmt: skip
        rows = encode(ITEMS[modality])
        assert rows.shape == (len(ITEMS[modality]), model.dim)
        np.testing.assert_allclose(rows, expected, atol=1e-5)
        np.testing.assert_allclose(encode(ITEMS[modality], batch_size=2), rows, atol=1e-5)
        backwards = encode(ITEMS[modality][::-1], batch_size=3)[::-1]
        np.testing.assert_allclose(backwards, rows, atol=1e-5)
        lengths = np.linalg.norm(encode(ITEMS[modality], normalise=True), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-5)


def test_temperature_is_one_over_the_logit_scale_and_siglip_has_a_bias(folder, clip):
    assert clip.temperature == pytest.approx(math.exp(-3))
    assert clip.logit_bias is None
    siglip = open_model(f"hf:{folder('siglip')}")
    assert siglip.temperature == pytest.approx(math.exp(-4))
    assert siglip.logit_bias == -9
    align = transformers.AutoModel.from_pretrained(folder("align"))
    expected = align.temperature.detach().item()
    assert open_model(f"hf:{folder('align')}").temperature == pytest.approx(expected)


def test_a_model_says_what_it_takes(folder, clip):
    assert clip.name == f"hf:{folder('clip')}"
    assert (clip.image_side, clip.sampling_rate) == (32, None)
    clap = open_model(f"hf:{folder('clap')}")
    assert (clap.image_side, clap.sampling_rate) == (None, 8000)


def test_a_long_sound_is_cut_to_its_beginning_every_time(folder):
    clap = open_model(f"hf:{folder('clap')}")
    long = np.concatenate(ITEMS["audio"])
    rows = clap.encode_sounds([long, long[:8000], long])
    np.testing.assert_allclose(rows, np.tile(rows[1], (3, 1)), atol=1e-6)


def test_random_weights_are_the_seeds_and_leave_the_callers_generator(folder, clip):
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    one, again, other = (
        open_model(f"hf:{folder('clip')}", random=seed).encode_texts(TEXTS) for seed in (4, 4, 5)
    )
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3
    assert np.abs(one - clip.encode_texts(TEXTS)).max() > 1e-3


def test_random_weights_need_no_weights_on_the_disk(folder, tmp_path):
    for file in folder("clip").iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    found = open_model(f"hf:{tmp_path}", random=4)
    assert found.name.endswith("(random weights, seed 4)")
    expected = open_model(f"hf:{folder('clip')}", random=4).encode_texts(TEXTS)
    np.testing.assert_array_equal(found.encode_texts(TEXTS), expected)


def test_norm_layers_off_are_the_identity(folder):
    bare = open_model(f"hf:{folder('clip')}", norm_layers=False)
    kinds = {type(module) for module in bare.networks[0].modules()}
    assert torch.nn.LayerNorm not in kinds
    assert bare.name.endswith("(no norm layers)")
    network = transformers.AutoModel.from_pretrained(folder("clip")).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.forward = lambda states: states
    pixels = bare.prepare(ITEMS["image"], "image")[0]
    with torch.inference_mode():
        expected = network.get_image_features(**pixels).pooler_output
    np.testing.assert_allclose(bare.encode_images(ITEMS["image"]), expected, atol=1e-5)


def test_input_normalisation_off_leaves_pixels_between_0_and_1(folder):
    plain = open_model(f"hf:{folder('clip')}", input_normalisation=False)
    usual = open_model(f"hf:{folder('clip')}")
    pixels = plain.prepare(ITEMS["image"], "image")[0]["pixel_values"]
    assert float(pixels.min()) >= 0
    assert 0.9 < float(pixels.max()) <= 1
    assert float(usual.prepare(ITEMS["image"], "image")[0]["pixel_values"].min()) < -1
    np.testing.assert_array_equal(plain.encode_texts(TEXTS), usual.encode_texts(TEXTS))


def test_hidden_layers_are_the_librarys_states_pooled_as_the_tower_pools(folder, clip):
    network = transformers.AutoModel.from_pretrained(folder("clip")).eval()
    names = clip.layers("image")
    assert names == tuple(f"vision_model.encoder.layers.{k}" for k in range(3))
    found = clip.encode_layers(ITEMS["image"], "image", batch_size=3)
    pixels = clip.prepare(ITEMS["image"], "image")[0]
    with torch.inference_mode():
        states = network.vision_model(**pixels, output_hidden_states=True)
        # The tower ends in a norm and a projection of the class token.
        last = network.visual_projection(
            network.vision_model.post_layernorm(torch.from_numpy(found[names[-1]]))
        )
    for name, expected in zip(names, states.hidden_states[1:], strict=True):
        np.testing.assert_allclose(found[name], expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(last, clip.encode_images(ITEMS["image"]), atol=1e-5)


def test_the_last_hidden_layer_of_texts_is_read_where_the_tower_reads(folder, clip):
    network = clip.networks[0]
    last = clip.layers("text")[-1]
    found = clip.encode_layers(TEXTS, "text", [last], batch_size=4)[last]
    with torch.inference_mode():
        ended = network.text_model.final_layer_norm(torch.from_numpy(found))
        rows = network.text_projection(ended)
    np.testing.assert_allclose(rows, clip.encode_texts(TEXTS), atol=1e-5)


def test_any_module_is_a_layer_and_unknown_ones_suggest_near_ones(clip):
    rows = clip.encode_layers(ITEMS["image"], "image", ["visual_projection"])
    expected = clip.encode_images(ITEMS["image"])
    np.testing.assert_allclose(rows["visual_projection"], expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"Did you mean 'vision_model\.encoder.layers.1'"):
        clip.encode_layers(ITEMS["image"], "image", ["vision_model.encoder.layer.1"])
    with pytest.raises(ValueError, match="image does not go through 'text_projection'"):
        clip.encode_layers(ITEMS["image"], "image", ["text_projection"])


def test_threads_may_prepare_at_the_same_time(clip):
    batches = [TEXTS[k % 5 :] for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda texts: clip.prepare(texts, "text"), batches))
    for texts, prepared in zip(batches, found, strict=True):
        expected = clip.prepare(texts, "text")
        assert torch.equal(prepared[0]["input_ids"], expected[0]["input_ids"])


@pytest.mark.parametrize("count", [2, 3])
def test_several_devices_share_a_batch_in_order(folder, clip, monkeypatch, count):
    from modgap.embed import torch_model

    places = (torch.device("cpu"),) * count
    monkeypatch.setattr(torch_model, "find_devices", lambda name: places)
    many = open_model(f"hf:{folder('clip')}", device="cuda:all")
    assert len({id(network) for network in many.networks}) == count
    assert len(many.prepare(TEXTS, "text")) == count
    for n in (1, 2, 7):
        np.testing.assert_allclose(
            many.encode_texts(TEXTS[:n]), clip.encode_texts(TEXTS[:n]), atol=1e-5
        )
    np.testing.assert_allclose(
        many.encode_images(ITEMS["image"], batch_size=4), clip.encode_images(ITEMS["image"]),
        atol=1e-5,
    )  # fmt: skip


def test_bfloat16_is_close_and_float32_by_default_on_a_processor(folder, clip):
    half = open_model(f"hf:{folder('clip')}", device="cpu", precision="bfloat16")
    assert (clip.precision, half.precision) == (torch.float32, torch.bfloat16)
    rows, expected = half.encode_texts(TEXTS), clip.encode_texts(TEXTS)
    assert rows.dtype == np.float32
    assert 0 < np.abs(rows - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "cuda"}, "torch finds no GPU here"),
        ({"device": "cuda:1"}, "torch finds no GPU here"),
        ({"device": "cuda:all"}, "torch finds no GPU here"),
        ({"device": "toaster"}, "device must be"),
        ({"precision": "float8"}, "precision must be one of"),
    ],
)
def test_what_a_model_cannot_run_on_is_a_sentence(settings, said, folder):
    if "GPU" in said and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=said):
        open_model(f"hf:{folder('clip')}", **settings)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB."),
            r"not enough memory on cpu .*Lower the batch size\.",
        ),
        (RuntimeError("shapes cannot be multiplied"), "^shapes cannot be multiplied$"),
    ],
)
def test_only_a_lack_of_memory_says_to_lower_the_batch(error, said, clip, monkeypatch):
    def fails(*args, **more):
        raise error

    monkeypatch.setattr(clip, "features", fails)
    with pytest.raises(RuntimeError, match=said):
        clip.encode_texts(TEXTS)


def test_towers_that_share_no_space_are_a_sentence(tmp_path, clip):
    write_model(tmp_path / "align", "align")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "align")
    config.projection_dim = 10
    transformers.AlignModel(config).save_pretrained(tmp_path / "align")
    with pytest.raises(ValueError, match="image rows of 24 and text rows of 10 columns"):
        open_model(f"hf:{tmp_path / 'align'}")
    with pytest.raises(ValueError, match="is a BertModel, which embeds no modality in a shared"):
        open_model(f"hf:{write_text_encoder(tmp_path / 'bert')}")
    with pytest.raises(ValueError, match="embeds image and text, not audio"):
        clip.encode_sounds(ITEMS["audio"])
