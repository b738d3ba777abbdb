"""A correction: affine maps keyed by modality and role, kept in one small file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
from modgap.corrections.fitted import FittedRows

Role = Literal["document", "query"]
Metric = Literal["cosine", "inner_product", "euclidean"]
ROLES = ("document", "query")
METRICS = ("cosine", "inner_product", "euclidean")


@dataclass(frozen=True, eq=False)
class Correction:
    """Maps for the documents of each modality, and for its queries where those differ.

    ``maps`` is keyed by (modality name, role); a missing query map means the document map.
    ``metric`` is the one its rankings are meant for. ``queries`` are the modalities whose queries
    it serves; all of them when left out. ``about`` says how it came to be: method, parameters,
    rows it was fitted on and a hash of their means, the model's name if given. ``fitted`` holds
    the mean and variance of the rows of each modality that it was fitted on.

    ``print(correction)`` says what it demands: columns, metric, and what to do with queries.
    """

    names: tuple[str, ...]
    maps: Mapping[tuple[str, str], Affine]
    metric: Metric = "cosine"
    about: Mapping[str, Any] = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    fitted: Mapping[str, FittedRows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_modalities(self.names))
        check_choice(self.metric, "metric", METRICS)
        asking = (self.queries,) if isinstance(self.queries, str) else self.queries
        for name in (*asking, *self.fitted):
            check_choice(name, "modality", self.names)
        served = tuple(name for name in self.names if name in asking)
        object.__setattr__(self, "queries", served or self.names)
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
        for name, rows in self.fitted.items():
            if not rows.mean.shape == rows.variance.shape == (self.dim_in,):
                raise InputValueError(
                    f"The mean and variance of {name} must be ({self.dim_in},), got shapes "
                    f"{rows.mean.shape} and {rows.variance.shape}."
                )

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
        """The map for a modality in a role; refused for queries that are not served."""
        check_choice(modality, "modality", self.names)
        if check_choice(role, "role", ROLES) == "query":
            self.check_serves(modality)
        return self.maps.get((modality, role), self.maps[modality, "document"])

    def check_serves(self, modality: str) -> None:
        """Refuse queries of a modality that the correction was not made for."""
        if modality not in self.queries:
            raise InputValueError(
                f"This correction serves {' and '.join(self.queries)} queries, not {modality} "
                f"queries. Make one that does: modgap fit … --queries {modality} "
                f"(in Python, fit(X, Y, queries={modality!r}))."
            )

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
        return any(self.map(n, "query") is not self.map(n, "document") for n in self.queries)

    @property
    def unit_rows(self) -> bool:
        """Whether rows are brought to unit length first, so that their lengths do not matter."""
        return all(affine.normalise for affine in self.maps.values())

    @cached_property
    def keeps_rankings(self) -> bool:
        """Whether every ranking within a modality is that of the rows as they are.

        Read from the maps: the corrected score of a query on the documents of a modality is then a
        positive multiple of the raw one plus a constant. Raw scores are by the same metric, of
        unit rows where the maps bring rows to unit length first.
        """
        maps = self.maps.values()
        if self.metric == "inner_product":
            return all(self.slope(asks, held) for asks in self.queries for held in self.names)
        if not all(affine.keeps_directions for affine in maps):
            return False
        lengths = {(affine.scale, affine.normalise, affine.renormalise) for affine in maps}
        return self.metric == "cosine" or len(lengths) == 1

    def slope(self, asking: str, held: str) -> float | None:
        """The multiple a where corrected inner products are a · s + b, s the raw score.

        b may depend on the query, and neither depends on the document. None where the score of
        queries of ``asking`` on documents of ``held`` is no positive multiple plus a constant.
        """
        return _slope(self.map(held), self.map(asking, "query"))

    def then(self, second: Correction) -> Correction:
        """The correction that applies this one first and ``second`` after it."""
        if second.names != self.names:
            raise InputValueError(
                f"Corrections can follow each other when they name the same modalities, "
                f"got {self.names} and {second.names}."
            )
        asking = tuple(name for name in self.queries if name in second.queries)
        if not asking:
            raise InputValueError(
                f"The corrections serve no queries in common: {' and '.join(self.queries)}, then "
                f"{' and '.join(second.queries)}."
            )
        keys = [(name, "document") for name in self.names]
        if self.roles_differ or second.roles_differ:
            keys += [(name, "query") for name in asking]
        maps = {
            key: self.map(*key).then(second.map(*key))  # type: ignore[arg-type]
            for key in keys
        }
        about = {"method": "Chain", "steps": [dict(self.about), dict(second.about)]}
        return Correction(self.names, maps, second.metric, about, asking, self.fitted)

    def inverse(self) -> Correction:
        """The correction that takes rows back, where there is one.

        They come back at unit length where the correction brought them there.
        """
        maps = {key: affine.inverse() for key, affine in self.maps.items()}
        about = {"method": "Inverse", "of": dict(self.about)}
        return Correction(self.names, maps, self.metric, about, self.queries)

    def __str__(self) -> str:
        from modgap.corrections.demands import demands

        return "\n".join(demands(self))

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
                "normalise": affine.normalise,
                "parts": [],  # so that a lost tensor is not taken for an identity
            }
            for part in ("matrix", "offset"):
                value = getattr(affine, part)
                if value is not None:
                    entry["parts"].append(part)
                    tensors[f"{name}.{role}.{part}"] = value
            maps.append(entry)
        for name, rows in self.fitted.items():
            tensors[f"{name}.fitted.mean"] = rows.mean
            tensors[f"{name}.fitted.variance"] = rows.variance
        header = {
            "names": self.names,
            "metric": self.metric,
            "queries": self.queries,
            "fitted": {name: rows.n for name, rows in self.fitted.items()},
            "demands": str(self),
            "dim_in": self.dim_in,
            "dim_out": self.dim_out,
            "maps": maps,
            "about": dict(self.about),
        }
        # Version 1 of the format knew neither: it would take rows as given, and any query.
        new = self.queries != self.names or any(m.normalise for m in self.maps.values())
        write_tensors(path, "correction", tensors, header, file_format=2 if new else 1)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Correction:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        header, tensors = read_tensors(path, "correction")
        try:
            maps = {
                (entry["modality"], entry["role"]): _affine(entry, tensors)
                for entry in header["maps"]
            }
            fitted = {
                name: FittedRows(
                    int(n), tensors[f"{name}.fitted.mean"], tensors[f"{name}.fitted.variance"]
                )
                for name, n in header.get("fitted", {}).items()
            }
            return cls(
                tuple(header["names"]), maps, header["metric"], header["about"],
                tuple(header.get("queries", ())), fitted,
            )  # fmt: skip
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
        normalise=bool(entry.get("normalise", False)),
    )


def _slope(stored: Affine, asked: Affine) -> float | None:
    """a > 0 where the product of the mapped rows is a · (q · v) + b(q); else None."""
    if stored.renormalise or asked.renormalise or stored.normalise != asked.normalise:
        return None
    if stored.matrix is None and asked.matrix is None and asked.offset is None:
        factors = zip(stored.blocks or (1.0,), asked.blocks or (1.0,), strict=True)
        slope = stored.scale * asked.scale * sum(a * b for a, b in factors)
        return slope if slope > 0 else None
    stored, asked = stored.dense(), asked.dense()
    matrices = [np.eye(m.dim_in) if m.matrix is None else m.matrix for m in (stored, asked)]
    product = matrices[0].T @ matrices[1]
    slope = float(np.trace(product)) / len(product)
    off = float(np.abs(product - slope * np.eye(len(product))).max())
    # An offset of the query would favour the documents that lie along it.
    favoured = 0.0 if asked.offset is None else float(np.abs(matrices[0].T @ asked.offset).max())
    return slope if slope > 0 and max(off, favoured) <= 1e-9 * slope else None
