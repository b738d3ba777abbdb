"""The cone effect: cosines within one modality, and what makes them large (figs 2 and 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

import numpy as np

from modgap._arrays import unit
from modgap.measures.cone import cone, log10_cap_fraction
from modgap.reproduce.drawing import counted
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.initialisations import (
    INITIALISATIONS,
    NETWORKS,
    cone_checks,
    cone_values,
    in_plane,
    initialised_rows,
)
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.simulate.cone import Activation, cone_by_depth
from modgap.simulate.cone_initialisations import compare_cones
from modgap.simulate.cone_layer import layer_violations
from modgap.simulate.cone_variance import initialisation_share

_MODALITIES = ("image", "text")


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
        checks.append(check(f"The mean cosine is above 0.4 ({label}).", found.mean > 0.4))
        if label.endswith("trained"):
            checks.append(check(f"No cosine is negative ({label}).", found.min > 0))
    by_depth = _by_depth(setting)
    relu, linear, tanh = (by_depth[name] for name in ("relu", "linear", "tanh"))
    sigmoid = float(by_depth["sigmoid"][2])
    rows = initialised_rows(
        setting, "resnet", "digits", INITIALISATIONS, 200 if setting.full else 40
    )
    comparison = compare_cones(rows)
    theory, theorems = _theorems(setting)
    return Outcome(
        {
            **measured,
            "mean cosine, sigmoid, depth 2": sigmoid,
            "mean cosine, linear, largest to depth 25": float(linear.max()),
            "mean cosine, ReLU, depth 25": float(relu[25]),
            "mean cosine, tanh, depth 25": float(tanh[25]),
            **cone_values(comparison, "ResNet, random weights"),
            **theory,
        },
        [
            *checks,
            check(
                "With a sigmoid the mean cosine reaches 0.99 at depth 2.", round(sigmoid, 2) >= 0.99
            ),
            check(
                "With linear layers the mean cosine stays below 0.1 to depth 25.",
                linear.max() < 0.1,
            ),
            check(
                "With ReLU the mean cosine rises with every layer to depth 10.",
                np.all(np.diff(relu[:11]) > 0),
            ),
            check("With ReLU the mean cosine is above 0.9 at depth 25.", relu[25] > 0.9),
            check(
                "With tanh the mean cosine ends above that of linear layers.", tanh[25] > linear[25]
            ),
            *cone_checks(comparison, "random ResNet"),
            *theorems,
        ],
        {
            **counted({label: _cosines(X) for label, X in sides.items()}, np.linspace(-0.4, 1, 71)),
            "depths": np.arange(26),
            "by_depth": by_depth,
            "groups": in_plane(rows),
        },
        on=f"a: {source}; c: small ResNets on scanned digits (b is as published)",
    )


def _sides(setting: Setting) -> tuple[dict[str, np.ndarray], str]:
    """Rows by name, and whose they are: the authors', or else the digits."""
    try:
        rows = _clip(setting, {"clip": "{}, trained", "clip_random": "{}, random weights"})
    except NotAtHand:
        from modgap.datasets import load_digits

        digits = load_digits("test")
        return {"image, trained": digits.X, "text, trained": digits.Y[::5]}, "the embedded digits"
    return rows, "500 pairs of CLIP ViT-B/16 after its projection"


def _clip(setting: Setting, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Rows of the authors' files, under names that say the modality."""
    return {
        name.format(modality): X
        for file, name in names.items()
        for modality, X in zip(_MODALITIES, setting.arrays(file), strict=True)
    }


def _cosines(X: np.ndarray) -> np.ndarray:
    """The cosines of all pairs of different rows, each pair once."""
    rows = unit(X.astype(np.float64))
    return (rows @ rows.T)[np.triu_indices(len(rows), k=1)]


def _by_depth(setting: Setting) -> dict[str, np.ndarray]:
    """The mean cosine after each of 25 random layers, by their activation."""
    n_inputs = 5_000 if setting.full else 200
    found = {}
    for k, activation in enumerate(get_args(Activation)):
        setting.say(f"depth, {activation}", k, 4)
        found[activation] = cone_by_depth(
            activation, depth=25, n_inputs=n_inputs, seed=setting.seed
        ).mean
    return found


def _theorems(setting: Setting) -> tuple[dict[str, Number], list[Check]]:
    """Theorem 1 (a layer raises the cosine) and theorem 2 (variance is the initialisation's)."""
    trials, initialisations = (20_000, 500) if setting.full else (4_000, 150)
    layer = layer_violations(cosine=0.5, trials=trials, seed=setting.seed)
    values: dict[str, Number] = {
        f"theorem 1, share of violations, width {width}": share
        for width, share in zip(layer.widths.tolist(), layer.violations.tolist(), strict=True)
    }
    checks = [
        check(
            "Theorem 1: violations are at most 1/width at every width.",
            np.all(layer.violations <= 1 / layer.widths),
        )
    ]
    for depth in (2, 4):
        found = initialisation_share(
            depth=depth, initialisations=initialisations, seed=setting.seed
        )
        values[f"theorem 2, share of the initialisation, depth {depth}"] = found.share
        values[f"theorem 2, bound, depth {depth}"] = found.bound
        checks.append(
            check(f"Theorem 2, depth {depth}: the share exceeds β.", found.share > found.bound)
        )
    return values, checks


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Cones of the authors' CLIP rows and of random networks, and the sizes of caps."""
    printed = PAPER.table("fig6")
    names = {"clip": "pre-trained {} transformer", "clip_random": "random {} transformer"}
    sides = _clip(setting, names)
    n = 500 if setting.full else 200
    sides["random ResNet"] = initialised_rows(setting, "resnet", "digits", 1, n)[0]
    for kind, name in NETWORKS:
        sides[f"random {name}, noise"] = initialised_rows(setting, kind, "noise", 1, n)[0]
    found = {label: cone(X) for label, X in sides.items()}
    here = PrintedTable(printed.columns, {k: (c.mean, c.std, c.min) for k, c in found.items()})
    count = found["pre-trained image transformer"].count
    log10_cap = log10_cap_fraction(0.56, 512)
    checks = [
        check(f"The mean is above 0.4 ({label}).", c.mean > 0.4) for label, c in found.items()
    ]
    for name in _MODALITIES:
        before, after = f"random {name} transformer", f"pre-trained {name} transformer"
        off = [here.rows[label][0] - printed.rows[label][0] for label in (before, after)]
        checks += [
            check(f"No cosine of the {after} is negative.", found[after].min > 0),
            check(
                f"Random weights give the {name} transformer the larger mean.",
                found[before].mean > found[after].mean,
            ),
            check(
                f"The means of the {name} transformer are the printed ones within 0.1.",
                max(map(abs, off)) < 0.1,
            ),
        ]
    checks += [
        check(
            "Pairs are counted in both orders, which gives the printed number for 5,000 rows.",
            count == 500 * 499 and 5_000 * 4_999 == 24_995_000,
        ),
        check(
            "In 512 dimensions the cap is below 2⁻⁵¹² of the sphere.",
            log10_cap < -512 * math.log10(2),
        ),
    ]
    return Outcome(
        {
            **here.cells("{column}, {row}"),
            "mean, pre-trained VideoCLIP, video": cone(setting.arrays("videoclip")[0]).mean,
            "mean, random VideoCLIP, video": cone(setting.arrays("videoclip_random")[0]).mean,
            "ordered pairs of 500 rows": count,
            "share of the circle at 0.56": 10 ** log10_cap_fraction(0.56, 2),
            "share of the sphere at 0.56": 10 ** log10_cap_fraction(0.56, 3),
            "log10 share in 512-D at 0.56, below": log10_cap,
        },
        checks,
        {
            which: {
                name: {
                    label: table.rows[label][place] for label in printed.rows if label in table.rows
                }
                for place, name in enumerate(("mean", "std"))
            }
            for which, table in (("published", printed), ("measured", here))
        },
    )
