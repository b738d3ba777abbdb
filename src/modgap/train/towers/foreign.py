"""Models that others made: no code of theirs is run, and their files lead nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError
from modgap.core.limits import read_json

# Without this, transformers asks at the terminal whether a model's own code may be run.
NO_CODE = {"trust_remote_code": False}
# Pickles of weights are read as tensors and nothing else.
TENSORS_ONLY = {**NO_CODE, "weights_only": True}
# Where configs name how attention is computed: a name with an owner is compiled code of the hub.
_KERNELS = ("_attn_implementation", "_experts_implementation")


@contextmanager
def never_asked() -> Iterator[None]:
    """Refuses code without a prompt, for libraries that open models of transformers themselves."""
    try:
        asking: Any = importlib.import_module("transformers.dynamic_module_utils")
    except ImportError:
        yield
        return
    seconds = getattr(asking, "TIME_OUT_REMOTE_CODE", None)
    asking.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        asking.TIME_OUT_REMOTE_CODE = seconds


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars, and without a report of the weights that are left out."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def check_config(config: Any, name: str) -> Any:
    """A config of transformers, refused where it or a part of it names code on the hub."""
    parts = [config, *(part for part in vars(config).values() if hasattr(part, "model_type"))]
    for part in parts:
        for key in _KERNELS:
            found = getattr(part, key, None)
            if found is not None and "/" in str(found):
                raise InputValueError(
                    f"{name} asks for the code {str(found)!r} of the hub ({key.strip('_')}), which "
                    "is not run. Remove that from its config.json."
                )
    return config


def check_shards(folder: Path) -> None:
    """Refuse lists of weights that name files elsewhere."""
    for path in sorted(folder.glob("*.index.json")):
        noted = read_json(path, "a list of weights")
        files = noted.get("weight_map") if isinstance(noted, Mapping) else None
        if not isinstance(files, Mapping):
            raise InputValueError(f"{path} must have a weight_map of files, got none.")
        for file in files.values():
            if not isinstance(file, str) or Path(file).name != file or file == "..":
                raise InputValueError(
                    f"{path} must name files in {folder}, got {file!r}: files elsewhere are "
                    "not read."
                )
