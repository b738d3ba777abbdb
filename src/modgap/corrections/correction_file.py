"""The file of a correction: one safetensors file with JSON metadata."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from modgap.core.checks import InputError, InputValueError, check_count
from modgap.core.limits import MOST_COLUMNS
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.corrections.affine import Affine
from modgap.corrections.background import Background
from modgap.corrections.correction import ROLES, Correction
from modgap.corrections.fitted_rows import FittedRows
from modgap.corrections.hubs import Hubs

# A file that claims more was not written by modgap: one block is one query modality's.
_MOST_NAMES, _MOST_BLOCKS = 1_000, 64


def write_correction(correction: Correction, path: str | os.PathLike[str]) -> None:
    """Write a correction in one step."""
    tensors: dict[str, np.ndarray] = {}
    maps = []
    for (name, role), affine in correction.maps.items():
        held = {"matrix": affine.matrix, "offset": affine.offset}
        known = {part: value for part, value in held.items() if value is not None}
        tensors |= {f"{name}.{role}.{part}": value for part, value in known.items()}
        numbers = ("dim_in", "scale", "renormalise", "blocks", "normalise")
        entry = {"modality": name, "role": role} | {n: getattr(affine, n) for n in numbers}
        # The parts are named, so that a lost tensor is not taken for an identity.
        maps.append(entry | {"parts": [*known]})
    for part in ("fitted", "fitted_queries"):
        for name, rows in getattr(correction, part).items():
            tensors |= rows.tensors(f"{name}.{part}")
    header = {
        "names": correction.names,
        "metric": correction.metric,
        "queries": correction.queries,
        "fitted": {name: rows.n for name, rows in correction.fitted.items()},
        "fitted_queries": {name: rows.n for name, rows in correction.fitted_queries.items()},
        "demands": str(correction),
        "dim_in": correction.dim_in,
        "dim_out": correction.dim_out,
        "maps": maps,
        "about": dict(correction.about),
    }
    for part in ("hubs", "background"):
        if (value := getattr(correction, part)) is not None:
            tensors |= value.tensors()
            header[part] = value.header()
    write_tensors(path, "correction", tensors, header)


def read_correction(path: str | os.PathLike[str]) -> Correction:
    """Read what ``write_correction`` wrote; nothing in the file is ever executed."""
    header, tensors = read_tensors(path, "correction")
    try:
        _check_counts(header)
        maps = {
            (entry["modality"], entry["role"]): _affine(entry, tensors) for entry in header["maps"]
        }
        fitted, fitted_queries = (
            {
                name: FittedRows.read(int(n), f"{name}.{part}", tensors)
                for name, n in header[part].items()
            }
            for part in ("fitted", "fitted_queries")
        )
        hubs, background = header.get("hubs"), header.get("background")
        return Correction(
            tuple(header["names"]), maps, header["metric"], header["about"],
            tuple(header["queries"]), fitted, fitted_queries,
            None if hubs is None else Hubs.of(hubs, tensors),
            None if background is None else Background.read(background, tensors),
        )  # fmt: skip
    except InputError as error:
        raise InputValueError(f"{path} is not a whole correction. {error}") from error
    except (
        KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError
    ) as error:  # fmt: skip
        raise InputValueError(f"{path} is not a whole correction: {error!r}.") from error


def _check_counts(header: dict[str, Any]) -> None:
    """Refuse a file whose header claims more than any correction has."""
    if not isinstance(header["about"], dict):
        raise InputValueError("It must say how it came to be.")
    n_names, n_maps = len(header["names"]), len(header["maps"])
    if n_names > _MOST_NAMES or n_maps > len(ROLES) * n_names:
        raise InputValueError(
            f"It has {n_names:,} modalities and {n_maps:,} maps, and may have {_MOST_NAMES:,} and "
            "a map for the documents and the queries of each."
        )
    for entry in header["maps"]:
        if not isinstance(entry, dict):
            raise TypeError(f"a map must be an object, got {entry!r}")
        blocks = entry.get("blocks")
        n_blocks = 1 if blocks is None else len(blocks)
        check_count(entry["dim_in"], "dim_in", at_most=MOST_COLUMNS)
        if n_blocks > _MOST_BLOCKS:
            raise InputValueError(
                f"Its columns are repeated in {n_blocks:,} blocks, and may be in {_MOST_BLOCKS}."
            )


def _affine(entry: dict[str, Any], tensors: dict[str, np.ndarray]) -> Affine:
    key = f"{entry['modality']}.{entry['role']}"
    parts = {part: tensors[f"{key}.{part}"] for part in entry["parts"]}
    return Affine(
        dim_in=entry["dim_in"],
        matrix=parts.get("matrix"),
        scale=float(entry["scale"]),
        offset=parts.get("offset"),
        renormalise=bool(entry["renormalise"]),
        blocks=entry["blocks"],
        normalise=bool(entry["normalise"]),
    )
