"""Opens a model by its name: the library before the colon, the library's own name behind it."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from modgap.core.checks import InputError, InputValueError, did_you_mean, first_line
from modgap.embed.model import Model, Options, Precision
from modgap.train.towers.foreign import check_shards

# The module that opens each kind, and how its names look.
KINDS = {
    "hf": ("transformers_model", "hf:openai/clip-vit-base-patch32"),
    "open_clip": ("open_clip_model", "open_clip:ViT-B-32/laion2b_s34b_b79k"),
    "st": ("sentence_transformers_model", "st:clip-ViT-B-32"),
    "onnx": ("onnx_model", "onnx:FOLDER"),
    "run": ("run_model", "run:FOLDER"),
}


def open_model(
    name: str | os.PathLike[str] | Model,
    *,
    device: str | None = None,
    precision: Precision = "auto",
    random: int | None = None,
    norm_layers: bool = True,
    input_normalisation: bool = True,
    **more: Any,
) -> Model:
    """A model by its name.

    Parameters
    ----------
    name : str
        ``hf:NAME`` (transformers: CLIP, SigLIP, CLAP …, from the hub's cache or a folder),
        ``open_clip:NAME/WEIGHTS``, ``st:NAME`` (sentence-transformers), ``onnx:FOLDER``,
        ``run:FOLDER`` (what ``modgap train`` wrote). A model is passed through.
    device : str, optional
        "cpu", "cuda", "cuda:1" …; by default the first GPU, else the processor. "cuda:all" uses
        every GPU.
    precision : {"auto", "float32", "bfloat16", "float16"}
        What the network computes in; by default bfloat16 on a GPU that has it, else float32.
    random : int, optional
        The architecture with random weights instead, drawn with this seed.
    norm_layers : bool
        False makes every layer, batch and RMS norm the identity (Liang et al. 2022, fig. 15).
    input_normalisation : bool
        False leaves pixels in [0, 1] as they are.
    **more
        What the kind takes besides: see its module.
    """
    if isinstance(name, Model):
        return name
    kind, colon, rest = os.fspath(name).partition(":")
    if not colon or kind not in KINDS or not rest:
        forms = ", ".join(form for _, form in KINDS.values())
        raise InputValueError(
            f"A model is named by its library, as in {forms}; got {os.fspath(name)!r}."
            f"{did_you_mean(kind, KINDS) if colon else ''}"
        )
    opener = importlib.import_module(f"modgap.embed.{KINDS[kind][0]}")
    options = Options(device, precision, random, norm_layers, input_normalisation)
    found: Model = opener.open_by_name(rest, options, **more)
    return found


@contextmanager
def reading_model(kind: str, name: str, library: str, default_owner: str = "") -> Iterator[None]:
    """Turns a library's errors over a model of the hub or of a folder into one sentence.

    A lack of memory is raised as it is.
    """
    place = Path(name).expanduser()
    if not place.is_dir() and _is_path(name):
        raise InputValueError(f"There is no folder {name}.{near_folder(place)}")
    hub = logging.getLogger("huggingface_hub")  # it has a line for every attempt to reach it
    level = hub.level
    try:
        if place.is_dir():
            check_shards(place)
        hub.setLevel(logging.CRITICAL)
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
    finally:
        hub.setLevel(level)


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


def cached_models() -> tuple[str, ...]:
    """Names of the models that the hub's cache holds."""
    try:
        folders = sorted(hub_cache().glob("models--*"))
    except OSError:
        return ()
    return tuple("/".join(folder.name.split("--")[1:]) for folder in folders)


def hub_cache() -> Path:
    """Where the hub's library keeps what it downloaded."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)
