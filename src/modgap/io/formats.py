"""Which format a file, a folder or a table has, and all that it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError
from modgap.io._contents import Contents
from modgap.io.clip_retrieval import (
    in_order,
    is_clip_retrieval,
    open_clip_retrieval,
    open_npy_shards,
)
from modgap.io.fusing import open_fused
from modgap.io.npy import open_npy
from modgap.io.npz import open_npz
from modgap.io.npz_folder import is_npz_folder, open_npz_shards
from modgap.io.parquet import open_parquet
from modgap.io.safetensors_file import open_safetensors
from modgap.io.saved_dataset import find_saved, open_saved_rows
from modgap.io.tables import is_table, open_table
from modgap.io.torch_file import open_torch

OPENERS: Mapping[str, Callable[[Path], Contents]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".pt": open_torch,
    ".pth": open_torch,
    ".parquet": lambda path: open_parquet([path], path),
}


def open_contents(given: Any, label: str = "") -> Contents:
    """Everything a file, a folder or a table holds, by name; ``label`` says whose."""
    if is_table(given):
        return open_table(given, label)
    if not str(given):
        raise InputValueError("There is no file or folder ''. Check the path.")
    path = Path(given)
    if path.is_dir():
        return _open_folder(path)
    if parts := fused_parts(path):
        return open_fused(path, open_contents(parts[0]), open_contents(parts[1]))
    if not path.exists():
        raise InputValueError(f"There is no file or folder {str(given)!r}. {_instead(str(given))}")
    if path.suffix.lower() not in OPENERS:
        raise InputValueError(
            f"{path} must end in {', '.join(OPENERS)}, or be a folder of shards, "
            f"got {path.suffix!r}.{_READ_FIRST.get(path.suffix.lower(), '')}"
        )
    if path.stat().st_size == 0:
        raise InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
    return OPENERS[path.suffix.lower()](path)


# What reads other files to tables, which are taken as well. Those of .pkl can run code.
_READ_FIRST = {
    suffix: f" Read it to a table and pass that: pandas.{reader}(…)."
    for suffix, reader in {
        ".csv": "read_csv",
        ".tsv": "read_table",
        ".json": "read_json",
        ".jsonl": "read_json",
        ".feather": "read_feather",
        ".arrow": "read_feather",
    }.items()
}


def _instead(missing: str) -> str:
    """What to do about a path where nothing is."""
    if "://" in missing:
        return "modgap fetches nothing: download it first."
    if "*" in missing:
        return "Files of one kind are read together as a folder: pass its path."
    return "Check the path."


def fused_parts(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """The two files of "image.npy+text.npy", where there is no file of that name."""
    first, plus, second = str(path).partition("+")
    if not plus or Path(path).exists() or not (Path(first).exists() and Path(second).exists()):
        return None
    return Path(first), Path(second)


def _open_folder(folder: Path) -> Contents:
    if is_clip_retrieval(folder):
        return open_clip_retrieval(folder)
    if find_saved(folder):
        return open_saved_rows(folder)
    if is_npz_folder(folder):
        return open_npz_shards(folder)
    if shards := in_order(folder, ".parquet"):
        return open_parquet(shards, folder)
    if in_order(folder, ".npy"):
        return open_npy_shards(folder)
    raise InputValueError(
        f"{folder} must be a folder of .parquet, .npy or .npz shards, a dataset of Hugging Face's "
        "save_to_disk, or one that clip-retrieval wrote (img_emb, text_emb, metadata), got none of "
        "these. Pictures are embedded first: "
        f"modgap embed MODEL {folder} -o rows"
    )
