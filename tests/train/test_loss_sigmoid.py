"""SigLIP's loss: its definition, plain against chunked, one process against several, in a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import loss_worker  # noqa: E402
from modgap.train import SigmoidLoss, sigmoid_contrastive, train  # noqa: E402
from modgap.train.config import LossConfig  # noqa: E402
from modgap.train.learner import make_loss  # noqa: E402
from modgap.train.swap import HardSwap  # noqa: E402
from modgap.train.temperature import LinearTemperature  # noqa: E402
from train.test_loss import FORMS, Largest, make_features  # noqa: E402
from training import digits_config, same_weights  # noqa: E402


def slow_loss(X, Y, scale, bias):
    """Every pair judged by itself, written out."""
    total = 0.0
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            label = 1 if i == j else -1
            total += math.log1p(math.exp(-label * (scale * float(np.dot(x, y)) + bias)))
    return total / len(X)


def with_gradients(X, Y, scale, bias, **form):
    leaves = [X.clone().requires_grad_(), Y.clone().requires_grad_()]
    leaves += [torch.tensor(v, dtype=X.dtype, requires_grad=True) for v in (scale, bias)]
    value = sigmoid_contrastive(*leaves, **form)
    return [value.detach(), *torch.autograd.grad(value, leaves)]


@FORMS
@pytest.mark.parametrize(("scale", "bias"), [(10.0, -10.0), (1.0, 0.0), (100.0, -30.0), (5.0, 3.0)])
def test_the_loss_is_the_sum_over_pairs_written_out(chunked, scale, bias):
    X, Y = make_features(20, 6, dtype=torch.float64)
    expected = slow_loss(X.numpy(), Y.numpy(), scale, bias)
    found = sigmoid_contrastive(X, Y, scale, bias, chunked=chunked, block_bytes=7 * 20 * 8)
    assert found.item() == pytest.approx(expected, rel=1e-12)


@FORMS
def test_the_module_normalises_the_rows_unless_told_not_to(chunked):
    X, Y = make_features(20, 6, dtype=torch.float64, unit=False)
    unit = [(rows / rows.norm(dim=1, keepdim=True)).numpy() for rows in (X, Y)]
    found = SigmoidLoss(chunked=chunked, bias=-3.0)(X, Y, 4.0)
    assert found.item() == pytest.approx(slow_loss(*unit, 4.0, -3.0), rel=1e-7)
    as_given = SigmoidLoss(normalise=False, chunked=chunked, bias=-3.0)(X, Y, 0.5)
    expected = slow_loss(X.numpy(), Y.numpy(), 0.5, -3.0)
    assert as_given.item() == pytest.approx(expected, rel=1e-7)


@FORMS
@pytest.mark.parametrize("block_bytes", [1, 7 * 9 * 8, None])
def test_gradients_pass_gradcheck(chunked, block_bytes):
    X, Y = (rows.requires_grad_() for rows in make_features(9, 4, torch.float64))
    scale, bias = (
        torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (6.0, -3.0)
    )

    def loss(*inputs):
        return sigmoid_contrastive(*inputs, chunked=chunked, block_bytes=block_bytes)

    assert torch.autograd.gradcheck(loss, (X, Y, scale, bias))


@pytest.mark.parametrize("block_bytes", [1, 64 * 200 * 4, None])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_chunked_equals_plain_in_value_and_every_gradient(scale, block_bytes):
    X, Y = make_features(200, 32, torch.float64)
    plain = with_gradients(X, Y, scale, -10.0)
    chunked = with_gradients(X, Y, scale, -10.0, chunked=True, block_bytes=block_bytes)
    assert plain[1].abs().max() > 1e-4
    for found, expected in zip(chunked, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@FORMS
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e20])
def test_extreme_logits_do_not_overflow(chunked, scale):
    X, Y = make_features(40, 8)
    found = with_gradients(X, Y, scale, -10.0, chunked=chunked)
    assert all(torch.isfinite(part).all() for part in found)


def test_the_chunked_form_never_holds_more_than_a_block_of_the_logits():
    X, Y = (rows.requires_grad_() for rows in make_features(300, 8))
    with Largest() as seen:
        sigmoid_contrastive(X, Y, 10.0, chunked=True, block_bytes=10 * 300 * 4).backward()
    assert seen.numbers == 10 * 300


@FORMS
def test_a_bias_in_the_call_takes_the_place_of_its_own(chunked):
    X, Y = make_features()
    loss = SigmoidLoss(chunked=chunked, bias=-2.0)
    given = loss(X, Y, 10.0, logit_bias=torch.tensor(-10.0), output_dict=True)
    expected = sigmoid_contrastive(X, Y, 10.0, -10.0)
    torch.testing.assert_close(given["contrastive_loss"], expected)
    loss(X, Y, 10.0).backward()
    assert loss.bias.grad.abs() > 0
    assert loss.parameter_group(1e-3)["lr"] == 1e-3
    assert SigmoidLoss(rate=5.0).parameter_group(1e-3)["lr"] == pytest.approx(5e-3)


def test_pairs_that_are_the_same_are_not_negatives_of_each_other():
    X, Y = make_features(6, 4, torch.float64)
    same = torch.zeros(6, 6, dtype=torch.bool)
    same[0, 3] = same[3, 0] = True
    without = sum(
        math.log1p(math.exp(10 * float(X[i] @ Y[j]) - 5)) for i, j in ((0, 3), (3, 0))
    ) / 6  # fmt: skip
    loss = SigmoidLoss(bias=-5.0)
    whole, masked = loss(X, Y, 10.0), loss(X, Y, 10.0, same=same)
    assert whole.item() - masked.item() == pytest.approx(without, rel=1e-6)


def test_swap_and_temperature_act_as_in_the_softmax_loss():
    X, Y = make_features(dtype=torch.float64)
    swap = HardSwap(1.0, seed=2)
    loss = SigmoidLoss(swap, temperature=LinearTemperature(0.1, 0.5, 4))
    expected = sigmoid_contrastive(*swap(X, Y, 2), 1 / 0.3, -10.0)
    assert loss(X, Y, 77.0, step=2).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.xdist_group("two processes")
def test_two_processes_give_the_loss_and_gradients_of_one():
    found = [both for both in loss_worker.in_two_processes() if both[0]["form"] == "sigmoid"]
    assert len(found) == 32
    for case, results in found:
        expected = loss_worker.run(case, slice(None), False)
        tolerance = 1e-5 if case["X"].dtype == torch.float32 else 1e-12
        for result in results:
            for name, value in expected.items():
                torch.testing.assert_close(
                    result[name], value, rtol=tolerance, atol=tolerance,
                    msg=lambda m, k=name: k + m,
                )  # fmt: skip
        # Unlike the softmax, the sigmoid depends on its bias.
        assert expected["bias"].abs() > 1e-3
        assert case["swap"] in loss_worker.SWAPS


def test_a_config_names_the_loss_and_the_rate_of_its_bias():
    made = make_loss(LossConfig(name="sigmoid", bias=-7.0, bias_rate=3.0, chunked=True))
    assert isinstance(made, SigmoidLoss)
    assert (made.bias.item(), made.rate, made.chunked) == (-7.0, 3.0, True)
    assert not isinstance(make_loss(LossConfig()), SigmoidLoss)


def sigmoid_run(**train_settings):
    return digits_config(
        loss={"name": "sigmoid", "bias": -4.0, "bias_rate": 10.0},
        temperature={"name": "learned", "initial": 0.1, "value": None},
        train=train_settings,
    )


def test_a_run_learns_its_bias_and_resumes_exactly(tmp_path):
    from modgap.train.checkpoint import checkpoints, read_checkpoint

    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    config = sigmoid_run(steps=4)
    whole = train(config, output=tmp_path / "whole")
    newest = checkpoints(tmp_path / "whole")[-1]
    learned = read_checkpoint(newest)[1]["loss.bias"].item()
    assert abs(learned + 4.0) > 1e-3
    cut = tmp_path / "cut" / "checkpoints"
    cut.mkdir(parents=True)
    first = checkpoints(tmp_path / "whole")[0]
    (cut / first.name).write_bytes(first.read_bytes())
    resumed = train(config, output=tmp_path / "cut", resume=True)
    assert resumed.first_step == 2
    assert resumed.losses == whole.losses[2:]
    assert same_weights(tmp_path / "whole", tmp_path / "cut")
