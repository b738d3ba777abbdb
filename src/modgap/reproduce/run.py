"""Run entries one after the other, and keep their numbers and pictures in a folder."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from modgap._files import atomic_path, write_text
from modgap._results import document, to_json
from modgap._validate import InputValueError, MissingExtraError
from modgap._version import __version__
from modgap.reproduce.entry import Entry, NotAtHand, Outcome, Setting
from modgap.reproduce.report import Report, report_from, report_of, setting_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = "reproduce"
# Names the folder of the authors' embeddings where --embeddings does not.
VARIABLE = "MODGAP_PUBLISHED"
_DOTS_PER_INCH = 150


def find_embeddings(folder: Path | None = None) -> Path | None:
    """The folder of the authors' embeddings: the one given, else that of the environment."""
    named = f"--embeddings {folder}"
    if folder is None:
        from_environment = os.environ.get(VARIABLE)
        if not from_environment:
            return None
        folder, named = Path(from_environment), f"{VARIABLE}={from_environment}"
    if not folder.is_dir():
        raise InputValueError(f"{named} must be a folder with features_clip.npy and the like.")
    if not any(folder.glob("features_*.npy")):
        raise InputValueError(
            f"{named} holds none of the authors' embeddings (features_clip.npy and the like)."
        )
    return folder


def lacks(entry: Entry, setting: Setting) -> str:
    """What an entry needs that is not there, without running it; empty when it can run."""
    if entry.run is None:
        return entry.how
    if entry.needs == "embeddings" and setting.embeddings is None:
        return (
            "The authors' embeddings are not at hand. Download features_*.npy from the repository "
            "of Liang et al. 2022 and name their folder with --embeddings DIR."
        )
    return ""


def run_entry(entry: Entry, setting: Setting) -> tuple[Report, Outcome | None]:
    """Run one entry; what it lacks or where it fails is in the report, never raised."""
    if entry.run is None:
        return report_of(entry, setting, None, missing=entry.how), None
    started = perf_counter()
    try:
        outcome = entry.run(setting)
    except (NotAtHand, MissingExtraError) as error:
        return report_of(entry, setting, None, missing=str(error)), None
    except Exception as error:
        # One mistake must not cost the others; it is told, and the exit status says so.
        seconds = perf_counter() - started
        return report_of(entry, setting, None, error=_told(error), seconds=seconds), None
    return report_of(entry, setting, outcome, seconds=perf_counter() - started), outcome


def reproduce(
    entries: Sequence[Entry],
    setting: Setting,
    folder: Path,
    *,
    resume: bool = False,
    writing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[Report]:
    """Run entries in turn, each yielded once its JSON and its pictures are in ``folder``.

    ``resume`` takes what is there already, when the same version wrote it with the same setting,
    seed and embeddings at hand. ``writing`` is entered around every write.
    """
    for entry in entries:
        kept = kept_report(entry, setting, folder) if resume else None
        if kept is not None:
            yield kept
            continue
        report, outcome = run_entry(entry, setting)
        if outcome is not None:
            with writing():
                report = keep(entry, setting, report, outcome, folder)
        yield report


def keep(entry: Entry, setting: Setting, report: Report, outcome: Outcome, folder: Path) -> Report:
    """Write the pictures, then the numbers: where the numbers are, all is there."""
    place = place_of(entry.key, folder)
    try:
        pictures = _draw(entry, outcome, place)
    except MissingExtraError as error:
        # The numbers are worth keeping without a picture.
        report = dataclasses.replace(report, note=f"{report.note} No picture: {error}".strip())
    except Exception as error:
        return report_of(
            entry, setting, None, error=f"drawing: {_told(error)}", seconds=report.seconds
        )
    else:
        report = dataclasses.replace(report, pictures=pictures)
    written = document(KIND, report, seed=setting.seed, data=outcome.data)
    write_text(place.with_suffix(".json"), to_json(written) + "\n")
    return report


def kept_report(entry: Entry, setting: Setting, folder: Path) -> Report | None:
    """The report of an earlier run that this one would only repeat."""
    place = place_of(entry.key, folder)
    try:
        found = json.loads(place.with_suffix(".json").read_text(encoding="utf-8"))
        report = report_from(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not there, or not ours
    same = (
        found["schema"] == f"modgap/{KIND}/1"
        and found["version"] == __version__
        and found["seed"] == setting.seed
        and report.key == entry.key
        and report.setting == setting_words(setting)
        and report.embeddings == (setting.embeddings is not None)
        and report.ran
        and all((place.parent / picture).is_file() for picture in report.pictures)
    )
    return report if same else None


def place_of(key: str, folder: Path) -> Path:
    """Where the files of an entry lie, without their suffix."""
    paper, _, name = key.partition("/")
    return folder / paper / name


def _draw(entry: Entry, outcome: Outcome, place: Path) -> tuple[str, ...]:
    """PNG for looking, PDF for print."""
    if entry.draw is None:
        return ()
    figure = entry.draw(outcome)
    try:
        # Without the date, the same numbers give the same file.
        for suffix, metadata in ((".png", {}), (".pdf", {"CreationDate": None})):
            with atomic_path(place.with_suffix(suffix)) as path:
                figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)
    finally:
        _close(figure)
    return (f"{place.name}.png", f"{place.name}.pdf")


def _close(figure: Figure) -> None:
    """pyplot holds on to the figures it made, and complains about the twentieth."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)


def _told(error: Exception) -> str:
    """An error in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
