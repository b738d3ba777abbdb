"""Runs entries over their seeds, and keeps their numbers and pictures in a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from modgap._version import __version__
from modgap.core.checks import MissingExtraError
from modgap.core.files import atomic_path, write_text
from modgap.core.results import SCHEMA, document, plain, to_json
from modgap.reproduce.checks import pooled_check
from modgap.reproduce.entry import Entry, Number, Outcome
from modgap.reproduce.report import EntryReport, report_from, report_of
from modgap.reproduce.setting import NotAtHand, Setting


def run_seeds(entry: Entry, setting: Setting) -> tuple[Outcome, tuple[int, ...]]:
    """The outcome of an entry over its seeds, and the seeds.

    An entry that comes out the same with the first two draws nothing, and is run no more. One that
    does not read your own rows, where they are given, is refused.
    """
    run = entry.runner(setting)
    assert run is not None
    seeds = range(setting.seed, setting.seed + max(1, setting.seeds))
    found: list[Outcome] = []
    for done, seed in enumerate(seeds):
        setting.say(f"seed {seed}", done, len(seeds))
        found.append(run(dataclasses.replace(setting, seed=seed)))
        if setting.rows is not None and not setting.rows.used:
            raise NotAtHand(cannot_use(entry))
        if len(found) == 2 and all(
            plain(getattr(found[0], name)) == plain(getattr(found[1], name))
            for name in ("measured", "checks")
        ):
            return found[0], (seeds[0],)
    return pooled(found), tuple(seeds)


def cannot_use(entry: Entry) -> str:
    """What to say of an entry that own rows are no help for."""
    return (
        f"{entry.key} cannot use rows of your own: it needs more than embeddings, or makes its own "
        "data. Run it without --rows and --model."
    )


def pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Means of what was measured, each check over all seeds, and the picture of the first."""
    first = outcomes[0]
    statements = [[check.statement for check in each.checks] for each in outcomes]
    if any(said != statements[0] for said in statements):
        raise AssertionError(f"Statements must be the same with every seed, got {statements}.")
    return dataclasses.replace(
        first,
        measured={name: _mean(name, outcomes) for name in first.measured},
        checks=tuple(map(pooled_check, zip(*(each.checks for each in outcomes), strict=True))),
    )


def _mean(name: str, outcomes: Sequence[Outcome]) -> Number:
    """The mean of a number over the outcomes that have it; words, where all agree."""
    values = [each.measured[name] for each in outcomes if name in each.measured]
    if all(value == values[0] for value in values):
        return values[0]
    numbers = [value for value in values if isinstance(value, (int, float, np.number))]
    return float(np.mean(numbers)) if len(numbers) == len(values) else "depends on the seed"


KIND = "reproduce"
_DOTS_PER_INCH = 150


def run_entry(entry: Entry, setting: Setting) -> tuple[EntryReport, Outcome | None]:
    """Run one entry; what it lacks or where it fails is in the report, never raised."""
    if setting.rows is not None:
        setting.rows.used = False
    if entry.runner(setting) is None:
        needs_model = setting.rows is None or entry.run_on_model is not None
        missing = entry.how if needs_model else cannot_use(entry)
        return report_of(entry, setting, missing=missing), None
    started = perf_counter()
    try:
        outcome, seeds = run_seeds(entry, setting)
    except (NotAtHand, MissingExtraError) as error:
        return report_of(entry, setting, missing=str(error)), None
    except Exception as error:
        # One mistake must not cost the others; it is reported, and the exit status says so.
        seconds = perf_counter() - started
        return report_of(entry, setting, error=_told(error), seconds=seconds), None
    seconds = perf_counter() - started
    return report_of(entry, setting, outcome, seeds=seeds, seconds=seconds), outcome


def reproduce(
    entries: Sequence[Entry],
    setting: Setting,
    folder: Path,
    *,
    required: Collection[str] = (),
    resume: bool = False,
    writing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[EntryReport]:
    """Run entries in turn, each yielded once its JSON and its pictures are in ``folder``.

    Parameters
    ----------
    entries
        What to run.
    setting
        How to run it.
    folder
        Where the files of an entry go, below a folder of its paper.
    required
        Keys of entries that must run: NotAtHand is raised where what one needs is missing.
    resume
        Take what is there already, when the same version wrote it with the same setting, seeds and
        data at hand.
    writing
        Entered around every write.
    """
    for place, entry in enumerate(entries):
        kept = kept_report(entry, setting, folder) if resume else None
        if kept is not None:
            yield kept
            continue
        progress = partial(_numbered, setting, f"{place + 1}/{len(entries)} {entry.key}")
        progress("", 0, 1)
        report, outcome = run_entry(entry, dataclasses.replace(setting, progress=progress))
        can_be_provided = entry.run is not None or setting.rows is not None
        if report.missing and can_be_provided and entry.key in required:
            raise NotAtHand(report.missing)
        if outcome is not None:
            with writing():
                report = keep(entry, setting, report, outcome, folder)
        yield report


def _numbered(setting: Setting, head: str, step: str, done: int, total: int) -> None:
    """Progress of one entry among many."""
    setting.say(f"{head} {step}", done, total)


def keep(
    entry: Entry, setting: Setting, report: EntryReport, outcome: Outcome, folder: Path
) -> EntryReport:
    """Write the pictures, then the numbers: where the numbers are, all is there."""
    place = entry_stem(entry.key, folder)
    try:
        pictures = _draw(entry, outcome, place)
    except MissingExtraError as error:
        # The numbers are worth keeping without a picture.
        report = dataclasses.replace(report, note=f"{report.note} No picture: {error}".strip())
    except Exception as error:
        return report_of(entry, setting, error=f"drawing: {_told(error)}", seconds=report.seconds)
    else:
        report = dataclasses.replace(report, pictures=pictures)
    written = document(
        KIND, report, seed=setting.seed, asked_seeds=setting.seeds, drawn=outcome.data
    )
    write_text(place.with_suffix(".json"), to_json(written) + "\n")
    return report


def kept_report(entry: Entry, setting: Setting, folder: Path) -> EntryReport | None:
    """The report of an earlier run that this one would only repeat."""
    place = entry_stem(entry.key, folder)
    try:
        found = json.loads(place.with_suffix(".json").read_text(encoding="utf-8"))
        report = report_from(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not there, or not ours
    same = (
        found["schema"] == f"modgap/{KIND}/{SCHEMA}"
        and found["version"] == __version__
        and (found["seed"], found["asked_seeds"]) == (setting.seed, setting.seeds)
        and report.key == entry.key
        and report.setting == setting.words
        and report.data == setting.data
        and report.ran
        and all((place.parent / picture).is_file() for picture in report.pictures)
    )
    return report if same else None


def files_of(report: EntryReport, folder: Path) -> list[Path]:
    """The files that were written for an entry: pictures, then numbers."""
    place = entry_stem(report.key, folder)
    numbers = [f"{place.name}.json"] if report.ran else []
    return [place.parent / name for name in (*report.pictures, *numbers)]


def entry_stem(key: str, folder: Path) -> Path:
    """Where the files of an entry lie, without their suffix."""
    paper, _, name = key.partition("/")
    return folder / paper / name


def _draw(entry: Entry, outcome: Outcome, place: Path) -> tuple[str, ...]:
    """PNG for looking, PDF for print."""
    if entry.draw is None:
        return ()
    figure = entry.draw(outcome)
    # Without the date, the same numbers give the same file.
    for suffix, metadata in ((".png", {}), (".pdf", {"CreationDate": None})):
        with atomic_path(place.with_suffix(suffix)) as path:
            figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)
    return (f"{place.name}.png", f"{place.name}.pdf")


def _told(error: Exception) -> str:
    """An error in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
