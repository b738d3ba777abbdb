"""Finds the format of a file, a folder or a table, and opens it to its `Contents`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError
from modgap.io._contents import Contents, listed
from modgap.io._shards import BadShards, ShardOpener, in_order
from modgap.io.column_roles import column_roles
from modgap.io.formats.clip_retrieval import is_clip_retrieval, open_clip_retrieval
from modgap.io.formats.lance_dataset import SUFFIX as LANCE
from modgap.io.formats.lance_dataset import is_lance, open_lance
from modgap.io.formats.npy import open_npy
from modgap.io.formats.npz import is_npz_folder, open_npz, open_npz_shards
from modgap.io.formats.parquet import open_parquet
from modgap.io.formats.safetensors_file import open_safetensors
from modgap.io.formats.saved_dataset import find_saved, open_saved_rows
from modgap.io.formats.tables import is_opened, open_table
from modgap.io.formats.torch_file import open_torch
from modgap.io.fusing import open_fused
from modgap.io.manifest import MANIFEST, data_files, find_manifest, listed_by_manifest
from modgap.io.remote import RemotePath, place_of, steady

# Files by how their names end.
OPENERS: Mapping[str, Callable[[Any], Contents]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".pt": open_torch,
    ".pth": open_torch,
    ".parquet": lambda path: Contents.joined([open_parquet(path)], path),
}
# Folders by what is in them; the first that fits.
FOLDERS: tuple[tuple[Callable[[Any], object], Callable[[Any, ShardOpener], Contents]], ...] = (
    (is_clip_retrieval, open_clip_retrieval),
    (find_saved, lambda folder, _: open_saved_rows(folder)),
    (is_npz_folder, open_npz_shards),
)
# Else the files of a folder, in the order of their numbers, by how their names end.
SHARDS: Mapping[str, Callable[[Any], Contents]] = {".parquet": open_parquet, ".npy": open_npy}
# Readers of files that modgap takes as tables. Those of .pkl can run code.
_READ_FIRST = {
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".feather": "read_feather",
    ".arrow": "read_feather",
}


def open_contents(given: Any, label: str = "", *, bad_shards: BadShards = "refuse") -> Contents:
    """The matrices and columns of a file, a folder, a URL or a table; ``label`` says whose.

    With ``bad_shards="skip"`` shards that cannot be used are left out, with a warning: each is
    then read through once first.
    """
    opener = ShardOpener.of(bad_shards)
    found = _open(given, label, opener)
    opener.warn(found.path)
    return found


def open_together(given: Mapping[str, Any], bad_shards: BadShards) -> dict[str, Contents]:
    """The contents of several modalities by name, of those that are no arrays.

    A shard that is bad in one of them is left out of all, so that pairs stay pairs.
    """
    paths = {name: one for name, one in given.items() if is_opened(one)}
    openers = {name: ShardOpener.of(bad_shards) for name in paths}
    found = {name: _open(one, name, openers[name]) for name, one in paths.items()}
    every = ShardOpener.merged(openers.values())
    if len(paths) > 1 and every.bad:
        if all({*every.keys, *every.bad} == {*one.keys, *one.bad} for one in openers.values()):
            for name, opener in openers.items():
                if {*opener.bad} != {*every.bad}:
                    again = ShardOpener(True, frozenset(every.bad), looked_through=True)
                    found[name] = _open(paths[name], name, again)
        else:
            _refuse_without_ids(found)
    every.warn(" and ".join(str(contents.path) for contents in found.values()))
    return found


def _refuse_without_ids(found: Mapping[str, Contents]) -> None:
    """Rows of shards that are cut in different ways stay pairs only by their ids."""
    for contents in found.values():
        n_rows = max((matrix.shape[0] for matrix in contents.matrices.values()), default=0)
        if "ids" not in column_roles(contents.columns, n_rows)[0]:
            raise InputValueError(
                f"Shards of {' or '.join(str(one.path) for one in found.values())} are bad, and "
                "the files of the others do not say which rows belong to them: they have other "
                "numbers, and no ids. Leave the same rows out of all yourself."
            )


def _open(given: Any, label: str, opener: ShardOpener) -> Contents:
    if not isinstance(given, str | os.PathLike | RemotePath):
        return open_table(given, label)
    if not str(given):
        raise InputValueError("There is no file or folder ''. Check the path.")
    path = place_of(given)
    is_remote = isinstance(path, RemotePath)
    if path.name == MANIFEST and (is_remote or find_manifest(path.parent) is not None):
        path = path.parent
    suffix = path.suffix.lower()
    if isinstance(path, RemotePath):
        if suffix in (".pt", ".pth"):
            raise InputValueError(
                f"{path} is a torch file, which is read from a disk only. Download it first, or "
                "save its tensors as .npy or .safetensors."
            )
        if path.is_web and suffix not in OPENERS:
            return _open_web_folder(path, opener)
    if path.is_dir():
        return _open_folder(path, opener)
    if isinstance(path, Path) and "+" in str(path) and (parts := fused_parts(path)):
        return open_fused(path, *(_open(part, "", ShardOpener()) for part in parts))
    if not path.exists():
        instead = f"Check the {'address' if is_remote else 'path'}."
        if "*" in str(given):
            instead = "Files of one kind are read together as a folder: pass its path."
        raise InputValueError(f"There is no file or folder {str(path)!r}. {instead}")
    if suffix not in OPENERS or steady(path).size == 0:
        raise _no_rows(path)
    return OPENERS[suffix](path)


def _no_rows(path: Path | RemotePath) -> InputValueError:
    """The error for a file of another format, or an empty one."""
    suffix = path.suffix.lower()
    if suffix in OPENERS:
        return InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
    reader = _READ_FIRST.get(suffix)
    instead = f" Read it to a table and pass that: pandas.{reader}(…)." if reader else ""
    return InputValueError(
        f"{path} must end in {', '.join(OPENERS)}, or be a folder of shards, "
        f"got {path.suffix!r}.{instead}"
    )


def _open_web_folder(folder: RemotePath, opener: ShardOpener) -> Contents:
    """A folder of a web server, which lists none: its manifest does."""
    manifest = find_manifest(folder)
    if manifest is None:
        raise InputValueError(
            f"{folder} must end in {', '.join(OPENERS)}, or be a folder with a {MANIFEST} of its "
            "shards, since web servers list none. Make one where the files are: modgap manifest "
            "FOLDER"
        )
    listed_by_manifest(folder, manifest)
    return _open_folder(folder, opener)


def fused_parts(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """The two files of "image.npy+text.npy", where there is no file of that name."""
    first, plus, second = str(path).partition("+")
    if not plus or Path(path).exists() or not (Path(first).exists() and Path(second).exists()):
        return None
    return Path(first), Path(second)


def _open_folder(folder: Path | RemotePath, opener: ShardOpener) -> Contents:
    if is_lance(folder):
        return open_lance(folder, opener)
    manifest = find_manifest(folder)
    if manifest is not None:
        opener.compare(folder, manifest, data_files(folder, manifest))
    for fits, open_folder in FOLDERS:
        if fits(folder):
            return open_folder(folder, opener)
    for suffix, open_one in SHARDS.items():
        if paths := in_order(folder, suffix):
            return opener.joined(paths, open_one, folder)
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
