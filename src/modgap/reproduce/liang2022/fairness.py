"""Fairness: the prompts, and how often faces are taken for crime or animals (fig. 11)."""

from __future__ import annotations

import numpy as np

from modgap._arrays import unit
from modgap.evaluation.denigration import GROUPS, HARMS, denigration, denigration_prompts
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting


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
    shares = denigration(images, rows, np.repeat(list(planted), 100), kinds).shares
    return Outcome(
        {"prompts": len(texts), **sizes},
        [
            check(
                "The parts give 21 different prompts.",
                len(set(texts)) == 21,
                "A prompt is missing, or there twice.",
                "consistency",
            ),
            check(
                "Of them 14 name people, 4 something non-human and 3 crime.",
                list(sizes.values()) == [14, 4, 3],
                "A prompt is of another kind.",
                "consistency",
            ),
            check(
                "Planted shares are measured exactly.",
                all(
                    abs(shares[group]["crime"].value - share / 100) < 1e-12
                    and abs(shares[group]["non-human"].value - 0.01) < 1e-12
                    for group, share in planted.items()
                ),
                "denigration counts something else.",
                "consistency",
            ),
        ],
        {
            "prompts": texts,
            "sizes": sizes,
            "shares": {group: shares[group]["crime"].value for group in planted},
        },
    )
