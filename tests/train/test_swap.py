"""Each swap against its formula (Yaras et al. 2024, D.2), its share of the steps and its draws."""

from __future__ import annotations

import typing

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from modgap.train.config import SwapConfig  # noqa: E402
from modgap.train.swap import (  # noqa: E402
    KINDS,
    SWAPS,
    FeatureSwap,
    HardSwap,
    SoftSwap,
    make_swap,
)

EVERY = (HardSwap, SoftSwap, FeatureSwap)


@pytest.fixture
def features():
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(400, 24, generator=generator, dtype=torch.float64) for _ in range(2))


def share_kept(X, Y, mixed):
    """λ in mixed = λX + (1 − λ)Y, entry by entry."""
    return (mixed - Y) / (X - Y)


def test_a_hard_swap_exchanges_entries_one_by_one_with_probability_a_half(features):
    X, Y = features
    A, B = HardSwap(1.0)(X, Y, 0)
    exchanged = X != A
    assert torch.equal(A, torch.where(exchanged, Y, X))
    assert torch.equal(B, torch.where(exchanged, X, Y))
    # 9,600 coins: four standard deviations are 0.0204. Within rows too: entries are independent.
    assert abs(exchanged.double().mean() - 0.5) < 0.0204
    by_row = exchanged.double().sum(1)
    assert abs(by_row.var() - 24 / 4) < 4 * 6 * (2 / 399) ** 0.5


def test_a_soft_swap_mixes_each_entry_with_a_uniform_share(features):
    X, Y = features
    A, B = SoftSwap(1.0)(X, Y, 0)
    kept = share_kept(X, Y, A)
    torch.testing.assert_close(share_kept(Y, X, B), kept, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(A + B, X + Y)
    assert kept.min() > -1e-9
    assert kept.max() < 1 + 1e-9
    # Uniform: mean ½, variance 1/12, each within four standard deviations over 9,600 draws.
    assert abs(kept.mean() - 0.5) < 4 * (1 / 12 / 9_600) ** 0.5
    assert abs(kept.var() - 1 / 12) < 4 * (1 / 180 / 9_600) ** 0.5


def test_a_feature_swap_exchanges_whole_rows(features):
    X, Y = features
    A, B = FeatureSwap(1.0)(X, Y, 0)
    exchanged = (X != A).all(1)
    assert torch.equal(A, torch.where(exchanged[:, None], Y, X))
    assert torch.equal(B, torch.where(exchanged[:, None], X, Y))
    assert abs(exchanged.double().mean() - 0.5) < 4 * 0.5 / 400**0.5


@pytest.mark.parametrize("kind", EVERY)
def test_gradients_of_a_swap_pass_gradcheck(features, kind):
    X, Y = (rows[:4, :3].clone().requires_grad_() for rows in features)
    assert torch.autograd.gradcheck(lambda X, Y: kind(1.0)(X, Y, 5), (X, Y))


@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 1.0])
def test_a_swap_acts_on_its_share_of_the_steps(features, p):
    X, Y = (rows[:3] for rows in features)
    swap = SoftSwap(p, seed=1)
    acted = [not torch.equal(swap(X, Y, step)[0], X) for step in range(2_000)]
    assert acted == [swap.active(step) for step in range(2_000)]
    assert abs(sum(acted) / 2_000 - p) <= 4 * (p * (1 - p) / 2_000) ** 0.5


@pytest.mark.parametrize("kind", EVERY)
def test_seed_and_step_decide_the_draws_and_nothing_else_does(features, kind):
    first = kind(1.0, seed=2)(*features, 7)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again = kind(1.0, seed=2)(*features, 7)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(kind(1.0, seed=2)(*features, 8)[0], first[0])
    assert not torch.equal(kind(1.0, seed=3)(*features, 7)[0], first[0])


@pytest.mark.parametrize("kind", EVERY)
def test_parts_of_a_batch_are_swapped_as_the_whole_batch_is(features, kind):
    X, Y = features
    swap = kind(1.0)
    whole = swap(X, Y, 11)
    parts = [
        swap(X[rows], Y[rows], 11, first_row=rows.start, total_rows=400)
        for rows in (slice(0, 150), slice(150, 400))
    ]
    for side in (0, 1):
        assert torch.equal(torch.cat([part[side] for part in parts]), whole[side])


@pytest.mark.parametrize("kind", EVERY)
def test_in_evaluation_nothing_is_swapped(features, kind):
    A, B = kind(1.0).eval()(*features, 0)
    assert A is features[0]
    assert B is features[1]


@pytest.mark.parametrize("kind", EVERY)
def test_precision_is_kept_and_the_input_is_left_alone(features, kind):
    X, Y = (rows.bfloat16() for rows in features)
    before = X.clone(), Y.clone()
    A, B = kind(1.0)(X, Y, 0)
    assert A.dtype == B.dtype == torch.bfloat16
    assert torch.equal(X, before[0])
    assert torch.equal(Y, before[1])


def test_every_swap_has_its_name_in_a_config():
    assert {"hard": HardSwap, "soft": SoftSwap, "feature": FeatureSwap} == KINDS
    kinds = typing.get_args(typing.get_type_hints(SwapConfig)["kind"])
    assert kinds == ("none", *KINDS)


def test_presets_are_those_of_the_paper():
    for name, p in (("HS P1", 1), ("HS P1e-1", 0.1), ("HS P1e-2", 0.01), ("HS P1e-3", 0.001)):
        made = make_swap(name)
        assert (made.kind, made.probability, made.seed) == ("hard", p, 0)
    soft = make_swap("SS P5e-2", seed=4)
    assert (soft.kind, soft.probability, soft.seed) == ("soft", 0.05, 4)
    assert isinstance(make_swap("Hard Swap Feature"), FeatureSwap)
    assert {kind for kind, _ in SWAPS.values()} == set(KINDS)
    assert make_swap("soft", 0.3).probability == 0.3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda X, Y: HardSwap(1.5), "probability must be a share of the steps between 0 and 1"),
        (lambda X, Y: HardSwap("all"), "probability must be a number, got str"),
        (lambda X, Y: HardSwap(0.1, seed=-1), "seed must be at least 0"),
        (lambda X, Y: HardSwap(0.1)(X, Y[:2], 0), "must hold the same pairs row by row"),
        (lambda X, Y: HardSwap(0.1)(X, Y.numpy(), 0), "Y must be a torch tensor, got ndarray"),
        (lambda X, Y: HardSwap(0.1)(X, Y, -1), "step must be at least 0"),
        (lambda X, Y: HardSwap(1)(X, Y, 0, first_row=9, total_rows=10), "within total_rows"),
        (lambda X, Y: make_swap("HS P2"), "swap must be one of"),
        (lambda X, Y: make_swap("hard"), "The swap 'hard' needs a probability"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(features, call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call(*features)
