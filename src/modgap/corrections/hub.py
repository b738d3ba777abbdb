"""Corrections in folders and on the Hugging Face Hub: one safetensors file, and a card."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modgap._version import __version__
from modgap.core.checks import InputError, InputValueError, did_you_mean, first_line, require
from modgap.core.files import folder_to_write, write_text
from modgap.core.results import changed, text_table
from modgap.corrections.correction import Correction
from modgap.corrections.files import CORRECTION_FILE
from modgap.corrections.presets import OWNER, PRESETS, open_preset
from modgap.corrections.wording import demands, label

CARD = "README.md"
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_OURS = "library_name: modgap"


class NoCardWarning(UserWarning):
    """A correction comes without a card."""


def read_pretrained(name: str | os.PathLike[str], revision: str | None = None) -> Correction:
    """A preset, the correction of a folder, or one of the hub at a commit."""
    text = os.fspath(name) or "."
    if text in {*PRESETS, *(f"{OWNER}{preset}" for preset in PRESETS)}:
        if revision is not None:
            raise InputValueError(f"{text} ships with modgap, and has no revisions. Leave it out.")
        return open_preset(text)
    place = Path(text)
    if place.is_dir():
        if revision is not None:
            raise InputValueError(f"{text} is a folder, and has no revisions. Leave it out.")
        held = [path.name for path in place.iterdir()]
        _check_held(text, held)
        correction = Correction.load(place / CORRECTION_FILE)
        return correction if CARD in held else _without_card(correction, text)
    if place.is_file():
        raise InputValueError(f"{text} is a file. Open it with Correction.load.")
    if not _ON_HUB.fullmatch(text):
        raise InputValueError(
            f"There is no folder {text}, and a repository of the hub is named owner/name."
            f"{did_you_mean(text, PRESETS)}"
        )
    correction, card = _from_hub(text, revision)
    return correction if card else _without_card(correction, text)


def _from_hub(name: str, revision: str | None) -> tuple[Correction, bool]:
    """The correction, and whether there is a card."""
    hub = require("huggingface_hub", "hub", "A correction of the hub")
    with _hub_errors(name, revision) as errors:
        if revision is None or not _COMMIT.fullmatch(revision):
            now = hub.HfApi().model_info(name, revision=revision).sha
            raise InputValueError(
                f"Name the commit of {name}, so that the correction of your documents cannot "
                f"change: revision={now!r} is {'the newest' if revision is None else revision}."
            )
        try:
            path = hub.hf_hub_download(name, CORRECTION_FILE, revision=revision)
        except errors.LocalEntryNotFoundError:  # it is an EntryNotFoundError, too
            raise
        except errors.EntryNotFoundError:
            found = hub.HfApi().model_info(name, revision=revision).siblings or ()
            _check_held(name, [one.rfilename for one in found])
            raise
        try:
            hub.hf_hub_download(name, CARD, revision=revision)
            card = True
        except errors.EntryNotFoundError:
            card = False
    correction = Correction.load(path)
    about = {**correction.about, "hub": {"name": name, "revision": revision}}
    return changed(correction, about=about), card


def write_pretrained(
    correction: Correction, folder: str | os.PathLike[str], bank: bool, card: str
) -> None:
    """The file and the card, in a folder that is there or is made."""
    place = folder_to_write(folder)
    old = place / CARD
    if old.exists() and _OURS not in old.read_text(encoding="utf-8", errors="replace"):
        raise InputValueError(
            f"{old} is not the card of a correction, and would be replaced. Give another folder."
        )
    place.mkdir(parents=True, exist_ok=True)
    correction.save(place / CORRECTION_FILE, bank=bank)
    write_text(old, card)


def upload_pretrained(
    correction: Correction, name: str, bank: bool | None, private: bool | None, card: str
) -> str:
    """The commit that the upload made."""
    if not _ON_HUB.fullmatch(name):
        raise InputValueError(f"A repository of the hub is named owner/name, got {name!r}.")
    if bank is None and correction.hubs is not None and correction.hubs.bank is not None:
        raise InputValueError(
            "This correction carries a bank of queries, which others could read. Say bank=True to "
            "upload it, or bank=False for a correction that maps queries only."
        )
    hub = require("huggingface_hub", "hub", "Uploading a correction")
    with tempfile.TemporaryDirectory(prefix="modgap-") as folder:
        write_pretrained(correction, folder, bank is not False, card)
        with _hub_errors(name, None):
            api, said = hub.HfApi(), f"{label(correction)} by modgap"
            api.create_repo(name, private=private, exist_ok=True)
            done = api.upload_folder(repo_id=name, folder_path=folder, commit_message=said)
    commit: str = done.oid
    return commit


def card_of(
    correction: Correction,
    name: str,
    opened: str,
    judged: object,
    model: str,
    data: str,
    licence: str,
) -> str:
    """The card: what it is for, what it demands, the verdict and metrics, how to open it."""
    about = correction.about
    model, data = model or str(about.get("model") or ""), data or str(about.get("data") or "")
    fitted = ", ".join(f"{rows.n:,} {one} rows" for one, rows in correction.fitted.items())
    verdict = "Nobody has judged it: no verdict was given when this card was written."
    if judged is not None:
        said = str(getattr(judged, "sentence", judged)).strip()
        table = getattr(judged, "table", None)
        verdict = "\n".join(["```", said, *(["", text_table(*table())] if table else []), "```"])
    modality = correction.queries[0]
    return _CARD.format(
        ours=_OURS,
        license=f"license: {_line(licence)}\n" if licence else "",
        title=_line(name),
        method=label(correction),
        model=_line(model) or "Not said. Rows of another model are refused.",
        data=_line("; ".join(part for part in (data, fitted) if part)) or "Not said.",
        demands="\n".join(demands(correction)),
        verdict=verdict,
        opened=opened,
        modality=modality,
        version=__version__,
    )


_CARD = """\
---
{ours}
{license}tags:
- modgap
- modality-gap
- multimodal-retrieval
---

# {title}

A correction of the modality gap ({method}), for search over several modalities: a few affine maps
in one safetensors file. Opening it runs no code.

- **Model**: {model}
- **Data**: {data}

## What it demands

```
{demands}
```

## Verdict and metrics

{verdict}

## How to use it

```python
from modgap import Correction

correction = Correction.from_pretrained({opened})
query = correction.apply(rows, {modality!r}, role="query")
```

Written by modgap {version}.
"""


def _line(text: str) -> str:
    """Text of one line."""
    return re.sub(r"\s+", " ", text).strip()


def _check_held(name: str, held: Iterable[str]) -> None:
    """Refuse what holds no correction, and say so of pickles."""
    found = sorted(held)
    if CORRECTION_FILE in found:
        return
    pickles = [one for one in found if one.endswith(_PICKLES)]
    why = f": {pickles[0]} is a pickle, which can run code and is never opened" if pickles else ""
    raise InputValueError(f"{name} holds no {CORRECTION_FILE}{why}. save_pretrained writes one.")


def _without_card(correction: Correction, name: str) -> Correction:
    warnings.warn(
        f"{name} has no card ({CARD}), so nothing says for which model and data its correction "
        "is, and whether anybody judged it.",
        NoCardWarning,
        stacklevel=4,
    )
    return correction


@contextmanager
def _hub_errors(name: str, revision: str | None) -> Iterator[Any]:
    """The errors of the hub's library, which are turned into one sentence."""
    from huggingface_hub import errors

    log = logging.getLogger("huggingface_hub")  # it has a line for every attempt to reach it
    level = log.level
    log.setLevel(logging.CRITICAL)
    at = f" at {revision}" if revision else ""
    try:
        yield errors
    except InputError:
        raise
    except errors.RevisionNotFoundError as error:
        raise InputValueError(f"{name} has no revision {revision} on the hub.") from error
    except errors.RepositoryNotFoundError as error:
        raise InputValueError(
            f"The hub has no repository {name}, or does not show it to you. Log in where it is "
            "private: hf auth login."
        ) from error
    except (errors.HfHubHTTPError, errors.HFValidationError) as error:
        raise InputValueError(
            f"The hub refuses {name}{at}: {first_line(error)} To write, log in: hf auth login."
        ) from error
    except errors.HfHubHTTPError.__bases__ as error:  # of the HTTP library, and OSError
        raise InputValueError(
            f"The hub cannot be reached, and {name}{at} is not in its cache. With a connection, "
            f"download it first: hf download {name}" + (f" --revision {revision}" * bool(at))
        ) from error
    finally:
        log.setLevel(level)
