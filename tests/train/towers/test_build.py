"""Two towers and their tokens: fixed by the seed, saved and loaded without loss."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from command_line import python
from modgap.core.checks import InputTypeError, InputValueError
from modgap.datasets.digits import describe, load_scans

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train.towers.build import TwoTower, make_two_tower  # noqa: E402
from modgap.train.towers.config import PRESETS, find_config  # noqa: E402
from modgap.train.towers.tokenizer import Tokenizer, train_tokenizer  # noqa: E402

SMALL = ["clip-tiny", "resnet-tiny", "digits"]
VOCABULARY = 300
CAPTIONS = ["A dog runs .", "Two dogs run on the beach .", "A child plays with a red ball ."]


def made(name: str, seed: int = 0, **changes) -> TwoTower:
    text = {"vocab_size": VOCABULARY, **changes.pop("text", {})}
    return make_two_tower({"name": name, "text": text, **changes}, seed)


def inputs(model: TwoTower, n: int = 4, length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    image, text = model.config.image, model.config.text
    generator = torch.Generator().manual_seed(1)
    shape = (n, image.channels, image.image_size, image.image_size)
    tokens = torch.randint(4, text.vocab_size, (n, length), generator=generator)
    tokens[:, 0], tokens[:, -3], tokens[:, -2:] = 2, 3, 0
    return torch.randn(shape, generator=generator), tokens


def rows(model: TwoTower) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        return model.eval()(*inputs(model))


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_fixes_both_towers(name):
    first, again, other = (made(name, seed) for seed in (3, 3, 4))
    for a, b, c in zip(rows(first), rows(again), rows(other), strict=True):
        assert a.shape == (4, first.config.dimension)
        assert torch.equal(a, b)
        assert (a - c).abs().max() > 0.01


@pytest.mark.parametrize("name", SMALL)
def test_making_towers_leaves_the_global_generator_alone(name):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    made(name, seed=8)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("name", SMALL)
def test_every_weight_gets_a_gradient(name):
    """So that several processes can share a model: unused weights would make them wait."""
    model = made(name).train()
    X, Y = model(*inputs(model))
    (X.square().sum() + Y.square().sum()).backward()
    assert [k for k, p in model.named_parameters() if p.grad is None] == []


def test_clip_is_the_clip_of_transformers():
    model = made("clip-tiny").eval()
    small = {
        "hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }  # fmt: skip
    text = {
        "vocab_size": VOCABULARY, "max_position_embeddings": 32,
        "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
    }  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={**small, **text},
        vision_config={**small, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )
    torch.manual_seed(0)
    clip = transformers.CLIPModel(config).eval()
    pixels, tokens = inputs(model)
    with torch.no_grad():
        out = clip(input_ids=tokens, pixel_values=pixels)
        X, Y = model(pixels, tokens)
    unit = torch.nn.functional.normalize
    torch.testing.assert_close(unit(X), out.image_embeds)
    torch.testing.assert_close(unit(Y), out.text_embeds)


@pytest.mark.parametrize(("name", "millions"), [("resnet18", 11.18), ("resnet50", 23.51)])
def test_residual_networks_have_the_size_of_the_published_ones(name, millions):
    """11.69 and 25.56 million weights with the classifier of ImageNet (513,000 and 2,049,000)."""
    with torch.device("meta"):  # its size, not its numbers
        model = made(name)
    count = sum(parameter.numel() for parameter in model.image.body.parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.01)
    assert model.config.dimension == 512
    assert model.text.projection.weight.shape[0] == 512


@pytest.mark.parametrize("size", [96, 112])
def test_resnet18_takes_small_photographs(size):
    model = made("resnet18", dimension=64, image={"image_size": size})
    X, Y = rows(model)
    assert X.shape == Y.shape == (4, 64)


def test_what_follows_the_end_of_a_caption_changes_nothing():
    model = made("resnet-tiny").eval()
    tokens = torch.tensor([[2, 9, 8, 3, 0, 0]])
    other = torch.tensor([[2, 9, 8, 3, 7, 3]])
    with torch.no_grad():
        expected = model.encode_text(tokens[:, :4])
        torch.testing.assert_close(model.encode_text(tokens), expected)
        torch.testing.assert_close(model.encode_text(other), expected)
        changed = model.encode_text(torch.tensor([[2, 9, 7, 3, 0, 0]]))
    assert (changed - expected).abs().max() > 0.01


def digits_towers(n_words: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The towers that embedded the digits which ship with modgap, layer by layer."""
    nn = torch.nn

    def mlp(n_in: int) -> torch.nn.Module:
        layers: list[torch.nn.Module] = []
        for width in (n_in, 256, 256):
            layers += [nn.Linear(width, 256), nn.ReLU(), nn.Dropout(0.1)]
        return nn.Sequential(*layers, nn.Linear(256, 64))

    image = nn.Sequential(nn.Flatten(), mlp(64))
    text = nn.Sequential(nn.EmbeddingBag(n_words, 128, mode="mean", padding_idx=0), mlp(128))
    return image, text


def leaves(model: torch.nn.Module) -> list[torch.nn.Module]:
    return [module for module in model.modules() if not list(module.children())]


def test_digits_has_the_layers_and_weights_of_the_shipped_towers():
    torch.manual_seed(5)
    image, text = digits_towers(40)
    model = made("digits", seed=5, text={"vocab_size": 40})
    for tower, expected in ((model.image, image), (model.text, text)):
        assert list(map(str, leaves(tower))) == list(map(str, leaves(expected)))
        for weight, other in zip(tower.parameters(), expected.parameters(), strict=True):
            assert torch.equal(weight, other)


def test_words_of_the_digits_are_numbered_alphabetically():
    scans, labels = load_scans()
    captions = [caption for wordings in describe(scans[:50], labels[:50]) for caption in wordings]
    import re

    words = [re.findall(r"[a-z-]+", caption.lower()) for caption in captions]
    known = sorted({word for caption in words for word in caption})
    tokenizer = train_tokenizer(captions, kind="words")
    tokens = tokenizer(captions, 32)
    assert tokenizer.vocab_size == len(known) + 1 == int(tokens.max()) + 1
    for row, caption in zip(tokens.tolist(), words, strict=True):
        expected = [1 + known.index(word) for word in caption]
        assert row == expected + [0] * (32 - len(expected))
    unheard = tokenizer([f"{known[0]} zyzzyva {known[1]}"], 3)
    assert unheard.tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("name", SMALL)
def test_a_saved_model_loads_as_it_was(name, tmp_path):
    model = made(name, seed=2, dimension=24).train()
    with torch.no_grad():
        model(*inputs(model))  # moves what batch norms store
    model.save(tmp_path / "model.safetensors")
    loaded = TwoTower.load(tmp_path / "model.safetensors")
    assert loaded.config == model.config
    assert list(loaded.state_dict()) == list(model.state_dict())
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[key])
        assert weight.dtype == loaded.state_dict()[key].dtype
    for a, b in zip(rows(model), rows(loaded), strict=True):
        assert torch.equal(a, b)


def test_a_file_that_is_not_such_a_model_is_refused(tmp_path):
    from modgap.core.tensor_file import read_tensors, write_tensors

    path = tmp_path / "model.safetensors"
    with pytest.raises(InputValueError, match="There is no two-tower model"):
        TwoTower.load(path)
    path.write_bytes(b"\x80\x04 a pickle, say")
    with pytest.raises(InputValueError, match="cannot be read as safetensors"):
        TwoTower.load(path)
    made("clip-tiny").save(path)
    header, tensors = read_tensors(path, "two-tower model")
    kept = {"config": header["config"]}
    first = min(tensors)
    changes = {
        "Missing key": {k: v for k, v in tensors.items() if k != first},
        "Unexpected key": {**tensors, "stranger": np.zeros(2)},
        "size mismatch": {**tensors, first: np.zeros((1, 7))},
    }
    for what, changed in changes.items():
        write_tensors(path, "two-tower model", changed, kept)
        with pytest.raises(InputValueError, match=f"must be those of its config. {what}"):
            TwoTower.load(path)
    write_tensors(path, "two-tower model", tensors, {})
    with pytest.raises(InputValueError, match=r"config of .* must be settings, got None"):
        TwoTower.load(path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("resnet19", r"Did you mean 'resnet18'\?"),
        ({"dimension": 3}, "must say which it changes"),
        ({"name": "resnet18", "dimensions": 3}, r"Did you mean 'dimension'\?"),
        ({"name": "resnet18", "dimension": 0}, "dimension must be at least 1"),
        ({"name": "clip-tiny", "image": {"patch_size": 7}}, "patch_size must divide image_size"),
        ({"name": "clip-tiny", "text": {"heads": 5}}, "heads must divide width, got 5 and 32"),
        ({"name": "resnet18", "image": {"depths": [2, 2]}}, "one number per stage"),
        ({"name": "digits", "text": {"dropout": 1.0}}, "dropout must be a share"),
        ({"name": "digits", "image": {"kind": "cnn"}}, "kind must be one of"),
        ({"name": "digits", "image": {"kind": "words"}}, "image.kind must be one of 'vit'"),
        ({"name": "digits", "image": "cnn"}, "image must be settings of a tower, got 'cnn'"),
        ({"name": "digits", "image": {"stages": 3}}, "stages must be a list of whole numbers"),
    ],
)
def test_configurations_that_make_no_model_are_refused(config, message):
    with pytest.raises((InputValueError, InputTypeError), match=message):
        find_config(config)


def test_every_preset_survives_json():
    for name, config in PRESETS.items():
        assert config.name == name
        assert find_config(json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, x, t: m.encode_image(x[..., :16, :16]), r"\(n, 3, 32, 32\), got \(4, 3, 16, 16"),
        (lambda m, x, t: m.encode_image(x.to(torch.uint8)), "images of floats"),
        (lambda m, x, t: m.encode_text(t.repeat(1, 9)), "at most 32"),
        (lambda m, x, t: m.encode_text(t.float()), "token ids"),
        (lambda *_: made("clip-tiny", text={"eos_token_id": 2}), "eos_token_id must not be 2"),
        (
            lambda *_: made("clip-tiny", text={"eos_token_id": VOCABULARY}),
            "eos_token_id must be between",
        ),
    ],
)
def test_inputs_a_tower_cannot_take_are_refused(call, said):
    model = made("clip-tiny")
    with pytest.raises((InputValueError, InputTypeError), match=said):
        call(model, *inputs(model))


def test_tokens_begin_end_and_are_padded():
    tokenizer = train_tokenizer(CAPTIONS, 280)
    tokens = tokenizer([*CAPTIONS, "", "A DOG runs ."], 40)
    assert tokens.dtype == torch.int64
    assert tokens.shape == (5, 40)
    assert (tokens[:, 0] == 2).all()
    assert ((tokens == 3).sum(1) == 1).all()
    assert tokens.max() < tokenizer.vocab_size <= 280
    for row in tokens.tolist():
        assert set(row[row.index(3) + 1 :]) <= {0}
    assert tokens[3, :3].tolist() == [2, 3, 0]
    assert torch.equal(tokens[4], tokens[0])  # in lower case


def test_a_long_caption_is_cut_and_still_ends():
    tokenizer = train_tokenizer(CAPTIONS, 280)
    whole, short = (tokenizer(CAPTIONS[2:], length)[0].tolist() for length in (60, 6))
    assert short == [*whole[:5], 3]
    exact = whole.index(3) + 1
    assert tokenizer(CAPTIONS[2:], exact)[0].tolist() == whole[:exact]


def test_text_the_tokenizer_never_saw_is_not_lost():
    tokenizer = train_tokenizer(CAPTIONS, 280)
    one, other = tokenizer(["Ein Bär läuft ☃", "Ein Bär läuft ☂"], 40)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_a_saved_tokenizer_loads_as_it_was(kind, tmp_path):
    tokenizer = train_tokenizer(CAPTIONS, 290, kind)
    tokenizer.save(tmp_path / "tokenizer.json")
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = Tokenizer.load(path)
        assert (loaded.vocab_size, loaded.eos_token_id) == (
            tokenizer.vocab_size,
            tokenizer.eos_token_id,
        )
        assert torch.equal(loaded(CAPTIONS, 20), tokenizer(CAPTIONS, 20))
    json.loads((tmp_path / "tokenizer.json").read_text())


def test_a_vocabulary_of_another_project_can_be_loaded(tmp_path):
    """As CLIP's: it ends and pads captions with one token, and pads by itself."""
    from tokenizers import Tokenizer as Plain
    from tokenizers import models, pre_tokenizers, processors

    start, end = "<|startoftext|>", "<|endoftext|>"
    plain = Plain(models.WordLevel({"dog": 0, "a": 1, start: 2, end: 3, "?": 4}, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, 2), (end, 3)]
    )
    plain.enable_padding(length=77, pad_id=3)
    plain.enable_truncation(4)
    plain.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (3, 3)
    assert tokenizer(["a dog", "a a a dog"], 5).tolist() == [
        [2, 1, 0, 3, 3],
        [2, 1, 1, 1, 3],
    ]


def test_the_same_captions_give_the_same_tokens_in_every_process():
    code = (
        "from modgap.train.towers.tokenizer import train_tokenizer;"
        "words = [f'{a}{b} {b}{a}{a}' for a in 'abcdefgh' for b in 'ijklmnop'];"
        "tokens = train_tokenizer(words, 400)(words, 20).tolist()"
    )
    here: dict = {}
    exec(code, here)
    assert python(f"{code}; print(tokens)", PYTHONHASHSEED="7") == str(here["tokens"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: train_tokenizer([]), "at least one caption"),
        (lambda: train_tokenizer("A dog runs ."), "Put it in a list"),
        (lambda: train_tokenizer(["a", 3]), "got int at place 1"),
        (lambda: train_tokenizer(CAPTIONS, 100), "vocab_size must be at least 260"),
        (lambda: train_tokenizer(CAPTIONS, kind="piece"), "kind must be one of 'bpe', 'words'"),
        (lambda: train_tokenizer(CAPTIONS, 280)(CAPTIONS, 2), "context_length must be at least 3"),
        (lambda: Tokenizer.load("nowhere"), "There is no tokenizer"),
    ],
)
def test_tokenizers_refuse_what_they_cannot_use(call, said):
    with pytest.raises((InputValueError, InputTypeError), match=said):
        call()


def test_a_damaged_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputValueError, match="cannot be read as the JSON of a tokenizer"):
        Tokenizer.load(tmp_path)
