"""Small encoders: their weights hang on the seed, their rows on the inputs alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from modgap.towers import (
    KINDS,
    PRESETS,
    digit_inputs,
    embed,
    fit_classifier,
    make_tower,
    noise_inputs,
    tokenise,
    without_normalisation,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_fixes_the_rows(kind):
    inputs = noise_inputs(kind, 6)
    first, again, other = (embed(make_tower(kind, seed=s), inputs) for s in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (6, 64)
    assert first.dtype == np.float32
    assert abs(first - other).max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_hang_on_their_batch(kind):
    inputs = digit_inputs(kind, 9)
    tower = make_tower(kind)
    whole = embed(tower, inputs)
    np.testing.assert_allclose(embed(tower, inputs, batch_size=4), whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(embed(tower, inputs[::-1].copy())[::-1], whole, rtol=1e-4, atol=1e-5)
    as_tensor = embed(tower, torch.from_numpy(inputs))
    np.testing.assert_array_equal(as_tensor, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_the_small_preset_gives_rows_of_one_dimension(kind):
    inputs = digit_inputs(kind, 2, "small")
    assert embed(make_tower(kind, "small"), inputs).shape == (2, 256)


def test_making_a_tower_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    make_tower("mlp", seed=8)
    assert torch.equal(torch.rand(2), expected)


def test_the_mlp_has_the_weights_of_liang():
    linear = make_tower("mlp", seed=1).model[3]
    # 64 · 64 weights N(0, 1/64): their standard deviation is off by 1/√(2 · 4,096) of itself.
    assert float(linear.weight.detach().std()) == pytest.approx(1 / 8, rel=4.5 / (2 * 4096) ** 0.5)
    assert float(linear.bias.detach().std()) == pytest.approx(1 / 8, rel=4.5 / (2 * 64) ** 0.5)


def test_a_text_row_is_read_where_the_caption_ends():
    tower = make_tower("text")
    tokens = tokenise(["a bold nine", "a faint nine"])
    longer = tokens.copy()
    longer[:, 10] = 7  # past the end, which a causal transformer never looks back from
    np.testing.assert_allclose(embed(tower, longer), embed(tower, tokens), atol=1e-5)
    changed = tokens.copy()
    changed[:, 1] = 9
    assert abs(embed(tower, changed) - embed(tower, tokens)).max() > 0.01


def test_gradients_flow_through_a_call():
    tower = make_tower("mlp")
    rows = tower(torch.from_numpy(noise_inputs("mlp", 3)))
    rows.sum().backward()
    assert tower.model[1].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["resnet", "vision", "text"])
def test_normalisation_layers_are_replaced_in_a_copy(kind):
    tower = make_tower(kind)
    bare = without_normalisation(tower)

    def norms(model):
        return [m for m in model.modules() if "Norm" in type(m).__name__]

    assert norms(tower.model)
    assert not norms(bare.model)
    inputs = noise_inputs(kind, 4)
    before, after = embed(tower, inputs), embed(bare, inputs)
    np.testing.assert_array_equal(before, embed(make_tower(kind), inputs))
    assert np.all(np.isfinite(after))
    if kind == "resnet":  # a batch norm that was never trained divides by 1
        np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4)
    else:
        assert abs(after - before).max() > 0.1


def test_a_plain_torch_model_loses_its_norms_too():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GroupNorm(1, 3))
    assert isinstance(without_normalisation(model)[1], torch.nn.Identity)
    assert isinstance(without_normalisation(torch.nn.LayerNorm(3)), torch.nn.Identity)
    with pytest.raises(ValueError, match=r"no normalisation layer to remove\. Use it as it is"):
        without_normalisation(make_tower("mlp"))


def test_a_classifier_learns_and_leaves_the_tower_as_it_was():
    from modgap.datasets.digits import load_scans

    inputs, labels = digit_inputs("mlp", 300), load_scans()[1][:300]
    tower = make_tower("mlp")
    before = embed(tower, inputs)
    torch.manual_seed(1)
    trained, accuracy = fit_classifier(tower, inputs, labels, epochs=4)
    torch.manual_seed(2)  # the training has a generator of its own
    again, _ = fit_classifier(tower, inputs, labels, epochs=4)
    assert accuracy > 0.5  # chance is 0.1
    np.testing.assert_array_equal(embed(tower, inputs), before)
    np.testing.assert_array_equal(embed(trained, inputs), embed(again, inputs))
    assert abs(embed(trained, inputs) - before).max() > 0.01


def test_digits_are_enlarged_pixel_by_pixel():
    from modgap.datasets.digits import load_scans

    scans, _ = load_scans()
    images = digit_inputs("vision", 5, standardise=False)
    np.testing.assert_allclose(images[:, 0, ::2, ::2], scans[:5] / 16)
    np.testing.assert_array_equal(images[:, :, ::2, ::2], images[:, :, 1::2, 1::2])
    everything = digit_inputs("vision")
    assert everything.shape == (1797, 1, 16, 16)
    assert (everything.mean(), everything.std()) == pytest.approx((0, 1), abs=1e-4)


def test_captions_begin_and_end():
    preset = PRESETS["tiny"]
    captions = digit_inputs("text")
    assert captions.shape == (1797, preset.context_length)
    assert np.all(captions[:, 0] == preset.bos_token_id)
    assert np.all(np.sum(captions == preset.eos_token_id, axis=1) == 1)
    assert np.all((captions == preset.eos_token_id).argmax(1) == captions.argmax(1))
    np.testing.assert_array_equal(digit_inputs("text", 3), captions[:3])


def test_noise_captions_hold_words_only_between_their_ends():
    preset = PRESETS["tiny"]
    words = noise_inputs("text", 200)[:, 1:-1]
    assert words.min() == preset.bos_token_id + 1
    assert words.max() == preset.eos_token_id - 1


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_library_names_its_extra(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing}.*pip install 'modgap\[towers\]'"):
        make_tower("vision")


IMAGES = np.zeros((2, 1, 16, 16), np.float32)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_tower("resnt"), r"kind must be one of .* Did you mean 'resnet'\?"),
        (lambda: make_tower("mlp", "large"), "preset must be one of 'tiny', 'small'"),
        (lambda: make_tower("mlp", seed=-1), "seed must be at least 0, got -1"),
        (
            lambda: embed(make_tower("vision"), IMAGES[:, :, :8]),
            r"images of shape \(n, 1, 16, 16\)",
        ),
        (lambda: embed(make_tower("mlp"), IMAGES.astype(int)), "images of floats, got torch.int64"),
        (lambda: embed(make_tower("text"), IMAGES[:, 0, 0]), "takes token ids, got torch.float32"),
        (
            lambda: embed(make_tower("text"), np.full((1, 4), 256)),
            "from 0 to 255, got 256",
        ),
        (
            lambda: embed(make_tower("text"), np.ones((1, 49), int)),
            r"\(n, at most 48\), got \(1, 49",
        ),
        (lambda: embed(make_tower("mlp"), IMAGES, batch_size=0), "batch_size must be at least 1"),
        (lambda: digit_inputs("mlp", 1798), "n must be between 1 and 1797, got 1798"),
        (lambda: noise_inputs("text", 0), "n must be at least 1, got 0"),
        (lambda: tokenise(["word " * 47]), "A caption has 47 words, and the preset takes 46"),
        (
            lambda: tokenise([f"word{i}" for i in range(300)]),
            "300 different words, and the preset has room for 253. Take a larger preset",
        ),
        (
            lambda: fit_classifier(make_tower("mlp"), IMAGES, [1, 1]),
            "labels must give one of at least two classes to each of 2 inputs",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
