"""Small encoders: their weights depend on the seed, their rows on the inputs alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from modgap.simulate.cone_networks import (
    NETWORKS,
    digit_inputs,
    fit_classifier,
    make_network,
    network_config,
    network_rows,
    noise_inputs,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from modgap.train.towers.normalisation import (  # noqa: E402
    PixelNormalisation,
    without_normalisation,
)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_seed_fixes_the_rows(kind):
    inputs = noise_inputs(kind, 6)
    first, again, other = (network_rows(make_network(kind, seed=s), inputs) for s in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (6, 64)
    assert first.dtype == np.float32
    assert abs(first - other).max() > 0.01


@pytest.mark.parametrize("kind", NETWORKS)
def test_rows_do_not_depend_on_their_batch(kind):
    inputs = digit_inputs(kind, 9)
    tower = make_network(kind)
    whole = network_rows(tower, inputs)
    few = np.concatenate([network_rows(tower, part) for part in np.split(inputs, [4])])
    np.testing.assert_allclose(few, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_small_preset_gives_rows_of_one_dimension(kind):
    inputs = digit_inputs(kind, 2, "small")
    assert network_rows(make_network(kind, "small"), inputs).shape == (2, 256)


def test_the_mlp_has_the_weights_of_liang():
    linear = [m for m in make_network("mlp", seed=1).modules() if isinstance(m, torch.nn.Linear)][1]
    # 64 · 64 weights N(0, 1/64): their standard deviation is off by 1/√(2 · 4,096) of itself.
    assert float(linear.weight.detach().std()) == pytest.approx(1 / 8, rel=4.5 / (2 * 4096) ** 0.5)
    assert float(linear.bias.detach().std()) == pytest.approx(1 / 8, rel=4.5 / (2 * 64) ** 0.5)


def test_a_text_row_is_read_where_the_caption_ends():
    tower = make_network("transformer")
    tokens = digit_inputs("transformer", 2)
    longer = tokens.copy()
    longer[:, -1] = 7  # past the end, which a causal transformer never looks back from
    np.testing.assert_allclose(network_rows(tower, longer), network_rows(tower, tokens), atol=1e-5)
    changed = tokens.copy()
    changed[:, 1] = 9
    assert abs(network_rows(tower, changed) - network_rows(tower, tokens)).max() > 0.01


@pytest.mark.parametrize("kind", ["resnet", "vit", "transformer"])
def test_normalisation_layers_are_replaced_in_a_copy(kind):
    tower = make_network(kind)
    bare = without_normalisation(tower)

    def norms(model):
        return [m for m in model.modules() if "Norm" in type(m).__name__]

    assert norms(tower)
    assert not norms(bare)
    inputs = noise_inputs(kind, 4)
    before, after = network_rows(tower, inputs), network_rows(bare, inputs)
    np.testing.assert_array_equal(before, network_rows(make_network(kind), inputs))
    assert np.all(np.isfinite(after))
    if kind == "resnet":  # a batch norm that was never trained divides by 1
        np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4)
    else:
        assert abs(after - before).max() > 0.1


def test_a_plain_torch_model_loses_its_norms_too():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GroupNorm(1, 3))
    assert isinstance(without_normalisation(model)[1], torch.nn.Identity)
    assert isinstance(without_normalisation(torch.nn.LayerNorm(3)), torch.nn.Identity)
    assert isinstance(without_normalisation(PixelNormalisation(0.5, 0.5)), torch.nn.Identity)
    with pytest.raises(ValueError, match=r"no normalisation layer to remove\. Use it as it is"):
        without_normalisation(make_network("mlp"))


def test_a_classifier_learns_and_leaves_the_tower_as_it_was():
    from modgap.datasets.digits import load_scans

    inputs, labels = digit_inputs("mlp", 300), load_scans()[1][:300]
    tower = make_network("mlp")
    before = network_rows(tower, inputs)
    torch.manual_seed(1)
    trained, accuracy = fit_classifier(tower, inputs, labels, 4, 0)
    torch.manual_seed(2)  # the training has a generator of its own
    again, _ = fit_classifier(tower, inputs, labels, 4, 0)
    assert accuracy > 0.5  # chance is 0.1
    np.testing.assert_array_equal(network_rows(tower, inputs), before)
    np.testing.assert_array_equal(network_rows(trained, inputs), network_rows(again, inputs))
    assert abs(network_rows(trained, inputs) - before).max() > 0.01


def test_digits_are_enlarged_pixel_by_pixel():
    from modgap.datasets.digits import load_scans

    scans, _ = load_scans()
    images = digit_inputs("vit", 5, standardise=False)
    np.testing.assert_allclose(images[:, 0, ::2, ::2], scans[:5] / 16)
    np.testing.assert_array_equal(images[:, :, ::2, ::2], images[:, :, 1::2, 1::2])
    everything = digit_inputs("vit")
    assert everything.shape == (1797, 1, 16, 16)
    assert (everything.mean(), everything.std()) == pytest.approx((0, 1), abs=1e-4)


def test_captions_begin_and_end():
    config = network_config("transformer")
    captions = digit_inputs("transformer")
    assert captions.shape == (1797, config.context_length)
    assert np.all(captions[:, 0] == 1)
    assert np.all(np.sum(captions == config.eos_token_id, axis=1) == 1)
    assert np.all((captions == config.eos_token_id).argmax(1) == captions.argmax(1))
    np.testing.assert_array_equal(digit_inputs("transformer", 3), captions[:3])


def test_noise_captions_hold_words_only_between_their_ends():
    config = network_config("transformer")
    words = noise_inputs("transformer", 200)[:, 1:-1]
    assert words.min() == 1 + 1
    assert words.max() == config.eos_token_id - 1


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_library_names_its_extra(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing}.*pip install 'modgap\[towers\]'"):
        make_network("vit")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_network("resnt"), r"kind must be one of .* Did you mean 'resnet'\?"),
        (lambda: make_network("mlp", "large"), "preset must be one of 'tiny', 'small'"),
        (lambda: make_network("mlp", seed=-1), "seed must be at least 0, got -1"),
        (lambda: digit_inputs("mlp", 1798), "n must be between 1 and 1797, got 1798"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
