"""Models that are not where their names say: what is near, and what to download."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError

from modgap._validate import InputError, InputValueError, did_you_mean, first_line
from modgap.train.towers.foreign import check_shards


@contextmanager
def opening(kind: str, name: str, library: str, default_owner: str = "") -> Iterator[None]:
    """What a library says when it opens a model by a name of the hub or a folder, as a sentence.

    Whatever it raises over the files of a model is one, but for a lack of memory.
    """
    place = Path(name).expanduser()
    if not place.is_dir() and _is_path(name):
        raise InputValueError(f"There is no folder {name}.{near_folder(place)}")
    try:
        if place.is_dir():
            check_shards(place)
        with _quiet_hub():
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if "allocate memory" in str(error):
            raise
        if place.is_dir() or name in (cached := cached_models()):
            raise InputValueError(
                f"{kind}:{name} cannot be opened as a model of {library}: {_why(error)}."
            ) from error
        owner = f"{default_owner}/" if default_owner and "/" not in name else ""
        raise InputValueError(
            f"There is no model {name!r}: it is no folder, not in the cache ({hub_cache()}), and "
            f"the hub does not give it ({type(error).__name__}).{did_you_mean(name, cached)} With "
            f"a connection, download it first: hf download {owner}{name}"
        ) from error


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Without the hub's lines about every try to reach it: one sentence says what failed."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _why(error: Exception) -> str:
    """The reason in a few words; what libraries advise instead would run code of the model."""
    if "trust_remote_code" in str(error):
        return "it brings code of its own, which is not run"
    if isinstance(error, UnpicklingError):
        return "its weights are a pickle of more than tensors. Take a model saved as safetensors"
    if "ignore_mismatched_sizes" in str(error):
        return "its weights have other shapes than its config says"
    return first_line(error)


def _is_path(name: str) -> bool:
    """Whether a name can only be a path: the hub's have an owner and a name at most."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name


def near_folder(place: Path) -> str:
    """A sentence that names the folder beside a missing one that is nearest to it."""
    if not place.parent.is_dir():
        return f" There is no {place.parent} either."
    beside = sorted(path.name for path in place.parent.iterdir() if path.is_dir())
    return did_you_mean(place.name, beside)


def hub_cache() -> Path:
    """Where the hub's library keeps what it downloaded."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_models() -> tuple[str, ...]:
    """Names of the models that the hub's cache holds."""
    try:
        folders: Iterable[Path] = sorted(hub_cache().glob("models--*"))
    except OSError:
        return ()
    return tuple("/".join(folder.name.split("--")[1:]) for folder in folders)
