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

from modgap._files import atomic_folder
from modgap._validate import InputValueError, check_count
from modgap.io._contents import EMBEDDING, Column, Contents, listed
from modgap.io._matrices import Matrix, join_files, rebatch
from modgap.io._row_stream import RowStream, check_columns, check_lengths
from modgap.io._shards import ShardOpener, in_order
from modgap.io.embedded import finished_note
from modgap.io.formats.npy import open_array, save_array
from modgap.io.formats.parquet import ParquetPart, parquet_contents, parquet_files
from modgap.io.remote import steady

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


def open_clip_retrieval(folder: Any, opening: ShardOpener | None = None) -> Contents:
    """Images, texts and metadata, whichever there are; they must agree on the number of rows."""
    opening = opening or ShardOpener()
    note = finished_note(folder)
    modalities = [name for name, part in EMBEDDED.items() if (folder / part).is_dir()]
    sides: dict[str, dict[str, Any]] = {
        EMBEDDED[name]: npy_files(folder / EMBEDDED[name], opening) for name in modalities
    }
    for part in (METADATA, TEXT_METADATA):
        if shards := in_order(folder / part, ".parquet"):
            sides[part] = parquet_files(shards, opening)
    own = {TEXTS, TEXT_METADATA} if TEXT_METADATA in sides else set()
    for of_own in (False, True):
        group = {name: side for name, side in sides.items() if (name in own) is of_own}
        opening.together(group, _rows_of)
        opening.refuse_none(all(group.values()), folder)
        _check_counts(folder, group)
    matrices = {
        EMBEDDED[name]: _joined(folder / EMBEDDED[name], sides[EMBEDDED[name]])
        for name in modalities
    }
    columns = {
        part: dict(parquet_contents(list(sides[part].values()), folder / part).columns)
        for part in (METADATA, TEXT_METADATA)
        if part in sides
    }
    described = columns.get(METADATA, {})
    if TEXT_METADATA in columns:
        described = _of_their_own(modalities[0], described, columns[TEXT_METADATA])
    pair = (EMBEDDED[modalities[0]], EMBEDDED[modalities[1]]) if len(modalities) == 2 else None
    names = (modalities[0], modalities[1]) if pair else None
    return Contents(folder, matrices, described, pair=pair, names=names, note=note)


def _rows_of(shard: Any) -> int:
    return shard.n_rows if isinstance(shard, ParquetPart) else shard.shape[0]


def _check_counts(folder: Any, sides: Mapping[str, Mapping[str, Any]]) -> None:
    counts = {name: sum(map(_rows_of, side.values())) for name, side in sides.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputValueError(
            f"The parts of {folder} must have the same number of rows, but {found}. "
            f"{_which_differs(sides)}"
        )


def _which_differs(sides: Mapping[str, Mapping[str, Any]]) -> str:
    """The first shard that is missing or of another length on one side, where names tell."""
    for key in dict.fromkeys(key for side in sides.values() for key in side):
        missing = [name for name, side in sides.items() if key not in side]
        if missing and len(missing) < len(sides):
            return f"Shard {key} of {missing[0]} is missing."
        if len({_rows_of(side[key]) for side in sides.values() if key in side}) > 1:
            counts = [f"{_rows_of(side[key])} in {name}" for name, side in sides.items()]
            return f"Shard {key} has {' and '.join(counts)}."
    return "A shard may be missing."


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


def open_npy_shards(folder: Any, opening: ShardOpener | None = None) -> Contents:
    """The `.npy` files of a folder as one matrix, in the order of their numbers."""
    opening = opening or ShardOpener()
    shards = npy_files(folder, opening)
    opening.refuse_none(shards, folder)
    return Contents(folder, {EMBEDDING: _joined(folder, shards)})


def npy_files(folder: Any, opening: ShardOpener) -> dict[str, Matrix]:
    """The `.npy` files of a folder by the keys of their shards."""
    found = opening.open_each(
        in_order(folder, ".npy"),
        lambda path: open_array(steady(path)),
        lambda matrix: matrix.shape[0],
        lambda matrix: None,  # any bytes are numbers
    )
    return opening.agreeing(found, _holds, "columns")


def _holds(matrix: Matrix) -> frozenset:
    return frozenset({matrix.shape[1:]} if matrix.shape[0] else ())


def _joined(folder: Any, shards: Mapping[str, Matrix]) -> Matrix:
    if not shards:
        raise InputValueError(f"{folder} must hold .npy files, got none.")
    parts = {getattr(matrix.file, "path", folder): matrix for matrix in shards.values()}
    return join_files({path: part for path, part in parts.items() if part.shape[0]} or parts)


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
