"""What was trained on Flickr8k: each recipe is the preset flickr8k-baseline with some changes."""

from __future__ import annotations

from dataclasses import dataclass

PRESET = "flickr8k-baseline"
SEEDS = (0, 1, 2)
BASELINE = "baseline"
# Whose weights fine-tuning starts from: at CLIP's final temperature, with a gap as wide as CLIP's.
PRETRAINED = "FLT 0.01"


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


def _temperatures() -> list[Recipe]:
    """Learned, fixed, scheduled and reparameterised (Yaras et al. 2024, tables 2 to 5)."""
    fixed = ("0.01", "0.02", "0.04", "0.07", "0.1", "0.2", "0.3", "0.4")
    set_ones = {f"FLT {value}": f"FLT{value}" for value in fixed}
    set_ones |= {name: name for name in ("S0", "S1", "S2", "S3", "A0", "A1")}
    # The rate of the baseline, but a tenth of it where that is the method.
    learned = {"softplus": ("softplus", 20), "scale 2": ("scale2", 20), "scale 10": ("scale10", 20)}
    learned["SLRT"] = ("SLRT", 2)
    return [
        Recipe(BASELINE),
        *(Recipe(name, (f"temperature.name={kind}",)) for name, kind in set_ones.items()),
        *(
            Recipe(name, (f"temperature.name={kind}", f"temperature.rate={rate}"))
            for name, (kind, rate) in learned.items()
        ),
    ]


def _swap(name: str, kind: str, probability: str) -> Recipe:
    return Recipe(name, (f"swap.kind={kind}", f"swap.probability={probability}"))


METHODS = (
    *_temperatures(),
    *(_swap(f"HS {share}", "hard", share) for share in ("1", "0.1", "0.01", "0.001")),
    _swap("SS 0.05", "soft", "0.05"),
    _swap("hard swap of rows", "feature", "1"),
    Recipe("no normalisation", ("loss.normalise=false", "evaluate.metric=inner_product")),
)

_SHARP = "temperature.name=FLT0.01"
_SMALL_BATCHES = ("train.batch_size=64", "train.epochs=10")
STARTS = (
    # The ordinary start of the first one is FLT 0.01 itself.
    Recipe("amended start", (_SHARP, "model.start=amended")),
    Recipe("ordinary start, batches of 64", (_SHARP, *_SMALL_BATCHES)),
    Recipe("amended start, batches of 64", (_SHARP, *_SMALL_BATCHES, "model.start=amended")),
)
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
        after=PRETRAINED,
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
RECIPES = {
    recipe.name: recipe
    for recipe in (*METHODS, *STARTS, *DIMENSIONS, *SMALL_DIMENSIONS, *FINE_TUNED)
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
FIRST_STEPS = {1e-5: 100, 1e-4: 30}
