"""Tables 1 to 5 of Yaras et al. 2024: the printed cells, and models trained on Flickr8k."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from modgap.reproduce.entry import Check, Outcome, Setting
from modgap.reproduce.flickr8k.results import SETTING
from modgap.reproduce.yaras2024.measured import (
    COLUMNS_HERE,
    HOW,
    ON_TRAINED,
    cells,
    falls,
    gap_of,
    rises_nowhere,
    values,
)
from modgap.reproduce.yaras2024.published import (
    BASELINE,
    COLUMNS,
    GAP,
    IMAGE,
    PAPER,
    TABLE1,
    TABLE1_COLUMNS,
    TABLE2,
    TABLE3,
    TABLE4,
    TABLE5,
    UNIFORMITY,
    Row,
    column,
    named,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modgap.reproduce.flickr8k.results import Spread

# A rank correlation at least this large is called strong.
STRONG = 0.6
_FEW_STEPS = (
    "A run here has 360 steps, the paper's tens of thousands: what is cold for long, as the "
    "schedules from 0.01 and the alternations, has less time to close the gap."
)


def rank_correlation(
    rows: Mapping[str, Row], first: str, second: str, columns: tuple[str, ...] = COLUMNS
) -> float:
    """Spearman's correlation of two columns of a table."""
    from scipy.stats import spearmanr

    a, b = (column(rows, name, columns) for name in (first, second))
    return float(spearmanr(a, b).statistic)


def draw_gaps(outcome: Outcome) -> Figure:
    """Printed and measured gaps, one panel each: their sizes cannot be compared."""
    from modgap.plot import bars, panels

    figure, axes = panels(2, size=(5.0, 3.4))
    for ax, name in zip(axes, ("published", "measured"), strict=True):
        gaps = outcome.data[name]
        errors = outcome.data["deviation"] if name == "measured" else None
        bars(gaps, ylabel=GAP, errors=errors, reference=gaps[BASELINE], title=name, ax=ax)
    return figure


def _outcome(
    printed: Mapping[str, Row],
    found: Mapping[str, Mapping[str, Spread]],
    checks: tuple[Check, ...],
    note: str,
) -> Outcome:
    """Every cell under its published name, and the gaps of both for the picture."""
    place = COLUMNS.index(GAP)
    return Outcome(
        measured=values(found),
        checks=checks,
        data={
            "published": {name: row[place] for name, row in printed.items()},
            "measured": {name: gap_of(found, name) for name in found},
            "deviation": {name: columns[GAP].deviation for name, columns in found.items()},
        },
        on=ON_TRAINED,
        note=f"{note} {COLUMNS_HERE}",
    )


def draw_table1(outcome: Outcome) -> Figure:
    """Accuracy against gap and against uniformity, as printed."""
    from modgap.plot import panels, scatter

    figure, axes = panels(2)
    for ax, name in zip(axes, (GAP, UNIFORMITY), strict=True):
        scatter(outcome.data[name], xlabel=name, ylabel="MMVP-VLM accuracy, %", ax=ax)
    return figure


@PAPER.entry(
    "table1",
    "Accuracy on MMVP-VLM against gap and uniformity",
    "Accuracy on the hard matching task MMVP-VLM goes strongly neither with the gap nor with the "
    "uniformity.",
    "trained",
    published=named(TABLE1, TABLE1_COLUMNS),
    how=f"{HOW} The images of MMVP-VLM do not come with modgap either.",
    fast=f"rank correlations of the seven printed rows; gap and uniformity from {SETTING}",
    full="the same",
    draw=draw_table1,
)
def run_table1(setting: Setting) -> Outcome:
    """Rank correlations among the printed rows, and the two columns that can be measured here."""
    score = TABLE1_COLUMNS[2]
    found = {
        f"rank correlation of MMVP-VLM with the {name}": rank_correlation(
            TABLE1, name, score, TABLE1_COLUMNS
        )
        for name in (GAP, UNIFORMITY)
    }
    checks = tuple(Check(f"{name} is below {STRONG} in size, as printed", abs(value) < STRONG)
                   for name, value in found.items())  # fmt: skip
    trained = cells(setting, list(TABLE1))
    checks += (
        Check("the gap falls from FLT 0.04 to 0.07 and 0.1, trained",
              falls(trained, ["FLT 0.04", "FLT 0.07", "FLT 0.1"])),
        Check("the gap falls from TS S1 to S2 and S3, trained",
              falls(trained, ["TS S1", "TS S2", "TS S3"])),
    )  # fmt: skip
    measured = {
        f"{row}: {name}": columns[name].mean
        for row, columns in trained.items()
        for name in (GAP, UNIFORMITY)
    }
    accuracy = column(TABLE1, score, TABLE1_COLUMNS)
    points = {
        name: {
            kind: np.array([
                (value, y)
                for row, value, y in zip(
                    TABLE1, column(TABLE1, name, TABLE1_COLUMNS), accuracy, strict=True
                )
                if row.startswith(kind)
            ])
            for kind in (BASELINE, "FLT", "TS")
        }
        for name in (GAP, UNIFORMITY)
    }  # fmt: skip
    return Outcome(
        {**measured, **found},
        checks,
        points,
        on=f"the printed accuracies; gap and uniformity of {ON_TRAINED}",
        note="MMVP-VLM itself was not measured.",
    )


@PAPER.entry(
    "table2",
    "Gap, uniformity and accuracy under each method",
    "Every method that keeps the temperature high or swaps the modalities ends with a smaller gap "
    "than CLIP's own training.",
    "trained",
    published=named(TABLE2),
    how=HOW,
    fast=SETTING,
    full="the same",
    draw=draw_gaps,
    slips=(
        "E.3 describes zero-shot classification of CIFAR-10 as linear probing, with a prompt for "
        "numbers.",
        "E.2 defines the centre of the texts as a sum over the images (c_Y sums x_j).",
        "Text retrieval of the baseline is 78.367 here and 78.36 in tables 3 to 5.",
    ),
)
def run_table2(setting: Setting) -> Outcome:
    """Each method of the table, trained."""
    found = cells(setting, list(TABLE2))
    checks = tuple(
        Check(
            f"{name} ends with a smaller gap than the baseline",
            gap_of(found, name) < gap_of(found, BASELINE),
        )
        for name in TABLE2
        if name not in (BASELINE, "HS")
    )
    note = (
        f"{_FEW_STEPS} The HS of this table swaps in a thousandth of the steps, which was none of "
        "360 with any seed: it is the baseline once more, not judged, and its difference from it "
        "the rounding of a GPU. Table 5 has larger shares."
    )
    return _outcome(TABLE2, found, checks, note)


def draw_table3(outcome: Outcome) -> Figure:
    """Gap and retrieval against the fixed temperature, printed and measured."""
    from modgap.plot import curves, panels

    data = outcome.data
    figure, axes = panels(2, size=(4.6, 3.4))
    for ax, name, label in (
        (axes[0], "gap", GAP),
        (axes[1], "retrieval", "image retrieval, share of the best"),
    ):
        shown = {
            "published: MS-COCO": data[f"{name}, published"],
            "measured: Flickr8k": data[f"{name}, measured"],
        }
        curves(data["temperatures"], shown, xlabel="fixed temperature τ", ylabel=label, log="x",
               ax=ax)  # fmt: skip
    return figure


@PAPER.entry(
    "table3",
    "Fixed temperatures from 0.01 to 0.4",
    "The higher the fixed temperature, the smaller the gap that is left after training.",
    "trained",
    published=named(TABLE3),
    how=HOW,
    fast=SETTING,
    full="the same",
    draw=draw_table3,
)
def run_table3(setting: Setting) -> Outcome:
    """A training at each printed temperature."""
    found = cells(setting, list(TABLE3))
    names = [name for name in TABLE3 if name != BASELINE]
    upto = names[: names.index("0.1") + 1]
    printed = {name: TABLE3[name] for name in names}
    checks = (
        Check("the gap falls from each temperature to the next up to 0.1", falls(found, upto)),
        Check(
            "from 0.1 on it rises at no step by more than two standard errors",
            rises_nowhere(found, names[len(upto) - 1 :]),
        ),
        Check("so do the printed gaps fall, to 0.005",
              bool(np.all(np.diff(column(printed, GAP)) <= 0.005))),
    )  # fmt: skip
    outcome = _outcome(
        TABLE3,
        found,
        checks,
        "On unseen pairs a gap of 0.17 to 0.19 stays however high the temperature; the printed "
        "one goes down to 0.01. As printed, retrieval is best in the middle and falls from 0.1 on.",
    )
    retrieval = {
        "published": np.array(column(printed, IMAGE)),
        "measured": np.array([found[name][IMAGE].mean for name in names]),
    }
    data = {
        "temperatures": [float(name) for name in names],
        "gap, published": column(printed, GAP),
        "gap, measured": [gap_of(found, name) for name in names],
        **{f"retrieval, {which}": v / v.max() for which, v in retrieval.items()},
    }
    return dataclasses.replace(outcome, data=data)


@PAPER.entry(
    "table4",
    "Scheduled and alternating temperatures",
    "The higher the temperature at which a rising schedule ends, the smaller the gap that is left, "
    "and the same goes for the upper end of an alternation.",
    "trained",
    published=named(TABLE4),
    how=HOW,
    fast=SETTING,
    full="the same",
    draw=draw_gaps,
    slips=(
        "Appendix F calls the alternations of the table, A0 and A1, A1 and A2, and announces "
        "results for S1 where S0 is new.",
    ),
)
def run_table4(setting: Setting) -> Outcome:
    """Each schedule and alternation, trained."""
    found = cells(setting, list(TABLE4))
    warm = ("S1", "S2", "S3")
    checks = (
        Check("S0, S1, S2 and S3 leave ever smaller gaps", falls(found, ["S0", *warm])),
        Check("A1 leaves a smaller gap than A0", falls(found, ["A0", "A1"])),
        Check(
            "S1, S2 and S3 leave smaller gaps than a learned temperature",
            max(gap_of(found, name) for name in warm) < gap_of(found, BASELINE),
        ),
    )
    return _outcome(TABLE4, found, checks, _FEW_STEPS)


@PAPER.entry(
    "table5",
    "Other ways to write the temperature, and swapping",
    "Writing the temperature so that it falls more slowly leaves a smaller gap, and the more steps "
    "see swapped modalities, the smaller it gets.",
    "trained",
    published=named(TABLE5),
    how=HOW,
    fast=SETTING,
    full="the same",
    draw=draw_gaps,
    slips=(
        "Appendix F inverts the scaled temperature: it prints τ = exp(ν/s) where appendix D has "
        "1/τ = exp(ν/s).",
        "Table 2's hard swapping (p = 0.001, gap 0.225) and soft swapping are missing here.",
    ),
)
def run_table5(setting: Setting) -> Outcome:
    """Each way to write the temperature and each share of swapping, trained."""
    found = cells(setting, list(TABLE5))
    ways = ("softplus", "scale 2", "scale 10")
    checks = tuple(
        Check(
            f"{name} leaves a smaller gap than exp(ν)",
            gap_of(found, name) < gap_of(found, BASELINE),
        )
        for name in ways
    )
    checks += (
        Check(
            "the gap falls as swapping goes from no step to 0.01, 0.1 and all of them",
            falls(found, [BASELINE, "HS 0.01", "HS 0.1", "HS 1"]),
        ),
    )
    note = (
        "Without normalisation the training did not get off the ground: retrieval is next to "
        "chance, so its gap says nothing. Swapping at every step costs a third of the retrieval, "
        "as printed."
    )
    return _outcome(TABLE5, found, checks, note)
