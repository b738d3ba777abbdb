"""Conformity of generated images and captions (fig. 13), by a model of your own."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.reproduce.drawing import bin_counts
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.setting import NotAtHand, Setting
from modgap.reproduce.sources import pairs
from modgap.tasks import conformity_test
from modgap.tasks.conformity import ConformityTest

GLIDE, UNCLIP, CLIPCAP, REWARD = "Glide", "unCLIP", "ClipCap", "Caption Reward"
_REAL = {"image": "real images", "text": "people's captions"}


@PAPER.run_on_model("fig13")
def fig13(setting: Setting) -> Outcome:
    """How common generated items are among real ones, and against each other."""
    model = setting.model
    assert model is not None
    if not model.generated:
        raise NotAtHand(PAPER.entries["levi2025/fig13"].how)
    (real_pairs,) = pairs(setting)
    real = {"image": real_pairs.X, "text": real_pairs.Y}
    made = {_known(name): items for name, items in model.generated.items()}
    rows = {name: model.rows(items)[0] for name, items in made.items()}
    kinds: dict[str, str] = {name: items.kind for name, items in made.items()}
    found: dict[str, ConformityTest] = {}
    for name, kind in kinds.items():
        if kind not in real:
            raise NotAtHand(f"{name} must be images or captions, got {kind}.")
        found[name] = conformity_test(rows[name], real[kind], seed=setting.seed)
    measured: dict[str, Number] = {}
    for name, test in found.items():
        measured |= {
            f"mean conformity, {name}": test.generated.value,
            f"mean conformity, {_REAL[kinds[name]]}": test.real.value,
            f"more common than real, {name}": test.difference.value,
            f"p of that, {name}": test.p_value,
        }
    return Outcome(measured, _checks(found, rows, real, setting.seed), _drawn(found, kinds))


def _checks(
    found: dict[str, ConformityTest],
    rows: dict[str, np.ndarray],
    real: dict[str, Any],
    seed: int,
) -> list[Check]:
    """What the claim says of those generators of it that were given."""
    checks = [
        PAPER.above("generated_more_common", found[name].difference, name=name)
        for name in (GLIDE, UNCLIP)
        if name in found
    ]
    if REWARD in found:
        checks.append(
            PAPER.below("generated_captions_rarer", found[REWARD].difference, reward=REWARD)
        )
    for first, second, kind in ((GLIDE, UNCLIP, "image"), (CLIPCAP, REWARD, "text")):
        if first in found and second in found:
            test = conformity_test(rows[first], rows[second], real[kind], seed=seed)
            checks.append(
                PAPER.above("one_more_common", test.difference, first=first, second=second)
            )
    return checks


def _drawn(found: dict[str, ConformityTest], kinds: dict[str, str]) -> dict[str, Any]:
    """The conformities of each, and of what is real, as histograms for images and for captions."""
    panels = {}
    for kind, title in (("image", "images"), ("text", "captions")):
        own = [name for name in found if kinds[name] == kind]
        values = {name: found[name].generated_values for name in own}
        if own:
            values["real"] = found[own[0]].real_values
            panels[title] = bin_counts(values)
    return {"panels": panels}


def _known(name: str) -> str:
    """The paper's spelling of a generator that it has."""
    plain = {known.lower().replace(" ", ""): known for known in (GLIDE, UNCLIP, CLIPCAP, REWARD)}
    said = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    return plain.get(said, name)
