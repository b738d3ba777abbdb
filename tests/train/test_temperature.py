"""Each temperature against its formula (Yaras et al. 2024, appendices D.1 and F)."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from modgap.train.temperature import (  # noqa: E402
    TEMPERATURES,
    CosineTemperature,
    FixedTemperature,
    LearnedTemperature,
    LinearTemperature,
    SoftplusTemperature,
    make_temperature,
)

# Table 3, the lines S0 to S3, A0 and A1 of table 4 (A1 and A2 in the text), and table 2's FLT.
FIXED = (0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.3, 0.4)
LINES = {"S0": 0.02, "S1": 0.03, "S2": 0.04, "S3": 0.05}
SWINGS = {"A0": 0.02, "A1": 0.04}


def close(expected: float) -> object:
    return pytest.approx(expected, rel=1e-6)


def scale_of(temperature: torch.nn.Module, nu: float) -> tuple[float, float]:
    """The scale at a given ν and its derivative there."""
    temperature.double()
    with torch.no_grad():
        temperature.nu.fill_(nu)
    scale = temperature(0)
    (slope,) = torch.autograd.grad(scale, temperature.nu)
    return scale.item(), slope.item()


@pytest.mark.parametrize("s", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("nu", [-1.0, 0.0, 2.6593, 5.0])
def test_the_learned_scale_is_exp_of_nu_over_s(nu, s):
    scale, slope = scale_of(LearnedTemperature(scale=s), nu)
    assert scale == close(math.exp(nu / s))
    assert slope == close(math.exp(nu / s) / s)


@pytest.mark.parametrize("nu", [-30.0, -1.0, 0.0, 14.3, 600.0])
def test_the_softplus_scale_is_the_log_of_one_plus_exp_nu(nu):
    scale, slope = scale_of(SoftplusTemperature(), nu)
    assert scale == close(math.log1p(math.exp(nu)))
    assert slope == close(1 / (1 + math.exp(-nu)))


@pytest.mark.parametrize(
    "temperature",
    [LearnedTemperature(), LearnedTemperature(scale=10), SoftplusTemperature()],
)
def test_gradients_of_learned_scales_pass_gradcheck(temperature):
    def scale(nu):
        return torch.func.functional_call(temperature, {"nu": nu}, (0,))

    nu = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scale, nu)


@pytest.mark.parametrize("initial", [0.001, 0.01, 0.07, 1.0, 5.0])
@pytest.mark.parametrize("kind", [LearnedTemperature, SoftplusTemperature])
def test_learned_temperatures_start_where_they_are_told(kind, initial):
    assert kind(initial).temperature() == pytest.approx(initial, rel=1e-5)


def test_clips_clamp_holds_the_scale_and_lets_it_come_down_again():
    temperature = LearnedTemperature(0.01, max_scale=100)
    optimiser = torch.optim.SGD([temperature.nu], lr=1.0)
    for direction, expected in ((-1.0, 100.0), (-1.0, 100.0), (1.0, 100 / math.e)):
        scale = temperature(0)
        optimiser.zero_grad()
        # A slope of ±1 in ν, whatever the scale.
        (direction * scale.log()).backward()
        optimiser.step()
        assert temperature(0).item() == pytest.approx(expected, rel=1e-5)


def test_the_clamp_holds_in_evaluation_too_and_leaves_the_weight_alone_there():
    temperature = LearnedTemperature(max_scale=100).eval()
    with torch.no_grad():
        temperature.nu.fill_(9.0)
    assert temperature(0).item() == close(100)
    assert temperature.nu.item() == 9.0


def test_two_forward_passes_before_one_backward_pass_are_allowed():
    temperature = LearnedTemperature(0.01, max_scale=100)
    (temperature(0) + temperature(1)).backward()
    assert temperature.nu.grad.item() == pytest.approx(200, rel=1e-5)


def test_a_fixed_temperature_stays_and_learns_nothing():
    temperature = FixedTemperature(0.04)
    assert [temperature(step).item() for step in (0, 1_000)] == [close(25)] * 2
    assert list(temperature.parameters()) == []
    assert temperature.parameter_group(1e-3) is None


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.01), (25, 0.02), (50, 0.03), (100, 0.05), (900, 0.05)]
)
def test_the_line_is_straight_in_the_temperature_and_stays_at_its_end(step, expected):
    temperature = LinearTemperature(0.01, 0.05, 100)
    assert temperature(step).item() == close(1 / expected)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.01), (10, 0.025), (20, 0.04), (30, 0.025), (40, 0.01), (60, 0.04)]
)
def test_the_cosine_swings_between_its_ends_and_starts_low(step, expected):
    temperature = CosineTemperature(0.01, 0.04, 40)
    assert temperature(step).item() == close(1 / expected)


def test_slrt_scales_the_rate_of_the_temperature_alone_and_nothing_decays_it():
    temperature = make_temperature("SLRT", 100)
    group = temperature.parameter_group(2e-3)
    assert group["params"] == [temperature.nu]
    assert group["lr"] == close(2e-4)
    assert group["weight_decay"] == 0
    optimiser = torch.optim.AdamW([group], lr=2e-3, weight_decay=0.5)
    before = temperature.nu.item()
    (temperature.nu * 0).backward()
    optimiser.step()
    assert temperature.nu.item() == before


def test_presets_are_those_of_the_papers_tables():
    steps = 1_000
    for value in FIXED:
        assert make_temperature(f"FLT{value:g}", steps).temperature(7) == close(value)
    for name, end in LINES.items():
        line = make_temperature(name, steps)
        assert (line.temperature(0), line.temperature(steps)) == (close(0.01), close(end))
    for name, high in SWINGS.items():
        swing = make_temperature(name, steps)
        seen = [swing.temperature(step) for step in range(steps + 1)]
        assert (min(seen), max(seen), seen[-1]) == (close(0.01), close(high), close(0.01))
    for name, s in (("baseline", 1), ("scale2", 2), ("scale10", 10)):
        made = make_temperature(name, steps)
        assert (made.scale, made.rate, made.max_scale) == (s, 1, 100)
    assert isinstance(make_temperature("softplus", steps), SoftplusTemperature)
    assert len(TEMPERATURES) == 1 + len(FIXED) + len(LINES) + len(SWINGS) + 4


def test_the_scale_lies_where_the_module_lies():
    for name in TEMPERATURES:
        assert make_temperature(name, 10).to("meta")(3).device.type == "meta"


def test_only_what_is_learned_is_in_the_state_and_it_comes_back():
    assert FixedTemperature(0.1).state_dict() == {}
    learned, other = LearnedTemperature(0.02), LearnedTemperature(0.5)
    other.load_state_dict(learned.state_dict())
    assert torch.equal(other(0), learned(0))


def test_settings_take_the_place_of_a_presets():
    assert make_temperature("S3", 100, end=0.2).temperature(100) == close(0.2)
    assert make_temperature("fixed", 100, value=0.3).temperature() == close(0.3)
    assert make_temperature("linear", 100, start=0.1, end=0.2, steps=10).steps == 10


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: LearnedTemperature(0), "initial must be a finite number above 0, got 0"),
        (lambda: LearnedTemperature(scale=-1), "scale must be a finite number above 0"),
        (lambda: LearnedTemperature(0.001, max_scale=100), "initial must be at least 1/max_scale"),
        (lambda: SoftplusTemperature(math.nan), "initial must be a finite number above 0"),
        (lambda: FixedTemperature("0.1"), "value must be a number, got str"),
        (lambda: LinearTemperature(0.1, 0.2, 0), "steps must be at least 1, got 0"),
        (lambda: LinearTemperature(0.1, 0.2, 5)(-1), "step must be at least 0, got -1"),
        (lambda: CosineTemperature(0.2, 0.1, 5), "low must be at most high, got 0.2 and 0.1"),
        (lambda: make_temperature("soft", 5), "Did you mean 'softplus'"),
        (lambda: make_temperature("fixed", 5), "The temperature 'fixed' needs value"),
        (lambda: make_temperature("S1", 5, finish=1), "A setting of the temperature 'S1' must be"),
        (lambda: FixedTemperature(0.1).parameter_group(-1), "learning_rate must be"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()
