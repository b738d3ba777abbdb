"""``fix``: the whole way, from two files to corrected documents and a search that runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap._files import write_text
from modgap._results import Progress, Result, document, silent, to_json
from modgap._validate import Array
from modgap.corrections import Affine, Correction, Metric, asking_modality
from modgap.corrections.demands import metric_to_rank_by
from modgap.diagnosis.run import Diagnosis, diagnose
from modgap.diagnosis.scripts import (
    correction_file,
    document_column,
    readme,
    search_script,
)
from modgap.evaluation import Goal
from modgap.index.sql import pgvector_sql
from modgap.io import Embeddings, Modalities, write_embeddings, write_pair
from modgap.io.modalities import DEFAULT_NAMES

SEARCH_FILE, SQL_FILE, EXAMPLE_FILE = "search.py", "pgvector.sql", "example-queries-{}.npy"
_EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Fix(Result):
    """What was found and written.

    ``diagnoses`` and ``corrections`` are keyed by the modality that asks; a correction is missing
    where the verdict is to leave it alone. ``files`` were written, in this order.
    """

    folder: str
    diagnoses: Mapping[str, Diagnosis]
    files: tuple[str, ...]
    next_steps: tuple[str, ...]
    corrections: Mapping[str, Correction] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the corrections, which have files of their own."""
        found = super().to_dict()
        del found["corrections"]
        return found


def fix(
    X: Array | Embeddings | Modalities,
    Y: Array | Embeddings | None = None,
    folder: Any = "modgap-fix",
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    model: str | None = None,
    trust_pairs: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fix:
    """Diagnose, fit the chosen correction on all rows, and write all that a search needs.

    The folder gets the correction, the corrected documents of each modality as Parquet, a
    ``search.py`` that runs, SQL for pgvector and the diagnosis as JSON. The figures of the verdict
    stay those of held-out rows. Where the verdict is to leave it alone, only that is written.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    folder : path
        Where to write.
    queries : str or several, optional
        The modality that asks, as for ``diagnose``. For several, each gets a correction of its
        own, and each document a vector for each.
    goal, metric, model, trust_pairs, seed
        As for ``diagnose``.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    say = progress or silent
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    asking = [queries] if isinstance(queries, str) else list(queries or ())
    options: dict[str, Any] = {"goal": goal, "metric": metric, "model": model, "seed": seed}
    options["trust_pairs"] = trust_pairs
    found = {
        name: diagnose(data, queries=name, **options, progress=say)
        for name in asking or [asking_modality(None, data.names)]
    }
    corrections = {
        name: one.correction if len(found) == 1 else replace(one.correction, queries=(name,))
        for name, one in found.items()
        if one.correction is not None
    }
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = [*_write_diagnoses(found, place), *_write_fix(data, corrections, place, say)]
    _remove_others(place, data.names, written)
    files = tuple(str(path) for path in written)
    return Fix(str(place), found, files, _next_steps(data, corrections, place), corrections)


def _write_diagnoses(found: Mapping[str, Diagnosis], place: Path) -> Iterator[Path]:
    for name, one in found.items():
        path = place / ("diagnosis.json" if len(found) == 1 else f"diagnosis-{name}.json")
        write_text(path, to_json(document("diagnose", one)) + "\n")
        yield path


def _write_fix(
    data: Modalities, corrections: Mapping[str, Correction], place: Path, say: Progress
) -> Iterator[Path]:
    if not corrections:
        return
    for asking, correction in corrections.items():
        path = place / correction_file(asking, len(corrections) > 1)
        correction.save(path)
        yield path
    for name, side in data.sides.items():
        path = place / f"documents-{name}.parquet"
        _write_documents(path, side, name, corrections, say)
        yield path
    for asking in corrections:
        path = place / EXAMPLE_FILE.format(asking)
        side = data.sides[asking]
        write_embeddings(path, side.take(np.arange(min(_EXAMPLES, side.n_rows))))
        yield path
    texts = {
        SEARCH_FILE: search_script(corrections),
        SQL_FILE: pgvector_sql(corrections, file=SQL_FILE),
        "README.md": readme(corrections, data.names),
    }
    for name, text in texts.items():
        write_text(place / name, text)
        yield place / name


def _write_documents(
    path: Path, side: Embeddings, name: str, corrections: Mapping[str, Correction], say: Progress
) -> None:
    """The documents of a modality, mapped batch by batch, with all that belongs to them."""
    maps = [correction.map(name) for correction in corrections.values()]
    streams = [
        _mapped(side.batches_with_progress(say, f"correcting {name}"), affine, name)
        for affine in maps
    ]
    columns: dict[str, Any] = {
        "ids": side.ids, "captions": side.captions, "labels": side.labels
    }  # fmt: skip
    dtype = str(side.dtype)
    if len(streams) == 1:
        write_embeddings(path, streams[0], groups=side.groups, dtype=dtype, **columns)
        return
    first, second = (document_column(asking, several=True) for asking in corrections)
    write_pair(path, *streams, names=(first, second), dtype=dtype, **columns)


def _mapped(batches: Iterator[np.ndarray], affine: Affine, name: str) -> Iterator[np.ndarray]:
    done = 0
    for batch in batches:
        yield affine(batch, name, first_row=done)
        done += len(batch)


def _remove_others(place: Path, names: Sequence[str], written: Sequence[Path]) -> None:
    """Files of an earlier run must not be taken for the answer of this one."""
    ours = ["correction.safetensors", "diagnosis.json", SEARCH_FILE, SQL_FILE, "README.md"]
    for name in names:
        ours += [f"correction-{name}.safetensors", f"diagnosis-{name}.json"]
        ours += [f"documents-{name}.parquet", EXAMPLE_FILE.format(name)]
    for name in ours:
        if place / name not in written:
            (place / name).unlink(missing_ok=True)


def _next_steps(
    data: Modalities, corrections: Mapping[str, Correction], place: Path
) -> tuple[str, ...]:
    """What to do with the files, as commands that can be copied."""
    if not corrections:
        return ()
    several = len(corrections) > 1
    asking, correction = next(iter(corrections.items()))
    sources = [
        f"{shlex.quote(name)}={shlex.quote(side.source if Path(side.source).exists() else name)}"
        for name, side in data.sides.items()
    ]
    folder = shlex.quote(str(place))
    file = folder if several else f"{folder}/{correction_file(asking, several)}"
    both = " --queries both" if several else ""
    return (
        f"try it         python {folder}/{SEARCH_FILE} [QUERIES.npy]",
        f"in PostgreSQL  psql -f {folder}/{SQL_FILE}, then "
        f"SELECT * FROM search_by_{asking}('[…]', 10)",
        f"in an index    modgap index build both.faiss {file} {' '.join(sources)}{both}",
        f"elsewhere      load {folder}/documents-*.parquet and rank by "
        f"{metric_to_rank_by(correction)}; queries go through: modgap apply {file} QUERIES.npy "
        f"--modality {shlex.quote(asking)} --role query -o OUT.npy",
    )
