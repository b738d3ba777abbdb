"""A correction: affine maps keyed by modality and role, kept in one small file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from modgap._tensors import read_tensors, write_tensors
from modgap._validate import (
    Array,
    InputError,
    InputValueError,
    check_choice,
    check_modalities,
    require,
)
from modgap.corrections.affine import Affine

Role = Literal["document", "query"]
Metric = Literal["cosine", "inner_product", "euclidean"]
ROLES = ("document", "query")
METRICS = ("cosine", "inner_product", "euclidean")


@dataclass(frozen=True, eq=False)
class Correction:
    """Maps for the documents of each modality, and for its queries where those differ.

    ``maps`` is keyed by (modality name, role); a missing query map means the document map.
    ``metric`` is the one its rankings are meant for. ``about`` says how it came to be: method,
    parameters, rows it was fitted on and a hash of their means, the model's name if given.
    """

    names: tuple[str, ...]
    maps: Mapping[tuple[str, str], Affine]
    metric: Metric = "cosine"
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_modalities(self.names))
        check_choice(self.metric, "metric", METRICS)
        for name, role in self.maps:
            check_choice(name, "modality", self.names)
            check_choice(role, "role", ROLES)
        for name in self.names:
            if (name, "document") not in self.maps:
                raise InputValueError(f"A correction needs a document map for {name!r}.")
        if len({m.dim_in for m in self.maps.values()}) > 1:
            raise InputValueError("All maps of a correction must take rows of one dimension.")
        if len({m.dim_out for m in self.maps.values()}) > 1:
            raise InputValueError("All maps of a correction must give rows of one dimension.")

    @classmethod
    def identity(
        cls, dim: int, names: tuple[str, ...] = ("image", "text"), **more: Any
    ) -> Correction:
        """The correction that changes nothing."""
        return cls(names, {(name, "document"): Affine(dim) for name in names}, **more)

    @property
    def dim_in(self) -> int:
        """Number of columns of the rows it takes."""
        return next(iter(self.maps.values())).dim_in

    @property
    def dim_out(self) -> int:
        """Number of columns of the rows it gives."""
        return next(iter(self.maps.values())).dim_out

    def map(self, modality: str, role: Role = "document") -> Affine:
        """The map for a modality in a role."""
        check_choice(modality, "modality", self.names)
        check_choice(role, "role", ROLES)
        return self.maps.get((modality, role), self.maps[modality, "document"])

    def apply(self, rows: Array, modality: str, role: Role = "document") -> Array:
        """Corrected rows of one modality."""
        return self.map(modality, role)(rows, modality)

    def x(self, rows: Array, role: Role = "document") -> Array:
        """Corrected rows of the first modality."""
        return self.apply(rows, self.names[0], role)

    def y(self, rows: Array, role: Role = "document") -> Array:
        """Corrected rows of the second modality."""
        return self.apply(rows, self.names[1], role)

    @property
    def roles_differ(self) -> bool:
        """Whether a query is mapped differently from a document of its modality."""
        return any(self.map(n, "query") is not self.map(n, "document") for n in self.names)

    def then(self, second: Correction) -> Correction:
        """The correction that applies this one first and ``second`` after it."""
        if second.names != self.names:
            raise InputValueError(
                f"Corrections can follow each other when they name the same modalities, "
                f"got {self.names} and {second.names}."
            )
        keys = [(name, role) for name in self.names for role in ROLES]
        both = self.roles_differ or second.roles_differ
        maps = {
            key: self.map(*key).then(second.map(*key))  # type: ignore[arg-type]
            for key in keys
            if both or key[1] == "document"
        }
        about = {"method": "Chain", "steps": [dict(self.about), dict(second.about)]}
        return Correction(self.names, maps, second.metric, about)

    def inverse(self) -> Correction:
        """The correction that takes rows back, where there is one."""
        maps = {key: affine.inverse() for key, affine in self.maps.items()}
        return Correction(
            self.names, maps, self.metric, {"method": "Inverse", "of": dict(self.about)}
        )

    def to_torch(self) -> Any:
        """An ``nn.Module``: ``module(rows, modality, role="document")``."""
        require("torch", "torch", "Correction.to_torch")
        from modgap.corrections.module import CorrectionModule

        return CorrectionModule(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with JSON metadata, in one step."""
        tensors, maps = {}, []
        for (name, role), affine in self.maps.items():
            entry: dict[str, Any] = {
                "modality": name,
                "role": role,
                "dim_in": affine.dim_in,
                "scale": affine.scale,
                "renormalise": affine.renormalise,
                "blocks": affine.blocks,
                "parts": [],  # so that a lost tensor is not taken for an identity
            }
            for part in ("matrix", "offset"):
                value = getattr(affine, part)
                if value is not None:
                    entry["parts"].append(part)
                    tensors[f"{name}.{role}.{part}"] = value
            maps.append(entry)
        header = {
            "names": self.names,
            "metric": self.metric,
            "dim_in": self.dim_in,
            "dim_out": self.dim_out,
            "maps": maps,
            "about": dict(self.about),
        }
        write_tensors(path, "correction", tensors, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Correction:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        header, tensors = read_tensors(path, "correction")
        try:
            maps = {
                (entry["modality"], entry["role"]): _affine(entry, tensors)
                for entry in header["maps"]
            }
            return cls(tuple(header["names"]), maps, header["metric"], header["about"])
        except InputError as error:
            raise InputValueError(f"{path} is not a whole correction. {error}") from error
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise InputValueError(f"{path} is not a whole correction: {error!r}.") from error


def _affine(entry: dict[str, Any], tensors: dict[str, np.ndarray]) -> Affine:
    key = f"{entry['modality']}.{entry['role']}"
    parts = {part: tensors[f"{key}.{part}"] for part in entry["parts"]}
    return Affine(
        dim_in=int(entry["dim_in"]),
        matrix=parts.get("matrix"),
        scale=float(entry["scale"]),
        offset=parts.get("offset"),
        renormalise=bool(entry["renormalise"]),
        blocks=entry.get("blocks"),
    )
