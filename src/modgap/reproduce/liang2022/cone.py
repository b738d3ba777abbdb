"""The cone effect: cosines within one modality, and what makes them large (figs 2, 6 and 14)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from modgap._arrays import unit
from modgap.measures.cone import cone, log10_cap_fraction
from modgap.plot import bars, cones, curves, histograms, panels
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022._networks import in_plane, initialised_rows
from modgap.reproduce.liang2022.initialisations import INITIALISATIONS, cone_checks, cone_values
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.simulate.cone import Activation, cone_by_depth
from modgap.simulate.cone_initialisations import compare_cones
from modgap.simulate.cone_layer import layer_violations
from modgap.simulate.cone_variance import initialisation_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EDGES = np.linspace(-0.4, 1.0, 71)


def _cosine_counts(X: np.ndarray) -> np.ndarray:
    """Histogram of the cosines of all pairs of different rows, each pair once."""
    rows = unit(X.astype(np.float64))
    return np.histogram((rows @ rows.T)[np.triu_indices(len(rows), k=1)], _EDGES)[0]


def _sides(setting: Setting) -> tuple[dict[str, np.ndarray], str]:
    """Rows by name, and what they are where they are not the authors'."""
    try:
        trained, untrained = setting.arrays("clip"), setting.arrays("clip_random")
    except NotAtHand:
        from modgap.datasets import load_digits

        digits = load_digits("test")
        return {"image, trained": digits.X, "text, trained": digits.Y[::5]}, "the embedded digits"
    names = ("image", "text")
    rows = {f"{name}, trained": X for name, X in zip(names, trained, strict=True)}
    rows |= {f"{name}, random weights": X for name, X in zip(names, untrained, strict=True)}
    return rows, "500 pairs of CLIP ViT-B/16 after its projection"


@PAPER.draw("fig2")
def _draw_fig2(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = panels(3, columns=3, size=(4, 3.3))
    histograms(data["edges"], data["counts"], xlabel="cosine of two rows", title="a", ax=axes[0])
    curves(
        data["depths"],
        data["by_depth"],
        xlabel="random layers",
        ylabel="mean cosine",
        title="b",
        ax=axes[1],
    )
    cones(data["groups"], title="c: 25 random ResNets (PCA)", ax=axes[2])
    return figure


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Parts a to c, with theorems 1 and 2 beside b and c, which they explain."""
    measured: dict[str, Number] = {"initialisations": INITIALISATIONS}
    checks: list[Check] = []
    sides, source = _sides(setting)
    for label, X in sides.items():
        found = cone(X)
        measured[f"mean cosine, {label}"] = found.mean
        measured[f"least cosine, {label}"] = found.min
        checks.append(Check(f"a, {label}: the mean cosine is above 0.4.", found.mean > 0.4))
        if label.endswith("trained"):
            checks.append(Check(f"a, {label}: no cosine is negative.", found.min > 0))
    n_inputs = 5_000 if setting.full else 200
    by_depth: dict[str, np.ndarray] = {}
    for k, activation in enumerate(get_args(Activation)):
        setting.say(f"depth, {activation}", k, 4)
        by_depth[activation] = cone_by_depth(
            activation, depth=25, n_inputs=n_inputs, seed=setting.seed
        ).mean
    sigmoid, linear = float(by_depth["sigmoid"][2]), float(by_depth["linear"].max())
    measured |= {
        "mean cosine, sigmoid, depth 2": sigmoid,
        "mean cosine, linear, largest to depth 25": linear,
        "mean cosine, ReLU, depth 25": float(by_depth["relu"][25]),
        "mean cosine, tanh, depth 25": float(by_depth["tanh"][25]),
    }
    rising = bool(np.all(np.diff(by_depth["relu"][:11]) > 0))
    checks += [
        Check("b: the sigmoid reaches 0.99 at depth 2.", round(sigmoid, 2) >= 0.99),
        Check("b: linear layers stay below 0.1 to depth 25.", linear < 0.1),
        Check("b: with ReLU the cosine rises with every layer to depth 10.", rising),
        Check("b: with ReLU it is above 0.9 at depth 25.", by_depth["relu"][25] > 0.9),
        Check(
            "b: with tanh it ends above that of linear layers.",
            bool(by_depth["tanh"][25] > by_depth["linear"][25]),
        ),
    ]
    rows = initialised_rows(
        setting, "resnet", "digits", INITIALISATIONS, 200 if setting.full else 40
    )
    comparison = compare_cones(rows)
    measured |= cone_values("ResNet, random weights", comparison)
    checks += cone_checks("c, ResNet, random weights", comparison)
    more, theory = _theorems(setting)
    data = {
        "edges": _EDGES,
        "counts": {label: _cosine_counts(X) for label, X in sides.items()},
        "depths": np.arange(26),
        "by_depth": by_depth,
        "groups": in_plane(rows),
    }
    return Outcome(
        measured | more,
        tuple(Check(check.statement, bool(check.holds)) for check in (*checks, *theory)),
        data,
        on=f"a: {source}; c: small ResNets on scanned digits (b is as published)",
    )


def _theorems(setting: Setting) -> tuple[dict[str, Number], list[Check]]:
    """Theorem 1 (a layer raises the cosine) and theorem 2 (variance is the initialisation's)."""
    trials = 20_000 if setting.full else 4_000
    layer = layer_violations(cosine=0.5, trials=trials, seed=setting.seed)
    initialisations = 500 if setting.full else 150
    shares = {
        depth: initialisation_share(depth=depth, initialisations=initialisations, seed=setting.seed)
        for depth in (2, 4)
    }
    values: dict[str, Number] = {
        f"theorem 1, share of violations, width {width}": share
        for width, share in zip(layer.widths.tolist(), layer.violations.tolist(), strict=True)
    }
    checks = [
        Check(
            "Theorem 1: violations are at most 1/width at every width.",
            bool(np.all(layer.violations <= 1 / layer.widths)),
        )
    ]
    for depth, found in shares.items():
        values[f"theorem 2, share of the initialisation, depth {depth}"] = found.share
        values[f"theorem 2, bound, depth {depth}"] = found.bound
        checks.append(
            Check(f"Theorem 2, depth {depth}: the share exceeds β.", found.share > found.bound)
        )
    return values, checks


_FIG6 = {
    # column: mean, standard deviation, least
    "pre-trained ResNet": (0.5556, 0.0695, 0.2321),
    "pre-trained image transformer": (0.4679, 0.0900, 0.0532),
    "pre-trained text transformer": (0.5080, 0.1028, 0.0096),
    "random ResNet": (0.9932, 0.0044, 0.9460),
    "random image transformer": (0.7172, 0.2095, -0.1691),
    "random text transformer": (0.6721, 0.0797, 0.2104),
    "random ResNet, noise": (0.9993, 0.0001, 0.9985),
    "random image transformer, noise": (0.9366, 0.0075, 0.8835),
    "random text transformer, noise": (0.4112, 0.0920, -0.1416),
}


def _columns(values: dict[str, tuple[float, float, float]]) -> dict[str, Number]:
    return {
        f"{what}, {label}": value
        for label, column in values.items()
        for what, value in zip(("mean", "std", "min"), column, strict=True)
    }


@PAPER.draw("fig6")
def _draw_fig6(outcome: Outcome) -> Figure:
    figure, axes = panels(2, size=(5, 3.9))
    for ax, which in zip(axes, ("published", "measured"), strict=True):
        bars(
            outcome.data[which]["mean"],
            errors=outcome.data[which]["std"],
            ylabel="cosine, mean and standard deviation",
            title=which,
            ax=ax,
        )
        ax.set_ylim(0, 1.05)
    return figure


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Cones of the authors' CLIP rows and of random networks, and the sizes of caps."""
    sides: dict[str, np.ndarray] = {}
    for file, state in (("clip", "pre-trained"), ("clip_random", "random")):
        for name, X in zip(("image", "text"), setting.arrays(file), strict=True):
            sides[f"{state} {name} transformer"] = X
    n = 500 if setting.full else 200
    sides["random ResNet"] = initialised_rows(setting, "resnet", "digits", 1, n)[0]
    sides["random ResNet, noise"] = initialised_rows(setting, "resnet", "noise", 1, n)[0]
    for kind, name in (("vit", "image"), ("transformer", "text")):
        label = f"random {name} transformer, noise"
        sides[label] = initialised_rows(setting, kind, "noise", 1, n)[0]  # type: ignore[arg-type]
    found = {label: cone(X) for label, X in sides.items()}
    videos = {
        name: cone(setting.arrays(name)[0]).mean for name in ("videoclip", "videoclip_random")
    }
    measured = _columns({label: (c.mean, c.std, c.min) for label, c in found.items()})
    measured |= {
        "mean, pre-trained VideoCLIP, video": videos["videoclip"],
        "mean, random VideoCLIP, video": videos["videoclip_random"],
        "ordered pairs of 500 rows": found["pre-trained image transformer"].count,
        "share of the circle at 0.56": 10 ** log10_cap_fraction(0.56, 2),
        "share of the sphere at 0.56": 10 ** log10_cap_fraction(0.56, 3),
        "log10 share in 512-D at 0.56, below": log10_cap_fraction(0.56, 512),
    }
    checks = [Check(f"{label}: the mean is above 0.4.", c.mean > 0.4) for label, c in found.items()]
    for name in ("image", "text"):
        before, after = (
            found[f"random {name} transformer"],
            found[f"pre-trained {name} transformer"],
        )
        checks += [
            Check(f"{name}: no cosine of the trained model is negative.", after.min > 0),
            Check(f"{name}: random weights give the larger mean.", before.mean > after.mean),
            Check(
                f"{name}: the means are the printed ones within 0.1.",
                abs(after.mean - _FIG6[f"pre-trained {name} transformer"][0]) < 0.1
                and abs(before.mean - _FIG6[f"random {name} transformer"][0]) < 0.1,
            ),
        ]
    checks.append(
        Check(
            "Pairs are counted in both orders, which gives the printed number for 5,000 rows.",
            found["pre-trained image transformer"].count == 500 * 499
            and 5_000 * 4_999 == 24_995_000,
        )
    )
    checks.append(
        Check(
            "In 512 dimensions the cap is below 2⁻⁵¹² of the sphere.",
            log10_cap_fraction(0.56, 512) < -512 * math.log10(2),
        )
    )
    data: dict[str, Any] = {
        "published": {
            "mean": {label: column[0] for label, column in _FIG6.items()},
            "std": {label: column[1] for label, column in _FIG6.items()},
        },
        "measured": {
            "mean": {label: found[label].mean for label in _FIG6 if label in found},
            "std": {label: found[label].std for label in _FIG6 if label in found},
        },
    }
    return Outcome(
        measured,
        tuple(checks),
        data,
    )
