"""Hugging Face datasets as ``save_to_disk`` writes them: state.json, and Arrow files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError
from modgap.core.lazy import pa
from modgap.core.limits import read_json
from modgap.core.steady_file import SteadyFile
from modgap.io._arrow_columns import arrow_contents
from modgap.io._contents import Contents, listed, reading
from modgap.io.formats.tables import TablePart

_STATE, _DICT = "state.json", "dataset_dict.json"


def find_saved(folder: Any) -> Sequence[Any]:
    """What ``save_to_disk`` leaves: state.json of a dataset, dataset_dict.json of several."""
    return [path for path in (folder / _DICT, folder / _STATE) if path.is_file()][:1]


def open_saved_rows(folder: Any) -> Contents:
    """The vectors and plain columns of a dataset; of several splits one has to be named."""
    if not isinstance(folder, Path):
        raise InputValueError(
            f"{folder} is a dataset of Hugging Face's save_to_disk, which is read from a disk "
            "only. Download it first, or save it as Parquet."
        )
    (stated,) = find_saved(folder)
    splits = saved_splits(stated)
    if len(splits) > 1:
        raise InputValueError(
            f"{folder} holds the splits {listed([name for name in splits if name])}. Give the "
            f"folder of one: {folder / next(name for name in splits if name)}."
        )
    (state,) = splits.values()
    shards = (arrow_contents(read_arrow(path)) for path in arrow_files(state))
    return Contents.joined(shards, folder)


def saved_splits(stated: Path) -> dict[str | None, Path]:
    """The state.json of every split by its name; of a dataset without splits under None."""
    if stated.name != _DICT:
        return {None: stated}
    names = _json(stated).get("splits")
    if not isinstance(names, list) or not names:
        raise InputValueError(f"{stated} must list the splits of the dataset, got {names!r}.")
    return {str(name): _inside(stated, name) / _STATE for name in names}


def arrow_files(state: Path) -> list[Path]:
    """The Arrow files that a state.json lists."""
    files = _json(state).get("_data_files")
    if files == []:
        raise InputValueError(f"{state.parent} must have at least one row, got none.")
    if not isinstance(files, list):
        raise InputValueError(
            f"{state} must list the Arrow files of a dataset. Save it again with save_to_disk."
        )
    names = [file.get("filename") if isinstance(file, dict) else None for file in files]
    return [_inside(state, name) for name in names]


def read_arrow(path: Path) -> TablePart:
    """A stream of record batches, mapped into memory and looked through."""
    file = SteadyFile(path)
    if not path.is_file():
        raise InputValueError(f"{path} must be an Arrow file, but it is none.")
    with reading(path, "an Arrow stream", pa.ArrowException, OSError, UnicodeDecodeError):
        table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        # Offsets that point outside would otherwise be followed.
        table.validate(full=True)
        _ = table.column_names  # refused here where they are no text
    return TablePart(table, path, file)


def _inside(stated: Path, name: Any) -> Path:
    """A file or folder beside the one that names it."""
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
        raise InputValueError(f"{stated} must name what lies beside it, got {name!r}.")
    path = stated.parent / name
    if not path.exists():
        raise InputValueError(f"{stated} names {name!r}, which is not there.")
    if not path.resolve().is_relative_to(stated.parent.resolve()):
        raise InputValueError(f"{path} must lie in {stated.parent}, but is a link that leads out.")
    return path


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputValueError(f"{path} is missing: is this what save_to_disk wrote?")
    found = read_json(path, "what save_to_disk writes")
    return found if isinstance(found, dict) else {}
