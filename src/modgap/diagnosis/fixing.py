"""``fix``: the whole way, from two files to corrected documents, a page and a search that runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.core.checks import Array, InputValueError
from modgap.core.files import atomic_folder, folder_to_write, write_text
from modgap.core.limits import read_json
from modgap.core.locks import sole_writer_of
from modgap.core.results import (
    NOT_IN_JSON,
    Progress,
    Result,
    document,
    notebook_html,
    notebook_table,
    silent,
    to_json,
)
from modgap.corrections import (
    Correction,
    Metric,
    RecognitionWarning,
    correction_file_name,
    file_safe,
    open_preset,
    query_modalities,
    recognise,
)
from modgap.corrections.next_steps import fix_steps
from modgap.diagnosis.diagnosis import Diagnosis
from modgap.diagnosis.fix_texts import document_columns, readme, search_script
from modgap.diagnosis.run import diagnose
from modgap.evaluation import Goal
from modgap.index.sql import pgvector_sql, search_function, undo_sql
from modgap.io import Embeddings, Modalities, write_embeddings, write_vectors
from modgap.io.modalities import DEFAULT_NAMES

SEARCH_FILE, LIST_FILE = "search.py", "fix.json"
SQL_FILE, UNDO_FILE = "pgvector.sql", "pgvector-undo.sql"
_EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Fix(Result):
    """What was found and written.

    ``diagnoses`` and ``corrections`` are keyed by the query modality; a correction is missing
    where the verdict is to leave it alone. A preset is not diagnosed. ``files`` were written, in
    this order.
    """

    folder: str
    diagnoses: Mapping[str, Diagnosis]
    files: tuple[str, ...]
    next_steps: tuple[str, ...]
    corrections: Mapping[str, Correction] = field(
        default_factory=dict, repr=False, metadata=NOT_IN_JSON
    )

    def _brief(self) -> str:
        verdicts = (
            f"{name} queries: {found.verdict} {found.recommended or ''}".rstrip()
            for name, found in self.diagnoses.items()
        )
        return ", ".join([repr(self.folder), *verdicts, f"{len(self.files)} files"])

    def _repr_html_(self) -> str:
        written = [(Path(file).name,) for file in self.files]
        parts = [found._repr_html_() for found in self.diagnoses.values()]
        parts.append(notebook_table(("",), written, f"Written to {self.folder}"))
        if self.next_steps:
            parts.append(notebook_table(("",), [(step,) for step in self.next_steps], "Next"))
        return notebook_html(*parts)


def fix(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    folder: str | os.PathLike[str] = "modgap-fix",
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    paired: bool | None = None,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    bank: Array | Embeddings | None = None,
    keep_bank: bool = True,
    model: str | None = None,
    preset: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fix:
    """Diagnose, fit the chosen correction on all rows, and write all that a search needs.

    The folder gets the correction, the corrected documents of each modality as Parquet, a
    ``search.py`` that runs, SQL for pgvector, and the diagnosis as a page and as JSON, all of it or
    nothing. The metrics of the verdict stay those of held-out rows. Where the verdict is to leave
    it alone, only the diagnosis is written.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    folder : path
        Where to write: a new or an empty folder, or one that ``fix`` wrote and that holds nothing
        else; it is then replaced.
    queries : str or several, optional
        The query modality, as for ``diagnose``. For several, each gets a correction of its
        own, and each document a vector for each.
    goal, metric, bank, model, trust_pairs, group_duplicates, seed
        As for ``diagnose``; a bank is for the queries of one modality.
    keep_bank : bool
        Whether the written correction keeps its bank of queries, where it has hubs. Without it the
        correction maps queries only: new documents need a new fix. Query logs are private.
    preset : str, optional
        A correction that ships with modgap, such as ``clip-vit-b-32-captions``, instead of a
        diagnosis and a fit. It needs no pairs and judges nothing; rows of another model are
        refused.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    say, place = progress or silent, Path(folder)
    check_replaceable(place)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    if len({file_safe(name) for name in data.names}) < len(data.names):
        raise InputValueError(
            f"The names {', '.join(map(repr, data.names))} would give two files one name. Choose "
            "names that differ in letters or digits."
        )
    found: dict[str, Diagnosis] = {}
    corrections: dict[str, Correction] = {}
    asking: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    if preset is not None:
        if bank is not None or goal != "mixed" or metric != "cosine":
            raise InputValueError(
                "A preset is chosen and fitted already: leave out bank, goal and metric."
            )
        corrections = _of_preset(preset, data, queries)
    else:
        asking = query_modalities(queries, data.names)[::-1]  # text first, of image and text
        options = {"goal": goal, "metric": metric, "model": model, "seed": seed}
        options |= {"trust_pairs": trust_pairs, "bank": bank}
        data = _to_diagnose(data, asking, bank, group_duplicates)
    with sole_writer_of(place):
        if asking:
            found = diagnose_each(data, asking, group_duplicates=False, **options, progress=say)
            corrections = {
                name: one.correction for name, one in found.items() if one.correction is not None
            }
        check_replaceable(place)  # diagnosing takes a while
        with atomic_folder(place, replace=True) as temporary:
            written = []
            for name, one in found.items():
                one_of = f"-{file_safe(name)}" if len(found) > 1 else ""
                written.append(temporary / f"diagnosis{one_of}.json")
                write_text(written[-1], to_json(document("diagnose", one)) + "\n")
                written.append(temporary / f"report{one_of}.html")
                _write_page(data, one, written[-1], metric=metric, model=model, progress=say)
            written += _write_fix(data, corrections, temporary, say, keep_bank=keep_bank)
            listed = {"version": __version__, "files": [path.name for path in written]}
            write_text(temporary / LIST_FILE, to_json(listed) + "\n")
    files = tuple(str(place / name) for name in (*listed["files"], LIST_FILE))
    several, banks = (
        len(corrections) > 1,
        keep_bank or not any(c.hubs for c in corrections.values()),
    )
    steps = fix_steps(
        {
            str(place / correction_file_name(name, several=several)): one
            for name, one in corrections.items()
        },
        str(place),
        columns=document_columns(corrections),
        functions={name: search_function(name) for name in corrections} if banks else {},
        sides=data.sides,
        others=data.others,
        pages=bool(found),
    )
    return Fix(str(place), found, files, steps, corrections)


def _to_diagnose(
    data: Modalities,
    asking: Sequence[str],
    bank: Array | Embeddings | None,
    group_duplicates: bool,
) -> Modalities:
    """The rows that are diagnosed, refused where they or the bank cannot be."""
    if data.undecided:
        raise InputValueError(data.undecided)
    if bank is not None and len(asking) > 1:
        raise InputValueError(
            f"A bank holds queries of one modality, and {' and '.join(asking)} ask. Run it once "
            "for each."
        )
    return data.with_duplicates_grouped() if group_duplicates else data


def _of_preset(
    name: str,
    data: Modalities,
    queries: str | Sequence[str] | None,
) -> dict[str, Correction]:
    """A correction that ships with modgap, where it serves these rows."""
    correction = open_preset(name)
    if {*data.names} != {*correction.names}:
        raise InputValueError(
            f"The preset {name} is for {' and '.join(correction.names)}, and the rows are "
            f"{' and '.join(data.names)}. Name them image=PATH text=PATH."
        )
    asking = query_modalities(queries, data.names, correction)
    for modality, side in (*data.sides.items(), *data.others.items()):
        if side.dim != correction.dim_in:
            raise InputValueError(
                f"The preset {name} takes rows of {correction.about['model']}, "
                f"{correction.dim_in} columns, and {modality} has {side.dim}."
            )
        found = recognise(correction, side, modality)
        if found.refused:
            raise InputValueError(f"{found.sentence} Or leave out the preset.")
        if found.finding not in ("fits", "not judged"):
            warnings.warn(found.sentence, RecognitionWarning, stacklevel=3)
    return dict.fromkeys(asking, correction)


def diagnose_each(
    data: Modalities, queries: Sequence[str], *, group_duplicates: bool = True, **options: Any
) -> dict[str, Diagnosis]:
    """A diagnosis for each query modality; of several, each correction serves its queries alone."""
    data = data.with_duplicates_grouped() if group_duplicates else data
    options["group_duplicates"] = False  # they are, or are not to be
    found = {name: diagnose(data, queries=name, **options) for name in queries}
    return found if len(found) == 1 else {name: _narrowed(one) for name, one in found.items()}


def _narrowed(diagnosis: Diagnosis) -> Diagnosis:
    """The same, with a correction for the queries that it was judged by."""
    whole = diagnosis.correction
    if whole is None:
        return diagnosis
    own = replace(whole, queries=diagnosis.queries)
    tried = {label: own if one is whole else one for label, one in diagnosis.corrections.items()}
    return replace(diagnosis, correction=own, corrections=tried)


def check_replaceable(place: Path, list_file: str = LIST_FILE, by: str = "fix") -> None:
    """A folder that can be replaced without a loss: new, empty, or written by one command alone.

    ``list_file`` lists the files that the command ``by`` wrote.
    """
    if not folder_to_write(place).exists():
        return
    held = {entry.name for entry in place.iterdir()}
    ours = {list_file}
    if list_file in held:
        try:
            ours |= {*read_json(place / list_file, "a list of files")["files"]}
        except (ValueError, KeyError, TypeError):
            ours = set()
    if others := sorted(held - ours):
        raise InputValueError(
            f"{place} holds files that modgap {by} did not write ({', '.join(others[:3])}"
            f"{' …' if len(others) > 3 else ''}). Choose a new or an empty folder."
        )


def _write_fix(
    data: Modalities,
    corrections: Mapping[str, Correction],
    place: Path,
    say: Progress,
    *,
    keep_bank: bool,
) -> Iterator[Path]:
    if not corrections:
        return
    for asking, correction in corrections.items():
        path = place / correction_file_name(asking, several=len(corrections) > 1)
        correction.save(path, bank=keep_bank)
        yield path
    # One type for all, so that the files can be joined.
    dtype = np.result_type(*(side.dtype for side in data.sides.values()))
    for name, side in data.sides.items():
        path = place / f"documents-{file_safe(name)}.parquet"
        keys = data.keys_of(name) if any(one.hubs for one in corrections.values()) else None
        _write_documents(path, side, name, keys, corrections, str(dtype), say)
        yield path
    for name, side in data.others.items():
        path = place / f"other-documents-{file_safe(name)}.parquet"
        _write_documents(path, side, name, None, corrections, str(dtype), say)
        yield path
    for asking in corrections:
        path = place / f"example-queries-{file_safe(asking)}.npy"
        side = data.queries_of(asking)
        write_embeddings(path, side.take(np.arange(min(_EXAMPLES, side.n_rows))))
        yield path
    written = {name: one if keep_bank else one.without_bank() for name, one in corrections.items()}
    texts = {SEARCH_FILE: search_script(written, data.others)}
    if all(one.hubs is None or one.hubs.bank is not None for one in written.values()):
        texts[SQL_FILE] = pgvector_sql(written, file=SQL_FILE, undo=UNDO_FILE)  # with the bank
        texts[UNDO_FILE] = undo_sql(written)
    texts["README.md"] = readme(written, data.names, data.others)
    for name, text in texts.items():
        write_text(place / name, text)
        yield place / name


def _write_page(data: Modalities, diagnosis: Diagnosis, path: Path, **options: Any) -> None:
    """The page of a diagnosis."""
    # Pages come after diagnoses in the way of the data: found by name, when one is wanted.
    report = import_module("modgap.reports").report
    report(data, diagnosis=diagnosis, seed=diagnosis.seed, **options).save(path)


def _write_documents(
    path: Path,
    side: Embeddings,
    name: str,
    keys: np.ndarray | None,
    corrections: Mapping[str, Correction],
    dtype: str,
    say: Progress,
) -> None:
    """The documents of a modality, mapped batch by batch, with their ids, captions and labels."""
    step = f"correcting {name}"
    streams = [
        one.map(name).over(side.batches_with_progress(say, step), name, keys, dtype=dtype)
        for one in corrections.values()
    ]
    columns: dict[str, Any] = {
        "ids": side.ids, "captions": side.captions, "labels": side.labels, "dtype": dtype
    }  # fmt: skip
    if len(streams) == 1:
        write_embeddings(path, streams[0], **columns)
        return
    names = document_columns(corrections).values()
    write_vectors(path, dict(zip(names, streams, strict=True)), **columns)
