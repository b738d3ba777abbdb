"""clip-retrieval's folders: `img_emb/*.npy`, `text_emb/*.npy` and `metadata/*.parquet`.

https://github.com/rom1504/clip-retrieval#clip-inference

`modgap embed` writes the same. Where an image has several captions or none, the texts have rows of
their own, described by `text_metadata/*.parquet`; sounds are in `audio_emb/*.npy`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_count
from modgap.core.files import atomic_folder
from modgap.core.lazy import pa, pq
from modgap.io._contents import EMBEDDING, Column, Contents, listed
from modgap.io._matrices import rebatch
from modgap.io._row_stream import RowStream, check_columns, check_lengths
from modgap.io._shards import ShardOpener, in_order
from modgap.io.embedded import finished_note
from modgap.io.formats.npy import open_npy, save_array
from modgap.io.formats.parquet import open_parquet

IMAGES, TEXTS, METADATA, TEXT_METADATA = "img_emb", "text_emb", "metadata", "text_metadata"
# The folder of each modality's rows.
EMBEDDED = {"image": IMAGES, "audio": "audio_emb", "text": TEXTS}


def is_clip_retrieval(folder: Any) -> bool:
    """Whether a folder holds the folders clip-retrieval writes."""
    return any((folder / name).is_dir() for name in EMBEDDED.values())


def own_folder(folder: Any, modality: str) -> str | None:
    """The name of the folder that has the rows of a modality, where there is one."""
    found = EMBEDDED.get(modality)
    return found if found is not None and (folder / found).is_dir() else None


def open_clip_retrieval(folder: Any, opener: ShardOpener) -> Contents:
    """Images, texts and metadata, whichever there are; they must agree on the number of rows."""
    note = finished_note(folder)
    modalities = [name for name, part in EMBEDDED.items() if (folder / part).is_dir()]
    sides = {}
    for name in modalities:
        place = folder / EMBEDDED[name]
        paths = in_order(place, ".npy")
        if not paths:
            raise InputValueError(f"{place} must hold .npy files, got none.")
        sides[EMBEDDED[name]] = opener.open_each(paths, open_npy)
    for part in (METADATA, TEXT_METADATA):
        if tables := in_order(folder / part, ".parquet"):
            sides[part] = opener.open_each(tables, open_parquet)
    own = {TEXTS, TEXT_METADATA} if TEXT_METADATA in sides else set()
    for of_own in (False, True):
        group = {name: side for name, side in sides.items() if (name in own) is of_own}
        if group:
            opener.together(group, folder)
    held = {part: Contents.joined(side.values(), folder / part) for part, side in sides.items()}
    matrices = {EMBEDDED[name]: held[EMBEDDED[name]].matrix(EMBEDDING) for name in modalities}
    described = held[METADATA].columns if METADATA in held else {}
    if TEXT_METADATA in held:
        described = _of_their_own(modalities[0], described, held[TEXT_METADATA].columns)
    pair = (EMBEDDED[modalities[0]], EMBEDDED[modalities[1]]) if len(modalities) == 2 else None
    names = (modalities[0], modalities[1]) if pair else None
    return Contents(folder, matrices, described, pair=pair, names=names, note=note)


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
            pq.write_table(pa.table(part), temporary / METADATA / f"{METADATA}_{number}.parquet")
