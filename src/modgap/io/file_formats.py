"""Which format a file, a folder or a table has, and all that it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError
from modgap.io._contents import Contents, listed
from modgap.io._shards import BadShards, ShardOpener, in_order
from modgap.io.formats.clip_retrieval import is_clip_retrieval, open_clip_retrieval, open_npy_shards
from modgap.io.formats.lance_dataset import SUFFIX as LANCE
from modgap.io.formats.lance_dataset import is_lance, open_lance
from modgap.io.formats.npy import open_npy
from modgap.io.formats.npz import open_npz
from modgap.io.formats.npz_folder import is_npz_folder, open_npz_shards
from modgap.io.formats.parquet import open_parquet
from modgap.io.formats.safetensors_file import open_safetensors
from modgap.io.formats.saved_dataset import find_saved, open_saved_rows
from modgap.io.formats.tables import is_table, open_table
from modgap.io.formats.torch_file import open_torch
from modgap.io.fusing import open_fused
from modgap.io.manifest import MANIFEST, data_files, find_manifest, listed_by_manifest
from modgap.io.remote import RemotePath, place_of

OPENERS: Mapping[str, Callable[[Any], Contents]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".pt": open_torch,
    ".pth": open_torch,
    ".parquet": lambda path: open_parquet([path], path),
}


def open_contents(given: Any, label: str = "", *, bad_shards: BadShards = "refuse") -> Contents:
    """Everything a file, a folder, a URL or a table holds, by name; ``label`` says whose.

    ``bad_shards="skip"`` leaves out shards that cannot be used, with a warning: each is then read
    through once first.
    """
    opening = ShardOpener.of(bad_shards)
    found = open_with(given, label, opening)
    opening.warn(found.path)
    return found


def open_with(given: Any, label: str, opening: ShardOpener) -> Contents:
    """The same without a warning; ``opening`` says what was left out."""
    if is_table(given):
        return open_table(given, label)
    if not str(given):
        raise InputValueError("There is no file or folder ''. Check the path.")
    path = place_of(given)
    if isinstance(path, RemotePath):
        return _open_remote(path, opening)
    if path.name == MANIFEST and find_manifest(path.parent) is not None:
        path = path.parent
    if path.is_dir():
        return _open_folder(path, opening)
    if parts := fused_parts(path):
        return open_fused(path, open_contents(parts[0]), open_contents(parts[1]))
    if not path.exists():
        raise InputValueError(f"There is no file or folder {str(given)!r}. {_instead(str(given))}")
    return _open_file(path, path.stat().st_size)


def _open_file(path: Path | RemotePath, size: int) -> Contents:
    if path.suffix.lower() not in OPENERS:
        raise InputValueError(
            f"{path} must end in {', '.join(OPENERS)}, or be a folder of shards, "
            f"got {path.suffix!r}.{_READ_FIRST.get(path.suffix.lower(), '')}"
        )
    if size == 0:
        raise InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
    return OPENERS[path.suffix.lower()](path)


def _open_remote(path: RemotePath, opening: ShardOpener) -> Contents:
    if path.name == MANIFEST:
        path = path.parent
    if path.suffix.lower() == LANCE:
        return open_lance(path, opening)
    if path.suffix.lower() in (".pt", ".pth"):
        raise InputValueError(
            f"{path} is a torch file, which is read from a disk only. Download it first, or save "
            "its tensors as .npy or .safetensors."
        )
    if path.is_web and path.suffix.lower() not in OPENERS:
        _list_web_folder(path)
    else:
        if (found := path.info()) is None:
            raise InputValueError(f"There is no file or folder {str(path)!r}. Check the address.")
        if found["type"] != "directory":
            return _open_file(path, found.get("size"))
    return _open_folder(path, opening)


def _list_web_folder(folder: RemotePath) -> None:
    """Web servers list no folders: a manifest says what there is."""
    manifest = find_manifest(folder)
    if manifest is None:
        raise InputValueError(
            f"{folder} must end in {', '.join(OPENERS)}, or be a folder with a {MANIFEST} of its "
            "shards, since web servers list none. Make one where the files are: modgap manifest "
            "FOLDER"
        )
    listed_by_manifest(folder, manifest)


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
    if "*" in missing:
        return "Files of one kind are read together as a folder: pass its path."
    return "Check the path."


def fused_parts(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """The two files of "image.npy+text.npy", where there is no file of that name."""
    first, plus, second = str(path).partition("+")
    if not plus or Path(path).exists() or not (Path(first).exists() and Path(second).exists()):
        return None
    return Path(first), Path(second)


def _open_folder(folder: Path | RemotePath, opening: ShardOpener) -> Contents:
    if is_lance(folder):
        return open_lance(folder, opening)
    manifest = find_manifest(folder)
    if manifest is not None:
        opening.compare(folder, manifest, data_files(folder, manifest))
    if is_clip_retrieval(folder):
        return open_clip_retrieval(folder, opening)
    if find_saved(folder):
        return open_saved_rows(folder)
    if is_npz_folder(folder):
        return open_npz_shards(folder, opening)
    if shards := in_order(folder, ".parquet"):
        return open_parquet(shards, folder, opening)
    if in_order(folder, ".npy"):
        return open_npy_shards(folder, opening)
    if tables := sorted(path.name for path in folder.glob(f"*{LANCE}")):
        raise InputValueError(
            f"{folder} holds the Lance datasets {listed(tables)}. Give the path of one: "
            f"{folder / tables[0]}."
        )
    raise InputValueError(
        f"{folder} must be a folder of .parquet, .npy or .npz shards, a Lance dataset, one of "
        "Hugging Face's save_to_disk, or one that clip-retrieval wrote (img_emb, text_emb, "
        f"metadata), got none of these. Pictures are embedded first: modgap embed MODEL {folder} "
        "-o rows"
    )
