"""The cone effect: cosines within one modality, and what makes them large (figs 2, 6 and 14)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import get_args

import numpy as np

from modgap.measures.cone import cone, log10_cap_fraction
from modgap.reproduce.drawing import bin_counts
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.convolutional import (
    IN_PLACE,
    network_checks,
    network_cones,
    network_cosines,
)
from modgap.reproduce.liang2022.initialisations import (
    INITIALISATIONS,
    NETWORKS,
    cone_checks,
    cone_values,
    in_plane,
    initialised_rows,
)
from modgap.reproduce.liang2022.row_statistics import (
    COSINE_EDGES,
    clip_pairs,
    cosines,
    mean_cosine,
    on_words,
    random_cosine,
    row_interval,
)
from modgap.reproduce.paper import PrintedTable
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import pairs
from modgap.simulate.cone_initialisations import compare_cones
from modgap.simulate.cone_theory import (
    Activation,
    initialisation_share,
    layer_violations,
    random_layers,
)

_MODALITIES = ("image", "text")
# Photos by CLIP, and their name in fig. 14.
_PHOTOS = {"CLIP": "COCO", "Unsplash": "Unsplash"}
_AUTHORS = "500 pairs of CLIP ViT-B/16 after its projection"


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Parts a to c, with theorems 1 and 2 beside b and c, which they explain."""
    source = clip_pairs(setting)
    sides = _sides(setting, "{}, trained", "{}, random weights")
    cones = {label: cone(X) for label, X in sides.items()} | network_cones(setting, "photos")
    by_depth = _by_depth(setting)
    rows = initialised_rows(
        setting, "resnet", "digits", INITIALISATIONS, 200 if setting.full else 40
    )
    theory, theorems = _theorems(setting)
    histograms = bin_counts({label: cosines(X) for label, X in sides.items()}, COSINE_EDGES)
    network = network_cosines(setting, "photos")
    histograms["counts"] |= {label: of["counts"] for label, of in network.items()}
    return Outcome(
        {
            "initialisations": INITIALISATIONS,
            **{f"mean cosine, {label}": found.mean for label, found in cones.items()},
            **{f"least cosine, {label}": found.min for label, found in cones.items()},
            "mean cosine, sigmoid, depth 2": float(by_depth["sigmoid"][2]),
            "mean cosine, linear, depth 25": float(by_depth["linear"][25]),
            "mean cosine, ReLU, depth 25": float(by_depth["relu"][25]),
            "mean cosine, tanh, depth 25": float(by_depth["tanh"][25]),
            **cone_values(compare_cones(rows), "ResNet, random weights"),
            **theory,
        },
        [
            *(_has_cone(label, X, setting.seed) for label, X in sides.items()),
            *(
                PAPER.check("no_negative_cosine", found.min > 0, label=label)
                for label, found in cones.items()
                if label.endswith("trained")
            ),
            *network_checks(setting, "photos", least=True),
            *_depth_checks(by_depth),
            *cone_checks(rows, "random ResNet", setting.seed),
            PAPER.check("no_last_relu", min(float(X.min()) for X in rows) < 0),
            *theorems,
        ],
        {
            **histograms,
            "depths": np.arange(26),
            "by_depth": by_depth,
            "groups": in_plane(rows),
        },
        on=f"a: {on_words(source, _AUTHORS)}; {IN_PLACE}, on photos of Flickr8k; c: small ResNets "
        "on scanned digits (b is as published)",
    )


def _sides(setting: Setting, trained: str, untrained: str) -> dict[str, np.ndarray]:
    """Rows by name: the authors' CLIP, trained and with random weights, or those in its place."""
    source = clip_pairs(setting)
    found = {trained: (source.X, source.Y)}
    if source.name == "CLIP":
        with suppress(NotAtHand):
            found[untrained] = setting.arrays("clip_random")
    if (model := setting.model) is not None and (rows := model.random_pairs(setting.seed)):
        found[untrained] = rows
    return {
        name.format(modality): X
        for name, both in found.items()
        for modality, X in zip(_MODALITIES, both, strict=True)
    }


def _has_cone(label: str, X: np.ndarray, seed: int) -> Check:
    """That rows point in one direction more than random ones."""
    return PAPER.above(
        "cone_beyond_chance",
        row_interval(len(X), mean_cosine(X), seed),
        random_cosine(X.shape, seed),
        label=label,
    )


def _by_depth(setting: Setting) -> dict[str, np.ndarray]:
    """The mean cosine after each of 25 random layers, by their activation (sec. 2.2)."""
    n_inputs = 5_000 if setting.full else 200
    found = {}
    for k, activation in enumerate(get_args(Activation)):
        setting.say(f"depth, {activation}", k, 4)
        rng = np.random.default_rng(setting.seed)
        inputs = rng.standard_normal((n_inputs, 512))
        layers = [inputs, *random_layers(inputs, activation, [512] * 25, rng)]
        once = np.ones((1, n_inputs))
        found[activation] = np.array(
            [float(mean_cosine(H)(once)[0]) for H in setting.read(f"{activation} layers", layers)]
        )
    return found


def _depth_checks(by_depth: dict[str, np.ndarray]) -> list[Check]:
    """What fig. 2b shows."""
    relu, linear = by_depth["relu"], by_depth["linear"]
    return [
        PAPER.above("sigmoid_reaches_printed", float(by_depth["sigmoid"][2]), 0.985),
        *(
            PAPER.above(
                "activation_makes_cone",
                float(by_depth[activation][25]),
                float(linear[25]),
                name=name,
            )
            for activation, name in (("relu", "ReLU"), ("tanh", "tanh"), ("sigmoid", "a sigmoid"))
        ),
        PAPER.below("linear_makes_little_cone", float(linear[25]), float(relu[1])),
        PAPER.above("relu_rises_at_each_layer", float(np.diff(relu[:11]).min())),
    ]


def _theorems(setting: Setting) -> tuple[dict[str, Number], list[Check]]:
    """Theorem 1 (a layer raises the cosine) and theorem 2 (variance is the initialisation's).

    Both are proved, so that a simulation shows no more than that nothing is wrong with it.
    """
    trials, initialisations = (20_000, 500) if setting.full else (4_000, 150)
    layer = layer_violations(cosine=0.5, trials=trials, seed=setting.seed)
    values: dict[str, Number] = {
        f"theorem 1, share of violations, width {width}": share
        for width, share in zip(layer.widths.tolist(), layer.violations.tolist(), strict=True)
    }
    times_width = layer.violations * layer.widths
    checks = [PAPER.below("theorem_1", float(times_width[-1]), float(times_width[0]))]
    for depth in (2, 4):
        found = initialisation_share(
            depth=depth, initialisations=initialisations, seed=setting.seed
        )
        values[f"theorem 2, share of the initialisation, depth {depth}"] = found.share
        values[f"theorem 2, bound, depth {depth}"] = found.bound
        checks.append(PAPER.above("theorem_2", found.share, found.bound, depth=depth))
    return values, checks


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Cones of the authors' CLIP rows and of random networks, and the sizes of caps."""
    printed = PAPER.table("fig6")
    trained, untrained = "pre-trained {} transformer", "random {} transformer"
    sides = _sides(setting, trained, untrained)
    n = 500 if setting.full else 100
    sides["random ResNet"] = initialised_rows(setting, "resnet", "digits", 1, n)[0]
    for kind, name in NETWORKS:
        sides[f"random {name}, noise"] = initialised_rows(setting, kind, "noise", 1, n)[0]
    found = {label: cone(X) for label, X in sides.items()}
    found |= network_cones(setting, "photos", "noise")
    here = PrintedTable(printed.columns, {k: (c.mean, c.std, c.min) for k, c in found.items()})
    checks = [_has_cone(label, X, setting.seed) for label, X in sides.items()]
    for name in _MODALITIES:
        before, after = untrained.format(name), trained.format(name)
        checks.append(PAPER.check("no_negative_cosine", found[after].min > 0, label=after))
        if before in sides:
            checks.append(_narrower_before(name, sides[before], sides[after], setting.seed))
    checks += network_checks(setting, "photos", least=True, narrower=True)
    return Outcome(
        {
            **here.cells("{column}, {row}"),
            **_videoclip(setting),
            "share of the circle at 0.56": 10 ** log10_cap_fraction(0.56, 2),
            "share of the sphere at 0.56": 10 ** log10_cap_fraction(0.56, 3),
            "log10 share in 512-D at 0.56, below": log10_cap_fraction(0.56, 512),
        },
        [*checks, *_cap_checks()],
        {
            which: {
                name: {label: values[place] for label, values in table.rows.items()}
                for place, name in enumerate(("mean", "std"))
            }
            for which, table in (("published", printed), ("measured", here))
        },
        on=f"{on_words(clip_pairs(setting), _AUTHORS)}, where the paper takes 5,000 rows before "
        f"it; {IN_PLACE}; small random networks for the ResNet and for noise",
    )


def _narrower_before(name: str, before: np.ndarray, after: np.ndarray, seed: int) -> Check:
    """That rows have the larger mean cosine before any training."""
    untrained, trained = mean_cosine(before), mean_cosine(after)
    return PAPER.above(
        "random_weights_narrower",
        row_interval(len(after), lambda counts: untrained(counts) - trained(counts), seed),
        name=f"{name} transformer",
    )


def _videoclip(setting: Setting) -> dict[str, Number]:
    """The mean cosine of VideoCLIP's videos, trained and not, where they are at hand."""
    found: dict[str, Number] = {}
    for words, file in (("pre-trained", "videoclip"), ("random", "videoclip_random")):
        if setting.rows is None and setting.file(f"features_{file}.npy") is not None:
            found[f"mean, {words} VideoCLIP, video"] = cone(setting.arrays(file)[0]).mean
    return found


def _cap_checks() -> list[Check]:
    """The shares of the sphere that sec. 2.1 prints, and its number of pairs."""
    return [
        PAPER.check(
            "ordered_pairs",
            PAPER.entries["liang2022/fig6"].published["ordered pairs of 5,000 rows"]
            == 5_000 * 4_999,
        ),
        PAPER.check("cap_in_512", log10_cap_fraction(0.56, 512) < -512 * math.log10(2)),
        PAPER.check("cap_in_3", round(100 * 10 ** log10_cap_fraction(0.56, 3), 2) == 3.34),
    ]


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """CLIP's image rows of ImageNet, beside those of other photos."""
    sides = {_PHOTOS.get(each.name, each.name): each.X for each in pairs(setting)}
    held = None if setting.rows is not None else setting.tensors("imagenet-clip-b32")
    if held is not None:
        photos = {name: sides[name] for name in _PHOTOS.values() if name in sides}
        sides = {"ImageNet": held["image"], **photos}
    first = "ImageNet" if held is not None else list(sides)[-1]
    found = {f"vision transformer, {label}": cone(X) for label, X in sides.items()}
    found |= network_cones(setting, "photos", "CIFAR-10")
    return Outcome(
        {
            f"{name}, {label}": getattr(of, name)
            for label, of in found.items()
            for name in ("mean", "std", "min")
        },
        [
            _has_cone(first, sides[first], setting.seed),
            *network_checks(setting, "photos"),
            *network_checks(setting, "CIFAR-10"),
        ],
        {name: {k: getattr(of, name) for k, of in found.items()} for name in ("mean", "std")},
        on=first
        if held is None
        else "4,000 images of ImageNet by CLIP ViT-B/32 after its projection, each probably the "
        "mean of augmented views, which narrows the cone; MS-COCO's by ViT-B/16; "
        f"{IN_PLACE}, on photos of Flickr8k and on CIFAR-10",
    )
