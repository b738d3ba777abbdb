"""Everything the page shows, as one document of plain values. The page computes nothing but moves.

What cannot be shown is named in ``missing`` with the reason, and the rest is shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.core.checks import InputError, InputValueError, check_choice
from modgap.core.results import SCHEMA, Progress, document, part_of, plain, silent, spoken
from modgap.corrections import METRICS, Metric, query_modalities, row_length
from modgap.diagnosis import Diagnosis, diagnose
from modgap.diagnosis.verdict import own_share_words
from modgap.evaluation import GOAL_METRICS, Goal
from modgap.evaluation.metric_names import OWN_EXCESS
from modgap.io import Modalities, PairingWarning
from modgap.measures import Measurement, Profile, measure, profile
from modgap.measures.measurement import MAX_LANDSCAPE
from modgap.measures.projection import check_umap
from modgap.reports.answers import make_answers
from modgap.reports.assemble import page_html
from modgap.reports.fields import fields_document
from modgap.reports.fix import fix_document, not_judged
from modgap.reports.geometry import geometry_document
from modgap.reports.headline import headline
from modgap.reports.picture import (
    Drawn,
    add_thumbnails,
    choose_drawn,
    picture_document,
    projections,
    shorten_labels,
)
from modgap.reports.rows import RowPictures
from modgap.reports.slider import slider_document
from modgap.reports.terms import terms

# A page can be mailed: labels are cut beyond this size, pictures of drawn rows take what is left.
_PAGE_BYTES = 7_800_000
# What is shown of two modalities only, and what to say of it where there are more.
_ONLY_TWO = {
    "slider": "The slider that closes the gap needs a page of two modalities.",
    "separability": "How well each feature tells the modality needs a page of two modalities.",
    "landscapes": "Landscapes of the loss need a page of two modalities.",
}


@dataclass
class _Notes:
    """What is noted on the way: what cannot be shown and why, and what was sampled."""

    missing: dict[str, str] = field(default_factory=dict)
    sampling: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, why: str, *sections: str) -> Iterator[None]:
        """Note as missing what the data does not allow, and go on."""
        try:
            yield
        except InputError as reason:
            self.missing.update(dict.fromkeys(sections, f"{why}{reason}"))


def contents(
    data: Modalities,
    *,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    model: str | None = None,
    title: str | None = None,
    diagnosis: Diagnosis | None = None,
    umap: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], Diagnosis | None]:
    """The page's document, and the diagnosis it is drawn from where there could be one.

    Parameters
    ----------
    data : Modalities
        What the page is about, with captions, ids and thumbnails where there are any.
    queries, goal, metric, model, title, diagnosis, umap, seed, progress
        As for ``report``.
    """
    check_choice(goal, "goal", tuple(GOAL_METRICS))
    check_choice(metric, "metric", METRICS)
    if umap:
        check_umap()
    say, page, pictures = progress or silent, _Notes(), RowPictures(data)
    asking = _asking(queries, data.names, diagnosis)
    if diagnosis is None or diagnosis.duplicates is not None:  # as they were split there
        data = data.with_duplicates_grouped()
    if diagnosis is None:
        with page.noting("", "verdict"):
            diagnosis = diagnose(
                data, queries=asking, goal=goal, metric=metric, model=model, seed=seed,
                progress=part_of(say, "diagnosing", 0, 55),
            )  # fmt: skip
    measurement, known = diagnosis.measurement if diagnosis else None, None
    if measurement is None:
        with page.noting("The measures are missing: ", "landscapes"), warnings.catch_warnings():
            # The refused diagnosis has looked at the pairs and warned of them.
            warnings.simplefilter("ignore", PairingWarning)
            measurement = measure(data, seed=seed, progress=part_of(say, "measuring", 55, 65))
    say("distributions of every row", 65, 100)
    with page.noting("Not shown: ", "picture", "cosines", "features", "shell", "conformity"):
        known = profile(data, seed=seed)
    if known is not None and known.cosines is None:
        for section in ("cosines", "shell", "conformity"):
            page.missing[section] = "Not shown: it needs two different rows of each modality."
    if len(data.names) > 2:
        page.missing.update(_ONLY_TWO)
    picture, paths, drawn = _draw(
        data, known, diagnosis, page, metric=metric, umap=umap, seed=seed, say=say
    )
    say("the page", 98, 100)
    facts = _facts(data)
    geometry = geometry_document(data, known, measurement, pictures)
    answers = make_answers(data, diagnosis, metric, pictures)
    _say_what_is_missing(data, diagnosis, page)
    made: dict[str, Any] = plain(
        {
            "schema": f"modgap/report/{SCHEMA}",
            "version": __version__,
            "seed": seed,
            "title": title or spoken(dict.fromkeys(facts["source"])),
            "queries": asking,
            "model": model,
            **facts,
            "sampling": [*_sampling(diagnosis, measurement, known), *page.sampling],
            "missing": page.missing,
            "terms": terms(data.names, asking, data.asking),
            "headline": headline(diagnosis, answers.before, answers.after),
            "answers": answers.document,
            "verdict": _verdict(diagnosis, metric, page),
            "diagnosis": document("diagnose", diagnosis) if diagnosis else None,
            **_measured(measurement, data.names),
            "fix": fix_document(diagnosis),
            "picture": picture,
            "paths": paths,
            **geometry,
        }
    )
    if drawn is not None:
        room = _PAGE_BYTES - len(page_html(made).encode())
        room += shorten_labels(made["picture"], -room)
        add_thumbnails(made["picture"], data, drawn, pictures, room)
    if unreadable := pictures.sentence():
        made["missing"]["thumbnails"] = unreadable
        warnings.warn(unreadable, stacklevel=2)
    return made, diagnosis


def _draw(
    data: Modalities,
    known: Profile | None,
    diagnosis: Diagnosis | None,
    page: _Notes,
    *,
    metric: Metric,
    umap: bool,
    seed: int,
    say: Progress,
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], Drawn | None]:
    """The picture, the moves of its slider and the drawn rows, as far as the data allows."""
    if known is None:
        return None, [], None
    if data.dim < 2:
        page.missing["picture"] = "Not shown: a picture needs at least two dimensions."
        return None, [], None
    say("the picture", 75, 100)
    unit = row_length(metric) == "unit"
    drawn = choose_drawn(data, seed, unit=unit)
    moments = [side.at_unit_length() if unit else side for side in known.moments.values()]
    found = projections(drawn, moments, umap=umap, seed=seed)
    fields, left_out = fields_document(data, drawn.numbers)
    page.missing.update({"fields": left_out} if left_out else {})
    page.sampling.append(_drawn_words(data, drawn, unit=unit))
    paths: list[dict[str, Any]] = []
    if diagnosis is not None and len(data.names) == 2:
        paths, failed = slider_document(
            data, diagnosis, drawn, found, metric=metric, seed=seed,
            progress=part_of(say, "the slider", 80, 98),
        )  # fmt: skip
        page.missing.update({"slider": failed} if failed else {})
    picture = {**picture_document(data, drawn, found), "fields": fields}
    return picture, paths, drawn


def _facts(data: Modalities) -> dict[str, Any]:
    """The names, sources, sizes and pairs of the data."""
    pairing = "row by row" if data.group_codes is None else "by group"
    return {
        "names": data.names,
        "source": [Path(side.source).name for side in data.sides.values()],
        "n": [side.n_rows for side in data.sides.values()],
        "asking": [
            {"name": f"{name} queries", "n": side.n_rows, "source": Path(side.source).name}
            for name, side in data.asking.items()
        ],
        "dim": data.dim,
        "paired": data.paired,
        "pairing": pairing if data.paired else "not known",
    }


def _drawn_words(data: Modalities, drawn: Drawn, *, unit: bool) -> str:
    rows = spoken(
        f"{len(drawn.numbers[name]):,} of {side.n_rows:,} {name} rows"
        for name, side in data.sides.items()
    )
    pairs = "pairs" if len(data.names) == 2 else "matches"
    return (
        f"The picture shows {rows}"
        + (f", with {drawn.n_pairs:,} {pairs}" if drawn.n_pairs else "")
        + (", at unit length." if unit else ".")
    )


def _measured(found: Measurement | None, names: Sequence[str]) -> dict[str, Any]:
    """What the page shows of a measurement; the same keys where there is none."""
    origin_pairs = every_two = None
    if found is not None and len(found.names) > 2:
        every_two = {"names": [one.names for one in found.between], "lines": found.pair_lines()}
    elif found is not None and found.pairs is not None:
        origin_pairs = min(found.pairs.n_sample, MAX_LANDSCAPE)
    return {
        "measurement": found.to_dict() if found else None,
        "measures": found.lines() if found else [],
        "origin_pairs": origin_pairs,
        "measured_on": found.sampling() if found else None,
        "measure_columns": found.columns if found else names,
        "every_two": every_two,
    }


def _asking(
    queries: str | Sequence[str] | None, names: Sequence[str], diagnosis: Diagnosis | None
) -> tuple[str, ...]:
    """The query modalities: those named, else those of the diagnosis, else text."""
    if diagnosis is None:
        return query_modalities(queries, names)
    if queries is not None and query_modalities(queries, names) != diagnosis.queries:
        raise InputValueError(
            f"queries must be those of the diagnosis, {' and '.join(diagnosis.queries)}, got "
            f"{queries!r}. Leave it out, or make the diagnosis anew."
        )
    return diagnosis.queries


def _say_what_is_missing(data: Modalities, diagnosis: Diagnosis | None, page: _Notes) -> None:
    if diagnosis is None:
        page.missing.setdefault("slider", "The numbers along the slider need a diagnosis.")
        page.missing["corrections"] = "Corrections are compared only where there is a diagnosis."
    without = [
        name for name, side in data.sides.items() if not {"captions", "ids"} & set(side.columns)
    ]
    if without:
        page.missing["captions"] = (
            f"The rows of {spoken(without)} have no captions or ids, so the page shows "
            "their numbers."
        )
    if not data.thumbnails:
        page.missing["thumbnails"] = (
            "No images were given. Give images=… in Python, or --images DATA on the command "
            "line, which finds them by the ids of the rows."
        )
    if not data.paired:
        page.missing["landscapes"] = "Losses and landscapes need pairs, and none are known."


def _verdict(diagnosis: Diagnosis | None, metric: Metric, page: _Notes) -> dict[str, Any]:
    if diagnosis is None:
        said = f"No verdict: {page.missing['verdict']}"
        return {"verdict": None, "label": None, "sentences": [said]}
    gap = diagnosis.raw.metrics["gap"].value.value
    up_to = "" if len(diagnosis.names) == 2 else "up to "
    unit = "" if row_length(metric) == "unit" else ", in lengths of an average row"
    said = (
        f"The means of {spoken(diagnosis.names)} are {up_to}{gap:.3f} apart{unit} "
        f"({diagnosis.held_out})."
    )
    if np.isfinite(diagnosis.raw.metrics[OWN_EXCESS].value.value):
        kind = "the results" if diagnosis.verdict == "no pairs" else "the wrong results"
        results = f"{kind} of {spoken(diagnosis.queries)} queries"
        every = "both" if len(diagnosis.names) == 2 else "all"
        shares = own_share_words(
            results, diagnosis.queries, diagnosis.balanced_share, diagnosis.raw
        )
        said = f"In one index for {every} modalities, {shares}. {said}"
    return {
        "verdict": diagnosis.verdict,
        "label": not_judged(diagnosis) if diagnosis.correction is not None else None,
        "sentences": [said, diagnosis.sentence],
    }


def _sampling(
    diagnosis: Diagnosis | None, measurement: Measurement | None, known: Profile | None
) -> list[str]:
    said = []
    if measurement is not None:
        said.append(measurement.sampling())
    if known is not None:
        said.append("The distributions of features, radii and conformity use every row.")
        if known.cosines is not None:
            sizes = spoken(f"{n:,}" for n in known.cosines.n)
            said.append(f"Cosine histograms hold all pairs of {sizes} rows.")
    if diagnosis is not None:
        counts = ", ".join(f"{count:,} to {split}" for split, count in diagnosis.n_groups.items())
        kind = diagnosis.counted.partition(" ")[0].capitalize()
        said.append(
            f"{kind} are split: {counts}. Metrics are from those to confirm on, with 95 % "
            "intervals from 1,000 resamples."
        )
    return said
