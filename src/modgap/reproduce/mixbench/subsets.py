"""MixBench: a benchmark of search whose documents are texts, images or both, with embeddings.

Published with Li et al. 2025, *Closing the Modality Gap for Mixed Modality Search* (arXiv
2507.19054). The folder of a subset holds

    queries.jsonl        query_id, text and/or image
    corpus.jsonl         corpus_id, text and image
    mixed_corpus.jsonl   corpus_id, text and/or image: what each document shows in a search
    qrels/qrels.tsv      query_id, corpus_id, score: which documents are relevant
    *query_embeddings*   rows of the queries, by any model and in any format
    *corpus_embeddings*  rows of the documents
    *bank_embeddings*    not the benchmark's: further queries of the same kind, for hubs

Embeddings in the .pt files of its scripts need no .jsonl beside them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.results import Brief
from modgap.reproduce.mixbench.files import DOCUMENT_IDS, QUERY_IDS, Kind, read_qrels, read_shown
from modgap.reproduce.mixbench.saved_rows import (
    SavedRows,
    matrix_names,
    read_list,
    read_matrices,
    unlisted,
)

KINDS: tuple[Kind, ...] = ("image", "text", "fused")

# In the order of the paper's table.
SUBSETS = ("Google_WIT", "MSCOCO", "OVEN", "VisualNews")
# With which its script draws what each document shows.
DRAW_SEED = 42

_QUERIES, _CORPUS, _MIXED = "queries.jsonl", "corpus.jsonl", "mixed_corpus.jsonl"


@dataclass(frozen=True, eq=False)
class MixBenchRows(Brief):
    """Queries or documents, each of them a text, an image or both.

    ``text`` and ``image`` hold the rows of those that have this part, in order, as the model gave
    them: texts need not be at unit length. Where a model embeds a text with its image, ``fused``
    holds those rows, and the other two have none of them.
    """

    ids: tuple[str, ...]
    kinds: np.ndarray
    text: np.ndarray
    image: np.ndarray
    fused: np.ndarray

    @classmethod
    def of(cls, embedded: SavedRows, kinds: Sequence[str]) -> MixBenchRows:
        """The rows of what each item shows."""
        shown = np.array(kinds, dtype="<U5")
        joint = embedded.joint
        rows = {
            part: embedded.rows(part, np.flatnonzero(_having(shown, part, joint))) for part in KINDS
        }
        return cls(embedded.ids, shown, **rows)

    @property
    def joint(self) -> bool:
        """Whether the model embedded texts with their images."""
        return len(self.fused) > 0

    def places(self, kind: Kind) -> np.ndarray:
        """Which of them are of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def rows(self, part: Kind, kind: Kind) -> np.ndarray:
        """The texts, the images or the rows of both, of those that are of a kind."""
        having = _having(self.kinds, part, self.joint)
        chosen: np.ndarray = getattr(self, part)[self.kinds[having] == kind]
        return chosen


def _having(kinds: np.ndarray, part: Kind, joint: bool) -> np.ndarray:
    """Which items have a row of this part."""
    if part == "fused":
        return (kinds == part) & joint
    return (kinds == part) | ((kinds == "fused") & (not joint))


@dataclass(frozen=True, eq=False)
class MixBenchSubset(Brief):
    """One subset: who asks, what can be found, and what is relevant.

    ``qrels`` (m, 3) holds a query and a document by their places, and how relevant it is.
    ``drawn`` says that what documents show was drawn, because no file tells. ``bank`` holds
    further queries, where there are any.
    """

    name: str
    queries: MixBenchRows
    documents: MixBenchRows
    qrels: np.ndarray
    drawn: bool = False
    bank: MixBenchRows | None = None

    @property
    def joint(self) -> bool:
        """Whether the model embedded texts with their images, of queries or documents."""
        return self.queries.joint or self.documents.joint

    @property
    def asks(self) -> Kind:
        """What the queries are; all of a subset are of one kind."""
        kind: Kind = str(self.queries.kinds[0])  # type: ignore[assignment]
        return kind


@dataclass(frozen=True, eq=False)
class MixBench(Brief):
    """The subsets of a folder; ``not_embedded`` names those that are there without embeddings."""

    subsets: tuple[MixBenchSubset, ...]
    not_embedded: tuple[str, ...] = ()


def open_mixbench(path: str | Path) -> MixBench:
    """Read the folder of one subset, or a folder of such folders.

    Anything that is missing, damaged or does not fit is refused with its file and line. A subset
    with no embeddings at all is left out, and named in the result.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputValueError(f"{folder} must be the folder of MixBench or of one of its subsets.")
    inside = [found for found in folder.iterdir() if found.is_dir() and _is_subset(found)]
    in_order = sorted(inside, key=lambda one: ([*SUBSETS, one.name].index(one.name), one.name))
    folders = in_order or [folder]
    embedded = [one for one in folders if _embeddings(one, "query") or _embeddings(one, "corpus")]
    if not embedded:
        raise InputValueError(
            f"{folder} must hold *query_embeddings and *corpus_embeddings, .pt as the scripts of "
            "MixBench save them or in any format of rows, or folders that do, one a subset."
        )
    absent = tuple(one.name for one in folders if one not in embedded)
    return MixBench(tuple(_open_subset(one) for one in embedded), absent)


def drawn_kinds(n: int) -> np.ndarray:
    """What each of n documents shows where no file tells: a third each, as its script draws them.

    >>> np.unique(drawn_kinds(9), return_counts=True)[1].tolist()
    [3, 3, 3]
    """
    order = random.Random(DRAW_SEED).sample(range(n), n)
    kinds = np.empty(n, dtype="<U5")
    kinds[order] = np.resize(["text", "image", "fused"], n)
    return kinds


def _is_subset(folder: Path) -> bool:
    stated = any((folder / name).is_file() for name in (_QUERIES, _CORPUS, _MIXED))
    return stated or bool(_embeddings(folder, "query") or _embeddings(folder, "corpus"))


def _embeddings(folder: Path, what: str) -> list[Path]:
    return sorted(folder.glob(f"*{what}_embeddings*"))


def _only(files: Sequence[Path], folder: Path, what: str) -> Path:
    if len(files) == 1:
        return files[0]
    if not files:
        raise InputValueError(f"{folder} must hold {what}; there is no such file.")
    names = " and ".join(file.name for file in files)
    raise InputValueError(f"{folder} must hold one {what}, got {names}. Keep one of them.")


def _open_subset(folder: Path) -> MixBenchSubset:
    asked = _read(folder, "query", QUERY_IDS)
    held = _read(folder, "corpus", DOCUMENT_IDS)
    _check_columns(asked, held)
    queries = _queries(folder, asked)
    documents, drawn = _documents(folder, held)
    below = folder / "qrels"
    qrels = _only(
        [*sorted(below.glob("*.tsv")), *sorted(below.glob("*.jsonl"))]
        + [one for one in (folder / "qrels.tsv", folder / "qrels.jsonl") if one.is_file()],
        folder,
        "qrels/qrels.tsv",
    )
    return MixBenchSubset(
        folder.resolve().name,
        queries,
        documents,
        read_qrels(qrels, queries.ids, documents.ids),
        drawn,
        _bank(folder, asked, queries),
    )


def _read(folder: Path, what: str, keys: Sequence[str], kind: Kind | None = None) -> SavedRows:
    """Rows of queries or documents; with ``kind``, of items of that kind that no file lists."""
    file = _only(_embeddings(folder, what), folder, f"*{what}_embeddings")
    if file.suffix == ".pt":
        return read_list(file, keys)
    names = matrix_names(file)
    if kind is not None:
        return read_matrices(file, names, unlisted(file, names, kind), file)
    items = folder / (_QUERIES if what == "query" else _MIXED if names is None else _CORPUS)
    if not items.is_file():
        raise InputValueError(
            f"{folder} must hold {items.name}, which says what {file.name} has rows of."
        )
    return read_matrices(file, names, read_shown(items, keys), items)


def _check_columns(one: SavedRows, other: SavedRows) -> None:
    if one.dim != other.dim:
        raise InputValueError(
            f"{one.path} and {other.path} must have the same number of columns, "
            f"got {one.dim} and {other.dim}. Embed both with the same model."
        )


def _queries(folder: Path, asked: SavedRows) -> MixBenchRows:
    stated = folder / _QUERIES
    if stated.is_file():
        shown = read_shown(stated, QUERY_IDS)
        asked.check_ids(shown, stated)
        kinds = [shown[name].kind for name in asked.ids]
    else:
        kinds = asked.kinds
    if len(set(kinds)) > 1:
        raise InputValueError(
            f"{stated if stated.is_file() else asked.path} must hold queries of one kind, "
            f"got {' and '.join(sorted(set(kinds)))}."
        )
    return MixBenchRows.of(asked, kinds)


def _documents(folder: Path, held: SavedRows) -> tuple[MixBenchRows, bool]:
    """The documents, and whether it was drawn what they show."""
    if (folder / _CORPUS).is_file():
        held.check_ids(read_shown(folder / _CORPUS, DOCUMENT_IDS), folder / _CORPUS)
    stated = folder / _MIXED
    if stated.is_file():
        shown = read_shown(stated, DOCUMENT_IDS)
        held.check_ids(shown, stated)
        return MixBenchRows.of(held, [shown[name].kind for name in held.ids]), False
    for entry, (name, kind) in enumerate(zip(held.ids, held.kinds, strict=True)):
        if kind != "fused":
            raise InputValueError(
                f"{held.path}, entry {entry}: {name!r} must have a text_embedding and an "
                f"image_embedding, because {_MIXED}, which says what it shows, is not there."
            )
    return MixBenchRows.of(held, drawn_kinds(len(held.ids)).tolist()), True


def _bank(folder: Path, asked: SavedRows, queries: MixBenchRows) -> MixBenchRows | None:
    """Further queries of the kind of the benchmark's; none of them may be one of its own."""
    if not _embeddings(folder, "bank"):
        return None
    kind: Kind = str(queries.kinds[0])  # type: ignore[assignment]
    further = _read(folder, "bank", QUERY_IDS, kind)
    _check_columns(asked, further)
    bank = MixBenchRows.of(further, [kind] * len(further.ids))
    own = set(_row_bytes(queries))
    for entry, row in enumerate(_row_bytes(bank)):
        if row in own:
            raise InputValueError(
                f"{further.path}, entry {entry}: is a query of the benchmark. A bank is of other "
                "queries of the same kind, those of a training split for instance."
            )
    return bank


def _row_bytes(rows: MixBenchRows) -> list[bytes]:
    parts = [part for part in (rows.text, rows.image, rows.fused) if len(part)]
    return [b"".join(row.tobytes() for row in both) for both in zip(*parts, strict=True)]
