"""What is trained on Flickr8k: each recipe is a preset with some changes.

The recipes of flickr8k-baseline are trained from random weights, those of flickr8k-pretrained on
networks that know something already, in the order of their importance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modgap.core.checks import check_choice

PRESET = "flickr8k-baseline"
PRETRAINED_PRESET = "flickr8k-pretrained"
SEEDS = (0, 1, 2)
# Of the settings that a verdict rests on, where GPU time allows.
MORE_SEEDS = (3, 4)
BASELINE = "baseline"
# Whose weights fine-tuning starts from: at CLIP's final temperature, with a gap as wide as CLIP's.
BEFORE_FINE_TUNING = "FLT 0.01"


@dataclass(frozen=True)
class Recipe:
    """A name, the settings that differ from the preset, and the recipe whose weights it takes."""

    name: str
    settings: tuple[str, ...] = ()
    after: str = ""

    @property
    def file(self) -> str:
        """The name as a file may have it."""
        return self.name.replace(",", "").translate(str.maketrans(" /", "--"))

    def sets(self, name: str) -> bool:
        """Whether the recipe has a setting of this name."""
        return any(setting.startswith(f"{name}=") for setting in self.settings)


def _temperatures(rate: float) -> list[Recipe]:
    """Learned, fixed, scheduled and reparameterised (Yaras et al. 2024, tables 2 to 5).

    ``rate`` is that of the baseline's temperature.
    """
    fixed = ("0.01", "0.02", "0.04", "0.07", "0.1", "0.2", "0.3", "0.4")
    set_ones = {f"FLT {value}": f"FLT{value}" for value in fixed}
    set_ones |= {name: name for name in ("S0", "S1", "S2", "S3", "A0", "A1")}
    # The rate of the baseline, but a tenth of it where that is the method.
    names = {"softplus": "softplus", "scale 2": "scale2", "scale 10": "scale10"}
    learned = {name: (kind, rate) for name, kind in names.items()}
    learned["SLRT"] = ("SLRT", rate / 10)
    return [
        Recipe(BASELINE),
        *(Recipe(name, (f"temperature.name={kind}",)) for name, kind in set_ones.items()),
        *(
            Recipe(name, (f"temperature.name={kind}", f"temperature.rate={own:g}"))
            for name, (kind, own) in learned.items()
        ),
    ]


def _swap(name: str, kind: str, probability: str) -> Recipe:
    return Recipe(name, (f"swap.kind={kind}", f"swap.probability={probability}"))


SWAPPING = (
    *(_swap(f"HS {share}", "hard", share) for share in ("1", "0.1", "0.01", "0.001")),
    _swap("SS 0.05", "soft", "0.05"),
    _swap("hard swap of rows", "feature", "1"),
)
_AS_THEY_ARE = ("loss.normalise=false", "evaluate.metric=inner_product")
METHODS = (
    *_temperatures(20),
    *SWAPPING,
    # The paper freezes the temperature here; these runs learned it.
    Recipe("no normalisation", _AS_THEY_ARE),
)

_SHARP = "temperature.name=FLT0.01"


def _starts(epochs: int) -> tuple[Recipe, ...]:
    """Starts with and without a gap; ``epochs`` is of those in small batches."""
    small, amended = ("train.batch_size=64", f"train.epochs={epochs}"), "model.start=amended"
    return (
        # The ordinary start of the first one is FLT 0.01 itself.
        Recipe("amended start", (_SHARP, amended)),
        Recipe("ordinary start, batches of 64", (_SHARP, *small)),
        Recipe("amended start, batches of 64", (_SHARP, *small, amended)),
    )


STARTS = _starts(10)
DIMENSIONS = tuple(
    # 256 dimensions are FLT 0.01 itself.
    Recipe(f"{d} dimensions", (_SHARP, f"model.dimension={d}"))
    for d in (64, 128, 512)
)
_SMALL = ("model.name=resnet-tiny", "data.image_size=32")
# Small enough for a CPU: a minute or two each.
SMALL_DIMENSIONS = tuple(
    Recipe(f"{d} dimensions, small", (_SHARP, f"model.dimension={d}", *_SMALL))
    for d in (64, 128, 256, 512)
)
FINE_TUNED = tuple(
    Recipe(
        f"fine-tuned at {name}",
        (
            "temperature.name=fixed",
            f"temperature.value={value!r}",
            "train.batch_size=250",
            "train.epochs=10",
            "train.learning_rate=1e-4",
        ),
        after=BEFORE_FINE_TUNING,
    )
    for name, value in {
        "1/100": 0.01,
        "1/50": 0.02,
        "1/30": 1 / 30,
        "1/20": 0.05,
        "1/10": 0.1,
        "1": 1.0,
    }.items()
)
# Table 2 of Yaras et al. 2024 with their schedule: 100 passes over 30,000 captions in batches of
# 256, warm-up over the first fifth, and the temperature at the rate of the other parameters. An
# epoch here is a pass over 6,000 photos, with one caption of each. Photos have 64 pixels: at 96
# the seven methods would take twice the time.
PASSES_SUFFIX = ", 100 passes"
_PASSES = (
    "data.image_size=64", "train.batch_size=256", "train.epochs=500", "train.warmup=0.2"
)  # fmt: skip
_OWN_RATE = "temperature.rate=1"
_TABLE_2 = (BASELINE, "FLT 0.04", "S3", "softplus", "SLRT", "HS 0.001", "SS 0.05")
PASSES = tuple(
    Recipe(f"{recipe.name}{PASSES_SUFFIX}", (*recipe.settings, *own_rate, *_PASSES))
    for recipe in (*_temperatures(1), *SWAPPING)
    if recipe.name in _TABLE_2
    for own_rate in [() if recipe.sets("temperature.name") else (_OWN_RATE,)]
)
RECIPES = {
    recipe.name: recipe
    for recipe in (*METHODS, *STARTS, *DIMENSIONS, *SMALL_DIMENSIONS, *FINE_TUNED, *PASSES)
}

# Fig. 4 of Yaras et al. 2024: a long run on 2,048 pairs, and the first steps from many starts.
_STEADY = ("train.schedule=constant", "train.batch_size=512", "temperature.rate=1")
CLOSURES = (
    Recipe("slow closure", (*_STEADY, "train.steps=3000")),
    # A transformer has no batch norm, which measures otherwise than it trains. For a CPU.
    Recipe(
        "slow closure, small transformers",
        (*_STEADY, "train.steps=3000", "model.name=clip-tiny", "data.image_size=32"),
    ),
)
# Learning rate of the first steps → random starts. The paper says how many, not which rate.
# Starts are random networks: pretrained ones have none.
FIRST_STEPS = {PRESET: {1e-5: 100, 1e-4: 30}, PRETRAINED_PRESET: {}}

# The same on pretrained towers, whose temperature moves at this rate in the baseline.
_RATE = 12.5
_FROZEN = ("temperature.name=fixed", "temperature.value=0.07")
PRETRAINED_METHODS = (
    *_temperatures(_RATE),
    *SWAPPING,
    # Frozen, as in appendix F of Yaras et al. 2024, where CLIP's starts. Rows that are not at unit
    # length make logits far larger than cosines do: once more at 1.
    Recipe("no normalisation", (*_AS_THEY_ARE, *_FROZEN)),
    Recipe("no normalisation at 1", (*_AS_THEY_ARE, *_FROZEN[:1], "temperature.value=1.0")),
)
# SigLIP's loss (Zhai et al. 2023): learned as there, and at fixed temperatures as in table 3.
_SIGMOID = ("loss.name=sigmoid", f"loss.bias_rate={_RATE:g}")
SIGMOID = (
    Recipe(
        "sigmoid",
        (
            *_SIGMOID,
            "temperature.name=learned",
            "temperature.initial=0.1",
            f"temperature.rate={_RATE:g}",
        ),
    ),
    *(
        Recipe(f"sigmoid, FLT {value}", (*_SIGMOID, f"temperature.name=FLT{value}"))
        for value in ("0.01", "0.04", "0.1")
    ),
)
# Schedules end where they should only if there is time to close what they open.
_LONG = "train.epochs=30"
LONG_SUFFIX = ", 30 epochs"
LONG = (
    Recipe(f"{BASELINE}{LONG_SUFFIX}", (_LONG,)),
    *(
        Recipe(f"{name}{LONG_SUFFIX}", (f"temperature.name={kind}", _LONG))
        for name, kind in (
            *((name, name) for name in ("S3", "S2", "S1", "S0")),
            ("FLT 0.01", "FLT0.01"),
            ("FLT 0.07", "FLT0.07"),
        )
    ),
)
PRETRAINED_STARTS = _starts(6)
# Fig. 16 of Liang et al. 2022 learns the temperature; 256 dimensions are the baseline itself.
PRETRAINED_DIMENSIONS = tuple(
    Recipe(f"{d} dimensions", (f"model.dimension={d}",)) for d in (64, 128, 512)
)
PRETRAINED_FINE_TUNED = tuple(
    Recipe(
        recipe.name,
        (*recipe.settings, "train.image_learning_rate=3e-5", "train.text_learning_rate=3e-5"),
        recipe.after,
    )
    for recipe in FINE_TUNED
)
LOCKED = (
    Recipe("locked towers", ('model.lock=["image", "text"]',)),
    Recipe("locked image tower", ('model.lock=["image"]',)),
)
# The losses of Grassucci et al. 2026 beside the contrastive one, with each way to set the
# temperature.
_ALIGN, _SPREAD = "loss.align=1", "loss.uniform=1"
ALIGNED_SUFFIX = ", aligned and spread"
TEMPERATURES = (BASELINE, "FLT 0.07", "S3", "A1", "softplus", "SLRT")
ALIGNED = (
    Recipe(f"{BASELINE}, aligned", (_ALIGN,)),
    Recipe(f"{BASELINE}, spread", (_SPREAD,)),
    *(
        Recipe(f"{recipe.name}{ALIGNED_SUFFIX}", (*recipe.settings, _ALIGN, _SPREAD))
        for recipe in _temperatures(_RATE)
        if recipe.name in TEMPERATURES
    ),
)
PRETRAINED_CLOSURES = (Recipe("slow closure", (*_STEADY, "train.steps=1000")),)
_KEY = (
    BASELINE, "FLT 0.01", "FLT 0.02", "FLT 0.04", "FLT 0.07", "FLT 0.1", "FLT 0.2", "S3",
    "HS 0.01", "HS 0.1", "no normalisation", "sigmoid",
)  # fmt: skip


PRETRAINED_RECIPES = {
    recipe.name: recipe
    for recipe in (
        *PRETRAINED_METHODS,
        *SIGMOID,
        *PRETRAINED_FINE_TUNED,
        *PRETRAINED_STARTS,
        *PRETRAINED_DIMENSIONS,
        *LONG,
        *LOCKED,
        *ALIGNED,
    )
}


def recipes_of(preset: str) -> dict[str, Recipe]:
    """Every recipe of a preset by its name, but those of fig. 4."""
    check_choice(preset, "preset", (PRESET, PRETRAINED_PRESET))
    return RECIPES if preset == PRESET else PRETRAINED_RECIPES


def closures_of(preset: str) -> tuple[Recipe, ...]:
    """The long runs of fig. 4a of Yaras et al. 2024."""
    check_choice(preset, "preset", (PRESET, PRETRAINED_PRESET))
    return CLOSURES if preset == PRESET else PRETRAINED_CLOSURES


def order_of(preset: str, given: Sequence[int] | None = None) -> list[tuple[Recipe, int]]:
    """Every recipe with every seed, in the order in which they are trained.

    From scratch the first seed of each recipe comes before the second. On pretrained towers all
    seeds of the settings that verdicts rest on come first, and after everything two more of them,
    unless the seeds are given.
    """
    recipes, seeds = recipes_of(preset), SEEDS if given is None else given
    if preset == PRESET:
        return [(recipe, seed) for seed in seeds for recipe in recipes.values()]
    key = [recipes[name] for name in _KEY]
    rest = [recipe for recipe in recipes.values() if recipe not in key]
    order = [(recipe, seed) for group in (key, rest) for seed in seeds for recipe in group]
    more = MORE_SEEDS if given is None else ()
    return order + [(recipe, seed) for seed in more for recipe in key]
