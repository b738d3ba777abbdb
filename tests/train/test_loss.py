"""The two training losses: definition, plain against chunked, one process against several."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from modgap.measures import contrastive_loss  # noqa: E402
from modgap.train import SigmoidLoss, sigmoid_contrastive, train  # noqa: E402
from modgap.train.checkpoint import checkpoints, read_checkpoint  # noqa: E402
from modgap.train.config import LossConfig  # noqa: E402
from modgap.train.learner import make_loss  # noqa: E402
from modgap.train.loss import ContrastiveLoss, contrastive, identical  # noqa: E402
from modgap.train.swap import HardSwap  # noqa: E402
from modgap.train.temperature import LearnedTemperature, LinearTemperature  # noqa: E402
from training import digits_config, same_weights  # noqa: E402
from training_worker import CASES, loss_of  # noqa: E402

FORMS = pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
LOSSES = pytest.mark.parametrize(
    "loss", [contrastive, sigmoid_contrastive], ids=["softmax", "sigmoid"]
)


def make_features(n=48, d=12, dtype=torch.float32, seed=0, unit=True):
    generator = torch.Generator().manual_seed(seed)
    latent = torch.randn(n, d, generator=generator, dtype=torch.float64)
    sides = []
    for _ in range(2):
        rows = latent + 0.8 * torch.randn(n, d, generator=generator, dtype=torch.float64) + 0.5
        sides.append((rows / rows.norm(dim=1, keepdim=True) if unit else rows).to(dtype))
    return sides


def slow_softmax(X, Y, scale, bias=0.0):
    """Cross-entropy of each row and each column with its own pair, written out."""
    Z = scale * X.double().numpy() @ Y.double().numpy().T
    n = len(Z)
    total = 0.0
    for i in range(n):
        for line in (Z[i], Z[:, i]):
            top = line.max()
            total += top + np.log(np.sum(np.exp(line - top))) - Z[i, i]
    return total / (2 * n)


def slow_sigmoid(X, Y, scale, bias):
    """Every pair judged by itself, written out."""
    total = 0.0
    for i, x in enumerate(X.numpy()):
        for j, y in enumerate(Y.numpy()):
            label = 1 if i == j else -1
            total += math.log1p(math.exp(-label * (scale * float(np.dot(x, y)) + bias)))
    return total / len(X)


SLOW = {contrastive: slow_softmax, sigmoid_contrastive: slow_sigmoid}


def with_gradients(loss, X, Y, scale, bias=None, **form):
    """The value and the gradients in both features, the scale and the bias."""
    leaves = [X.clone().requires_grad_(), Y.clone().requires_grad_()]
    leaves += [
        torch.tensor(v, dtype=X.dtype, requires_grad=True) for v in (scale, bias) if v is not None
    ]
    value = loss(*leaves, **form)
    return [value.detach(), *torch.autograd.grad(value, leaves)]


def assert_equal_to(found, expected, tolerance):
    """Every part within the tolerance of the largest number of the expected part."""
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        bound = tolerance * max(1.0, float(b.abs().max()))
        assert float((a - b).abs().max()) <= min(bound, 10 * tolerance)


@FORMS
@LOSSES
@pytest.mark.parametrize(
    ("scale", "bias"), [(10.0, -10.0), (0.5, 0.0), (14.3, 0.0), (100.0, -30.0), (5.0, 3.0)]
)
def test_the_loss_is_its_definition_written_out(loss, chunked, scale, bias):
    X, Y = make_features(20, 6, dtype=torch.float64)
    found = loss(X, Y, scale, bias, chunked=chunked, block_bytes=7 * 20 * 8)
    assert found.item() == pytest.approx(SLOW[loss](X, Y, scale, bias), rel=1e-12)


@FORMS
def test_the_module_gives_what_measure_gives(chunked):
    X, Y = make_features(dtype=torch.float64, unit=False)
    found = ContrastiveLoss(chunked=chunked)(X, Y, 1 / 0.07)
    assert found.item() == pytest.approx(contrastive_loss(X, Y, 0.07), rel=1e-9)


@FORMS
@pytest.mark.parametrize(
    ("module", "slow"),
    [
        (ContrastiveLoss, slow_softmax),
        (lambda **form: SigmoidLoss(bias=-3.0, **form), slow_sigmoid),
    ],
    ids=["softmax", "sigmoid"],
)
def test_the_modules_normalise_the_rows_unless_told_not_to(module, slow, chunked):
    X, Y = make_features(20, 6, dtype=torch.float64, unit=False)
    unit = [rows / rows.norm(dim=1, keepdim=True) for rows in (X, Y)]
    found = module(chunked=chunked)(X, Y, 4.0)
    assert found.item() == pytest.approx(slow(*unit, 4.0, -3.0), rel=1e-7)
    found = module(normalise=False, chunked=chunked)(X, Y, 0.5)
    assert found.item() == pytest.approx(slow(X, Y, 0.5, -3.0), rel=1e-7)


@FORMS
@LOSSES
@pytest.mark.parametrize("block_bytes", [1, 7 * 9 * 8, None])
def test_gradients_pass_gradcheck(loss, chunked, block_bytes):
    rows = make_features(9, 4, torch.float64)
    leaves = [*rows, *torch.tensor([6.0, -3.0], dtype=torch.float64)]

    def value(*inputs):
        return loss(*inputs, chunked=chunked, block_bytes=block_bytes)

    assert torch.autograd.gradcheck(value, [leaf.clone().requires_grad_() for leaf in leaves])


@pytest.mark.parametrize(
    ("loss", "dtype", "tolerance"),
    [(contrastive, torch.float32, 1e-5), (sigmoid_contrastive, torch.float64, 1e-12)],
    ids=["softmax", "sigmoid"],
)
@pytest.mark.parametrize("block_bytes", [1, 5 * 200 * 4, 64 * 200 * 4, None])
@pytest.mark.parametrize("scale", [1.0, 14.3, 100.0])
def test_chunked_equals_plain_in_value_and_every_gradient(
    loss, dtype, tolerance, scale, block_bytes
):
    X, Y = make_features(200, 32, dtype)
    plain = with_gradients(loss, X, Y, scale, -10.0)
    chunked = with_gradients(loss, X, Y, scale, -10.0, chunked=True, block_bytes=block_bytes)
    assert plain[1].abs().max() > 1e-4
    assert_equal_to(chunked, plain, tolerance)


@FORMS
def test_a_bias_changes_neither_value_nor_gradient_of_the_softmax_and_gets_none(chunked):
    X, Y = make_features()
    without = with_gradients(contrastive, X, Y, 14.3, chunked=chunked)
    *found, of_bias = with_gradients(contrastive, X, Y, 14.3, -10.0, chunked=chunked)
    assert_equal_to(found, without, 1e-5)
    assert abs(float(of_bias)) < 1e-5


@FORMS
@LOSSES
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e20])
def test_extreme_logits_do_not_overflow(loss, chunked, scale):
    X, Y = make_features(40, 8)
    found = with_gradients(loss, X, Y, scale, -10.0, chunked=chunked, block_bytes=7 * 40 * 4)
    assert all(torch.isfinite(part).all() for part in found)
    if loss is contrastive:
        assert found[0].item() == pytest.approx(slow_softmax(X, Y, scale), rel=1e-4)


def test_extreme_logits_have_the_same_gradients_in_both_forms():
    X, Y = make_features(40, 8, torch.float64)
    plain = with_gradients(contrastive, X, Y, 1e4)
    chunked = with_gradients(contrastive, X, Y, 1e4, chunked=True, block_bytes=7 * 40 * 8)
    for a, b in zip(chunked, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@FORMS
def test_a_single_pair_has_no_loss_and_no_gradient(chunked):
    X, Y = make_features(1, 6)
    value, *gradients = with_gradients(contrastive, X, Y, 14.3, chunked=chunked)
    assert value.item() == pytest.approx(0, abs=1e-5)
    assert all(part.abs().max() < 1e-4 for part in gradients)


@pytest.mark.parametrize("learned", list(itertools.product([False, True], repeat=3)))
def test_the_chunked_form_gives_the_gradients_that_are_asked_for(learned):
    X, Y = make_features(20, 5, torch.float64)
    scale = torch.tensor(9.0, dtype=torch.float64)
    expected = with_gradients(contrastive, X, Y, 9.0)[1:]
    inputs = [t.clone().requires_grad_(w) for t, w in zip((X, Y, scale), learned, strict=True)]
    value = contrastive(*inputs, chunked=True)
    assert value.requires_grad == any(learned)
    if any(learned):
        value.backward()
    for leaf, wanted, gradient in zip(inputs, learned, expected, strict=True):
        if wanted:
            torch.testing.assert_close(leaf.grad, gradient, rtol=1e-9, atol=1e-12)
        else:
            assert leaf.grad is None


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                self.numbers = max(self.numbers, leaf.untyped_storage().nbytes() // 4)
        return made


@LOSSES
def test_the_chunked_form_never_holds_more_than_a_block_of_the_logits(loss):
    numbers = {}
    for chunked in (False, True):
        X, Y = (rows.requires_grad_() for rows in make_features(300, 8))
        with Largest() as seen:
            loss(X, Y, 10.0, chunked=chunked, block_bytes=10 * 300 * 4).backward()
        numbers[chunked] = seen.numbers
    assert numbers[False] >= 300 * 300
    assert numbers[True] == 10 * 300


def module_gradients(loss, X, Y, scale):
    X, Y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    value = loss(X, Y, scale)
    return [value.detach(), *torch.autograd.grad(value, (X, Y))]


@FORMS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_and_gradients_come_back_in_it(chunked, dtype):
    X, Y = make_features(dtype=dtype)
    value, of_x, of_y = module_gradients(ContrastiveLoss(chunked=chunked), X, Y, 100.0)
    wide, wide_x, _ = module_gradients(ContrastiveLoss(), X.double(), Y.double(), 100.0)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(wide.item(), rel=1e-5)
    assert of_x.dtype == of_y.dtype == dtype
    torch.testing.assert_close(of_x.double(), wide_x, rtol=1e-2, atol=1e-4)


@FORMS
def test_autocast_does_not_round_the_logits(chunked):
    X, Y = make_features(unit=False)
    loss = ContrastiveLoss(chunked=chunked)
    expected = module_gradients(loss, X, Y, 100.0)
    leaves = [X.clone().requires_grad_(), Y.clone().requires_grad_()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(*leaves, 100.0)
        towers = torch.nn.Linear(12, 12)(X)
        assert towers.dtype == torch.bfloat16
        assert loss(towers, towers, 100.0).dtype == torch.float32
    found = [value, *torch.autograd.grad(value, leaves)]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@FORMS
def test_it_is_called_as_open_clips_loss_is(chunked):
    X, Y = make_features()
    out = {"image_features": X, "text_features": Y, "logit_scale": torch.tensor([14.3])}
    loss = ContrastiveLoss(chunked=chunked)
    value = loss(**out)
    assert value.shape == ()
    found = loss(**out, logit_bias=torch.tensor(-10.0), output_dict=True)
    assert list(found) == ["contrastive_loss"]
    torch.testing.assert_close(found["contrastive_loss"], value, rtol=1e-5, atol=1e-5)
    assert loss(X, Y, 14.3, None, False).item() == pytest.approx(value.item(), rel=1e-6)


@pytest.mark.parametrize("module", [ContrastiveLoss, SigmoidLoss])
def test_a_loss_with_a_temperature_needs_no_scale_and_says_where_it_is(module):
    X, Y = make_features()
    loss = module(temperature=LearnedTemperature(0.1))
    assert loss.temperature_value == pytest.approx(0.1)
    value = loss(X, Y)
    assert torch.equal(value, loss(X, Y, 3.0))
    value.backward()
    assert loss.temperature.nu.grad.abs() > 0
    line = module(temperature=LinearTemperature(0.1, 0.5, steps=4), calls_per_step=2)
    used = [(line(X, Y), line.temperature_value)[1] for _ in range(6)]
    assert used == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3, 0.3])
    line.set_step(4)
    assert line.temperature_value == pytest.approx(0.4)
    assert module().temperature_value is None


@FORMS
def test_a_bias_in_the_call_takes_the_place_of_the_sigmoids_own(chunked):
    X, Y = make_features()
    loss = SigmoidLoss(chunked=chunked, bias=-2.0)
    given = loss(X, Y, 10.0, logit_bias=torch.tensor(-10.0), output_dict=True)
    expected = sigmoid_contrastive(X, Y, 10.0, -10.0)
    torch.testing.assert_close(given["contrastive_loss"], expected)
    loss(X, Y, 10.0).backward()
    assert loss.bias.grad.abs() > 0
    assert loss.parameter_group(1e-3)["lr"] == 1e-3
    assert SigmoidLoss(rate=5.0).parameter_group(1e-3)["lr"] == pytest.approx(5e-3)


@FORMS
def test_a_temperature_of_its_own_takes_the_place_of_the_models_scale(chunked):
    X, Y = make_features()
    given = torch.tensor(100.0, requires_grad=True)
    loss = ContrastiveLoss(chunked=chunked, temperature=LinearTemperature(0.01, 0.05, 4))
    for step, temperature in enumerate((0.01, 0.02, 0.03, 0.04, 0.05, 0.05)):
        value = loss(X, Y, given)
        expected = ContrastiveLoss(chunked=chunked)(X, Y, 1 / temperature)
        assert value.item() == pytest.approx(expected.item(), rel=1e-6), step
    # The model's own scale gets a gradient, of 0: DDP waits for it.
    assert torch.autograd.grad(value, given)[0].item() == 0
    learned = ContrastiveLoss(chunked=chunked, temperature=LearnedTemperature(0.07))
    learned(X, Y, given).backward()
    assert learned.temperature.nu.grad.abs() > 0


@FORMS
def test_the_swap_comes_after_normalising_and_rows_are_not_normalised_again(chunked):
    X, Y = make_features(dtype=torch.float64, unit=False)
    unit = [rows / rows.norm(dim=1, keepdim=True) for rows in (X, Y)]
    swap = HardSwap(1.0, seed=2)
    found = ContrastiveLoss(swap, chunked=chunked)(X, Y, 14.3, step=4)
    expected = contrastive(*swap(*unit, 4), 14.3)
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)
    sigmoid = SigmoidLoss(swap, chunked=chunked, temperature=LinearTemperature(0.1, 0.5, 4))
    expected = sigmoid_contrastive(*swap(*unit, 2), 1 / 0.3, -10.0)
    assert sigmoid(X, Y, 77.0, step=2).item() == pytest.approx(expected.item(), rel=1e-6)


def test_calls_in_training_are_counted_and_the_count_is_part_of_the_state():
    X, Y = make_features()

    def values(loss, n):
        return [loss(X, Y, 14.3).item() for _ in range(n)]

    whole = values(ContrastiveLoss(HardSwap(0.5)), 12)
    assert len(set(whole)) > 3
    first = ContrastiveLoss(HardSwap(0.5))
    start = values(first, 5)
    first.eval()
    unswapped = ContrastiveLoss()(X, Y, 14.3).item()
    assert values(first, 2) == [unswapped] * 2
    resumed = ContrastiveLoss(HardSwap(0.5))
    resumed.load_state_dict(first.state_dict())
    assert start + values(resumed, 7) == whole
    told = ContrastiveLoss(HardSwap(0.5))
    assert [told(X, Y, 14.3, step=step).item() for step in range(12)] == whole


@pytest.fixture(scope="module")
def shared(processes):
    """What each of two processes found with its own rows."""
    return [torch.load(processes / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.xdist_group("train")
@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_loss_and_gradients_of_one(shared, name):
    expected = loss_of(CASES[name], slice(None), False)
    tolerance = 1e-5 if "float32" in name else 1e-12
    for found in shared:
        torch.testing.assert_close(found[name], expected, rtol=tolerance, atol=tolerance)
    if CASES[name]["form"] == "sigmoid":  # unlike the softmax, it depends on its bias
        assert expected["bias"].abs() > 1e-3
    else:
        assert expected["image"].abs().max() > 1e-2
        assert expected["scale"].abs() > 1e-4


def test_identical_captions_are_no_negatives():
    torch.manual_seed(0)
    X, Y = torch.randn(2, 4, 3)
    same = identical(torch.tensor([[1, 2], [3, 0], [1, 2], [4, 0]]))
    assert same.nonzero().tolist() == [[0, 2], [2, 0]]
    Z = 2 * torch.nn.functional.normalize(X) @ torch.nn.functional.normalize(Y).T
    softmax = sigmoid = 0.0
    for i in range(4):
        others = [j for j in range(4) if {i, j} != {0, 2}]
        softmax -= Z[i, i] - torch.logsumexp(Z[i, others], 0)
        softmax -= Z[i, i] - torch.logsumexp(Z[others, i], 0)
        for j in others:
            sigmoid += math.log1p(math.exp((5 - Z[i, j]) if i == j else (Z[i, j] - 5)))
    scale = torch.tensor(2.0)
    found = ContrastiveLoss()(X, Y, scale, same=same)
    assert found.item() == pytest.approx(softmax.item() / 8, rel=1e-5)
    found = SigmoidLoss(bias=-5.0)(X, Y, scale, same=same)
    assert found.item() == pytest.approx(sigmoid / 4, rel=1e-5)
    with pytest.raises(ValueError, match="a chunked loss never holds"):
        ContrastiveLoss(chunked=True)(X, Y, scale, same=same)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda X, Y: contrastive(X, Y[:3], 1.0), r"same pairs row by row.*\(48, 12\) and \(3, 12"),
        (lambda X, Y: contrastive(X[0], Y[0], 1.0), "must hold the same pairs row by row"),
        (lambda X, Y: contrastive(X[:0], Y[:0], 1.0), "at least one, got"),
        (lambda X, Y: contrastive(X.numpy(), Y, 1.0), "X must be a torch tensor, got ndarray"),
        (lambda X, Y: contrastive(X.long(), Y, 1.0), "X must hold floats, got torch.int64"),
        (lambda X, Y: contrastive(X, Y.to("meta"), 1.0), "must be on one device, got cpu and meta"),
        (lambda X, Y: contrastive(X, Y, -1.0), "logit_scale must be a finite number above 0"),
        (lambda X, Y: contrastive(X, Y, X[:, 0]), "logit_scale must be one number, got shape"),
        (lambda X, Y: contrastive(X, Y, 1.0, "no"), "logit_bias must be a number, got str"),
        (lambda X, Y: contrastive(X, Y, 1.0, chunked=True, block_bytes=0), "block_bytes must be"),
        (lambda X, Y: ContrastiveLoss()(X, Y[:3], 1.0), "image_features and text_features must"),
        (
            lambda X, Y: ContrastiveLoss()(X, Y),
            "logit_scale is missing: pass that of the model",
        ),
        (lambda X, Y: ContrastiveLoss(swap=0.1), "swap must be a module such as HardSwap"),
        (lambda X, Y: ContrastiveLoss(gather="yes"), 'gather must be "auto", None or'),
        (lambda X, Y: ContrastiveLoss()(X, Y, 1.0, step=-1), "step must be at least 0"),
        (lambda X, Y: ContrastiveLoss(calls_per_step=0), "calls_per_step"),
        (lambda X, Y: ContrastiveLoss(temperature=0.04), "temperature must be a Temperature such"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call(*make_features())


def test_a_config_names_the_loss_and_the_rate_of_its_bias():
    made = make_loss(LossConfig(name="sigmoid", bias=-7.0, bias_rate=3.0, chunked=True))
    assert isinstance(made, SigmoidLoss)
    assert (made.bias.item(), made.rate, made.chunked) == (-7.0, 3.0, True)
    assert not isinstance(make_loss(LossConfig()), SigmoidLoss)


def test_a_run_learns_its_bias_and_resumes_exactly(digits, tmp_path):
    config = digits_config(
        loss={"name": "sigmoid", "bias": -4.0, "bias_rate": 10.0},
        temperature={"name": "learned", "initial": 0.1, "value": None},
    )
    whole = train(config, output=tmp_path / "whole", data=digits)
    first, newest = checkpoints(tmp_path / "whole")
    assert abs(read_checkpoint(newest)[1]["loss.bias"].item() + 4.0) > 1e-3
    cut = tmp_path / "cut" / "checkpoints"
    cut.mkdir(parents=True)
    (cut / first.name).write_bytes(first.read_bytes())
    resumed = train(config, output=tmp_path / "cut", resume=True, data=digits)
    assert resumed.first_step == 2
    assert resumed.losses == whole.losses[2:]
    assert same_weights(tmp_path / "whole", tmp_path / "cut")


def test_modules_say_how_they_are_set():
    said = repr(ContrastiveLoss(HardSwap(0.2, seed=3), temperature=LinearTemperature(0.1, 1, 9)))
    assert "normalise=True, chunked=False" in said
    assert "HardSwap(probability=0.2, seed=3)" in said
    assert "LinearTemperature(start=0.1, end=1.0, steps=9)" in said
    assert repr(SigmoidLoss(rate=2.0, chunked=True)).startswith("SigmoidLoss(rate=2.0, ")
