"""clip-retrieval's folders: `img_emb/*.npy`, `text_emb/*.npy` and `metadata/*.parquet`.

https://github.com/rom1504/clip-retrieval#clip-inference

`modgap embed` writes the same. Where an image has several captions or none, the texts have rows of
their own, described by `text_metadata/*.parquet`; sounds are in `audio_emb/*.npy`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from modgap._changes import SteadyFile
from modgap._files import atomic_folder
from modgap._validate import InputValueError, check_count
from modgap.io._contents import EMBEDDING, Column, Contents, listed
from modgap.io._matrix import Matrix, join_files, rebatch
from modgap.io._stream import RowStream, check_columns, check_lengths
from modgap.io.embedded import finished_note
from modgap.io.npy import open_array, save_array
from modgap.io.parquet import open_parquet

IMAGES, TEXTS, METADATA, TEXT_METADATA = "img_emb", "text_emb", "metadata", "text_metadata"
# The folder of each modality's rows.
EMBEDDED = {"image": IMAGES, "audio": "audio_emb", "text": TEXTS}


def is_clip_retrieval(folder: Path) -> bool:
    """Whether a folder holds the folders clip-retrieval writes."""
    return any((folder / name).is_dir() for name in EMBEDDED.values())


def own_folder(folder: Path, modality: str) -> str | None:
    """The name of the folder that has the rows of a modality, where there is one."""
    found = EMBEDDED.get(modality)
    return found if found is not None and (folder / found).is_dir() else None


def open_clip_retrieval(folder: Path) -> Contents:
    """Images, texts and metadata, whichever there are; they must agree on the number of rows."""
    note = finished_note(folder)
    modalities = [name for name, part in EMBEDDED.items() if (folder / part).is_dir()]
    matrices: dict[str, Matrix] = {
        EMBEDDED[name]: open_npy_shards(folder / EMBEDDED[name]).matrices[EMBEDDING]
        for name in modalities
    }
    counts = {name: matrix.shape[0] for name, matrix in matrices.items()}
    columns = _table(folder / METADATA)
    for column in columns.values():
        counts[METADATA] = column.length
    if texts := _table(folder / TEXT_METADATA):
        own = {TEXTS: counts.pop(TEXTS, 0), TEXT_METADATA: next(iter(texts.values())).length}
        _check_counts(folder, own)
        columns = _of_their_own(modalities[0], columns, texts)
    _check_counts(folder, counts)
    pair = (EMBEDDED[modalities[0]], EMBEDDED[modalities[1]]) if len(modalities) == 2 else None
    names = (modalities[0], modalities[1]) if pair else None
    return Contents(folder, matrices, columns, pair=pair, names=names, note=note)


def _table(folder: Path) -> dict[str, Column]:
    shards = in_order(folder, ".parquet")
    return dict(open_parquet(shards, folder).columns) if shards else {}


def _check_counts(folder: Path, counts: Mapping[str, int]) -> None:
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputValueError(
            f"The parts of {folder} must have the same number of rows, but {found}. "
            "A shard may be missing."
        )


def _of_their_own(
    modality: str, items: Mapping[str, Column], texts: Mapping[str, Column]
) -> dict[str, Column]:
    """The columns of items and of their captions, each under a name that says whose it is.

    A caption belongs to the item of the same ``image_path``.
    """
    for part, columns in ((METADATA, items), (TEXT_METADATA, texts)):
        if "image_path" not in columns:
            raise InputValueError(
                f"{part} must have a column 'image_path', got {listed(list(columns))}."
            )
    of_items = {f"{modality}_{name}": column for name, column in items.items()}
    of_texts = {f"text_{name}": column for name, column in texts.items()}
    paths = of_items.pop(f"{modality}_image_path"), of_texts.pop("text_image_path")
    found = {**of_items, **of_texts}
    found |= {f"{modality}_id": paths[0], f"{modality}_group": paths[0]}
    found |= {"text_id": _numbered(paths[1]), "text_group": paths[1]}
    return found


def _numbered(paths: Column) -> Column:
    """Ids of captions: that of their item, and which of its captions they are."""

    def load() -> np.ndarray:
        count: Counter[str] = Counter()
        ids = []
        for path in paths.load().tolist():
            ids.append(f"{path}#{count[path]}")
            count[path] += 1
        return np.array(ids)

    return Column(paths.length, "<U", load)


def open_npy_shards(folder: Path) -> Contents:
    """The `.npy` files of a folder as one matrix, in the order of their numbers."""
    shards = in_order(folder, ".npy")
    if not shards:
        raise InputValueError(f"{folder} must hold .npy files, got none.")
    parts: dict[Path, Matrix] = {path: open_array(SteadyFile(path)) for path in shards}
    return Contents(folder, {EMBEDDING: join_files(parts)})


def in_order(folder: Path, suffix: str) -> list[Path]:
    """The files of a folder with that suffix, `part_2` before `part_10`; hidden ones left out."""
    paths = [p for p in folder.glob(f"*{suffix}") if p.is_file() and not p.name.startswith(".")]
    return sorted(paths, key=lambda path: natural_key(path.name))


def natural_key(name: str) -> list[tuple[int, str]]:
    """A key that sorts numbers inside names by their value.

    >>> sorted(["e_10.npy", "e_9.npy"], key=natural_key)
    ['e_9.npy', 'e_10.npy']
    """
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def write_clip_retrieval(
    folder: str | Path,
    x: Any,
    y: Any = None,
    *,
    ids: Any = None,
    captions: Any = None,
    dtype: Any = None,
    shard_rows: int = 100_000,
) -> None:
    """Write a folder as clip-retrieval does.

    Parameters
    ----------
    folder : path
        Must not exist yet, or be empty.
    x, y : matrices, Embeddings or iterables of batches
        The rows of the images and, where there are any, of the texts.
    ids, captions : sequences, optional
        One entry per row; ids become the metadata's ``image_path``.
    dtype : dtype, optional
        Values that do not fit it are refused.
    shard_rows : int
        Rows to a file.
    """
    target = Path(folder)
    check_count(shard_rows, "shard_rows")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputValueError(f"{target} exists already. Choose a new folder, or remove it first.")
    columns = check_columns({"image_path": ids, "caption": captions})
    streams = {IMAGES: RowStream(x, IMAGES, dtype)}
    if y is not None:
        streams[TEXTS] = RowStream(y, TEXTS, dtype)
    with atomic_folder(target) as temporary:
        for name in [*streams, *([METADATA] if columns else [])]:
            (temporary / name).mkdir()
        shards = zip_longest(*(rebatch(s.batches(), shard_rows) for s in streams.values()))
        for number, sides in enumerate(shards):
            for name, rows in zip(streams, sides, strict=True):
                if rows is not None:
                    save_array(temporary / name / f"{name}_{number}.npy", rows)
        counts = {name: stream.n_written for name, stream in streams.items()}
        if len(set(counts.values())) > 1:
            raise InputValueError(
                f"A clip-retrieval folder needs as many images as texts, got {counts[IMAGES]} "
                f"and {counts[TEXTS]}."
            )
        check_lengths(streams.values(), columns, {})
        for number, start in enumerate(range(0, counts[IMAGES] if columns else 0, shard_rows)):
            part = {name: values[start : start + shard_rows] for name, values in columns.items()}
            _write_metadata(temporary / METADATA / f"{METADATA}_{number}.parquet", part)


def _write_metadata(path: Path, columns: dict[str, np.ndarray]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
