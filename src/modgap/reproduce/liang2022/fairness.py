"""Fairness: prompts (fig. 11), and faces taken for criminals or animals (tables 2 and 4)."""

from __future__ import annotations

import numpy as np

from modgap.arrays import unit
from modgap.corrections import Correction, Shift
from modgap.evaluation.significance import compare
from modgap.measures.gap import gap_distance
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import Pairs, pairs
from modgap.tasks.denigration import Denigration, denigration, denigration_task
from modgap.tasks.fairface import GROUPS, HARMS, denigration_prompts


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """Builds the list, and tries the measure on rows whose answer is known."""
    texts, kinds = denigration_prompts()
    sizes = {"people": sum(kind in GROUPS for kind in kinds)}
    sizes |= {harm: kinds.count(harm) for harm in HARMS}
    rng = np.random.default_rng(setting.seed)
    rows = unit(rng.standard_normal((len(texts), 64)))
    # Made-up numbers belong to no people, so these groups have none of their names. In group k,
    # k of 100 rows lie by a crime-related prompt and one by a non-human one.
    planted = {f"group {k}": k for k in range(1, 8)}
    target = [
        kinds.index("crime") if i < share else kinds.index("non-human") if i == 99 else 0
        for share in planted.values()
        for i in range(100)
    ]
    images = rows[target] + 0.05 * rng.standard_normal((len(target), 64))
    task = denigration_task(images, rows, np.repeat(list(planted), 100), kinds)
    shares = denigration(task).shares
    return Outcome(
        {"prompts": len(texts), **sizes},
        [
            PAPER.check("prompts_differ", len(set(texts)) == 21),
            PAPER.check("prompts_by_kind", list(sizes.values()) == [14, 4, 3]),
            PAPER.check(
                "planted_shares_found",
                all(
                    abs(shares[group]["crime"].value - share / 100) < 1e-12
                    and abs(shares[group]["non-human"].value - 0.01) < 1e-12
                    for group, share in planted.items()
                ),
            ),
        ],
        {
            "prompts": texts,
            "sizes": sizes,
            "shares": {group: shares[group]["crime"].value for group in planted},
        },
    )


# The gap of CLIP ViT-B/32 on MS-COCO, of which the other gaps are so many times the size.
OWN_GAP = 0.82
WIDER, SMALL, LARGE = 0.97 / OWN_GAP, 0.07 / OWN_GAP, 1.29 / OWN_GAP
# An amount that widens a gap about as far as it goes.
_WIDEST = -8.0


@PAPER.run_on_model("table2")
def table2(setting: Setting) -> Outcome:
    """Shares at the model's own gap and at one that is as much wider as the paper's."""
    faces = _Faces(setting)
    found = {"original gap": faces.at(1.0), "modified gap": faces.at(WIDER)}
    before, after = found.values()
    checks: list[Check] = []
    for race in faces.races:
        of = faces.race == race
        change = compare(before.harmed[of], after.harmed[of], seed=setting.seed)
        checks.append(PAPER.below("wider_gap_helps_faces", change.difference, race=race))
    return faces.outcome(found, checks)


@PAPER.run_on_model("table4")
def table4(setting: Setting) -> Outcome:
    """Shares at a gap that is nearly closed and at one that is very wide."""
    faces = _Faces(setting)
    own = faces.at(1.0)
    found = {"gap 0.07": faces.at(SMALL), "gap 1.29": faces.at(LARGE)}
    checks = [
        PAPER.above(
            "gap_makes_faces_look",
            compare(own.taken_for == harm, other.taken_for == harm, seed=setting.seed).difference,
            words=words,
            adjective=adjective,
        )
        for words, adjective, harm, other in (
            ("Too small a", "criminal", "crime", found["gap 0.07"]),
            ("Too large a", "non-human", "non-human", found["gap 1.29"]),
        )
    ]
    return faces.outcome(found, checks)


class _Faces:
    """FairFace by the model, and the gap of its pairs, which both are shifted along."""

    def __init__(self, setting: Setting) -> None:
        model = setting.model
        assert model is not None
        if model.faces is None:
            raise NotAtHand(PAPER.sentences["fairface"])
        self.seed = setting.seed
        (self.pairs,) = pairs(setting)
        given = model.inputs(model.faces)
        # FairFace's Latino_Hispanic is the paper's Latino.
        races = (race.lower().removesuffix("_hispanic") for race in given["groups"])
        self.race = np.array([race.title() for race in races])
        self.races = tuple(np.unique(self.race).tolist())
        self.task = denigration_task(given["X"], given["texts"], self.race)
        self.own = given["own"]

    def at(self, times: float) -> Denigration:
        """The shares at a gap of so many times the model's own."""
        correction = None if times == 1 else shift_to(self.pairs, times)
        return denigration(self.task, own=self.own, correction=correction, seed=self.seed)

    def outcome(self, found: dict[str, Denigration], checks: list[Check]) -> Outcome:
        """The shares beside the published ones."""
        measured: dict[str, Number] = {
            f"{gap}, {race}, {harm}": at.shares[race][harm].value
            for gap, at in found.items()
            for race in self.races
            for harm in ("crime", "non-human")
        }
        measured |= {f"accuracy, {gap}": at.accuracy for gap, at in found.items()}
        measured |= {f"p that all races fare alike, {g}": at.p_value for g, at in found.items()}
        measured["gap of the pairs"] = gap_distance(self.pairs.X, self.pairs.Y)
        return Outcome(measured, checks, {})


def shift_to(found: Pairs, times: float) -> Correction:
    """Both sides shifted along the gap until that of the pairs is so many times its own size.

    Where no shift gets there, the one that comes nearest.
    """
    from scipy.optimize import brentq, minimize_scalar

    target = times * gap_distance(found.X, found.Y)

    def shifted(amount: float) -> Correction:
        correction: Correction = Shift(amount).fit(found.X, found.Y).correction_
        return correction

    def gap(amount: float) -> float:
        by = shifted(amount)
        return gap_distance(by.x(found.X), by.y(found.Y))

    smallest = float(minimize_scalar(gap, bounds=(0, 1), method="bounded").x)
    if gap(smallest) >= target:
        return shifted(smallest)
    if gap(_WIDEST) <= target:
        return shifted(_WIDEST)
    return shifted(brentq(lambda amount: gap(amount) - target, _WIDEST, smallest, xtol=1e-4))
