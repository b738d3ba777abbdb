"""A correction: affine maps keyed by modality and role, kept in one small file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from modgap.core.checks import Array, InputValueError, check_choice, check_modalities, require
from modgap.core.door import check_rows
from modgap.core.results import Brief, changed
from modgap.core.text import same_text
from modgap.corrections.affine import Affine, check_maps, slope, without_last
from modgap.corrections.background import Background
from modgap.corrections.fitted_rows import FittedRows
from modgap.corrections.hubs import HubMap, Hubs

Role = Literal["document", "query"]
Metric = Literal["cosine", "inner_product", "euclidean"]
ROLES = ("document", "query")
METRICS = ("cosine", "inner_product", "euclidean")


@dataclass(frozen=True, eq=False)
class Correction(Brief):
    """Maps for the documents of each modality, and for its queries where those differ.

    ``maps`` is keyed by (modality name, role); a missing query map means the document map.
    ``metric`` is the one its rankings are meant for. ``queries`` are the modalities whose queries
    it serves; all of them when left out. ``about`` says how it came to be: method, parameters,
    rows it was fitted on and a hash of their means, the model's name if given. ``fitted`` holds
    the mean and variance of the rows of each modality that it was fitted on, ``fitted_queries``
    those of its queries where these are not its documents. With ``hubs`` documents and queries
    have one more column, see `modgap.corrections.hubs`. With a ``background`` the results of each
    modality are merged by expected wrong results, see `modgap.corrections.background`.

    ``print(correction)`` says what it demands: columns, metric, and what to do with queries.
    """

    names: tuple[str, ...]
    maps: Mapping[tuple[str, str], Affine]
    metric: Metric = "cosine"
    about: Mapping[str, Any] = field(default_factory=dict)
    queries: tuple[str, ...] = ()
    fitted: Mapping[str, FittedRows] = field(default_factory=dict)
    fitted_queries: Mapping[str, FittedRows] = field(default_factory=dict)
    hubs: Hubs | None = None
    background: Background | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_modalities(self.names))
        maps = {(same_text(name), role): affine for (name, role), affine in self.maps.items()}
        object.__setattr__(self, "maps", maps)
        for part in ("fitted", "fitted_queries"):
            known = {same_text(name): rows for name, rows in getattr(self, part).items()}
            object.__setattr__(self, part, known)
        check_choice(self.metric, "metric", METRICS)
        asking = (self.queries,) if isinstance(self.queries, str) else self.queries
        asking = tuple(same_text(name) for name in asking)
        mapped, roles = zip(*self.maps, strict=True) if self.maps else ((), ())
        for name in {*asking, *mapped, *self.fitted, *self.fitted_queries} - {*self.names}:
            check_choice(name, "modality", self.names)
        for role in {*roles} - {*ROLES}:
            check_choice(role, "role", ROLES)
        served = tuple(name for name in self.names if name in asking)
        object.__setattr__(self, "queries", served or self.names)
        for name in self.names:
            if (name, "document") not in self.maps:
                raise InputValueError(f"A correction needs a document map for {name!r}.")
        by_role = {
            role: {name: one for (name, own), one in self.maps.items() if own == role}
            for role in ROLES
        }
        check_maps(*(maps.values() for maps in by_role.values()))
        for role, fitted in (("document", self.fitted), ("query", self.fitted_queries)):
            for name, rows in fitted.items():
                dim = by_role[role].get(name, by_role["document"][name]).dim_in
                if not rows.mean.shape == rows.variance.shape == (dim,):
                    raise InputValueError(
                        f"The mean and variance of {name} must be ({dim},), got shapes "
                        f"{rows.mean.shape} and {rows.variance.shape}."
                    )
        if self.hubs is not None:
            self.hubs.check_fits(self.metric, self.queries, self.affine(self.names[0]).dim_out)
        if self.background is not None and {*self.background.lists} != {*self.names}:
            raise InputValueError(
                f"A background must have a list for {' and '.join(self.names)}, got "
                f"{' and '.join(self.background.lists)}."
            )

    def _brief(self) -> str:
        from modgap.corrections.wording import METRIC_NAMES, label

        return (
            f"{label(self)}, for {' and '.join(self.queries)} queries, {self.dim_in} → "
            f"{self.dim_out} columns, rank by {METRIC_NAMES[self.metric]}"
        )

    @classmethod
    def identity(
        cls, dim: int, names: tuple[str, ...] = ("image", "text"), **more: Any
    ) -> Correction:
        """The correction that changes nothing."""
        return cls(names, {(name, "document"): Affine.fitted(dim) for name in names}, **more)

    @property
    def dim_in(self) -> int:
        """Number of columns of the rows it takes."""
        return next(iter(self.maps.values())).dim_in

    @property
    def dim_out(self) -> int:
        """Number of columns of the rows it gives."""
        return next(iter(self.maps.values())).dim_out + (self.hubs is not None)

    def map(self, modality: str, role: Role = "document") -> Affine | HubMap:
        """The map for a modality in a role; refused for queries that are not served."""
        affine = self.affine(modality, role)
        return affine if self.hubs is None else HubMap(affine, self.hubs, role == "query")

    def affine(self, modality: str, role: Role = "document") -> Affine:
        """The map without the column of hubs."""
        served = {"document": self.names, "query": self.queries}.get(role, ())
        if modality not in served:  # or in another spelling, which has the same letters
            check_choice(role, "role", ROLES)
            modality = check_choice(modality, "modality", self.names)
            if role == "query":
                self.check_serves(modality)
        return self.maps.get((modality, role), self.maps[modality, "document"])

    def check_serves(self, modality: str) -> None:
        """Refuse queries of a modality that the correction was not made for."""
        if same_text(modality) not in self.queries:
            raise InputValueError(
                f"This correction serves {' and '.join(self.queries)} queries, not {modality} "
                f"queries. Make one that does: modgap fit … --queries {modality} "
                f"(in Python, fit(X, Y, queries={modality!r}))."
            )

    def apply(
        self,
        rows: Array,
        modality: str,
        role: Role = "document",
        keys: np.ndarray | None = None,
    ) -> Array:
        """Corrected rows of one modality, which may be an array, a tensor, a path or a table.

        ``keys`` of documents (``Modalities.keys_of``) leave bank rows of their own group out of
        their hubness; only a correction with hubs looks at them. All the rows that it was fitted on
        are recognised, and need none where they were paired row by row.
        """
        row_map = self.map(modality, role)
        rows = check_rows(rows, modality)
        row_map.check_columns(rows)
        if role == "document" and keys is None and self.hubs is not None:
            from modgap.corrections.bank import keys_of_fitted_rows

            keys = keys_of_fitted_rows(self, rows, modality)
        return row_map.mapped(rows, modality, keys=keys)

    def x(self, rows: Array, role: Role = "document") -> Array:
        """Corrected rows of the first modality."""
        return self.apply(rows, self.names[0], role)

    def y(self, rows: Array, role: Role = "document") -> Array:
        """Corrected rows of the second modality."""
        return self.apply(rows, self.names[1], role)

    @property
    def roles_differ(self) -> bool:
        """Whether a query is mapped differently from a document of its modality."""
        return self.hubs is not None or any(
            self.affine(name, "query") is not self.affine(name) for name in self.queries
        )

    @property
    def query_model(self) -> str:
        """The model of the queries, where it is another one than that of the documents, else ""."""
        return str(self.about.get("query_model") or "")

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
        if self.hubs is not None and self.hubs.weight:
            return False
        maps = self.maps.values()
        if self.metric == "inner_product":
            return all(self.slope(asks, held) for asks in self.queries for held in self.names)
        if not all(affine.keeps_directions for affine in maps):
            return False
        lengths = {(affine.scale, affine.normalise, affine.renormalise) for affine in maps}
        return self.metric == "cosine" or len(lengths) == 1

    def slope(self, asking: str, held: str) -> float | None:
        """The multiple a where corrected inner products are a · s + b, s the raw score.

        b is the ``level``; it may depend on the query, and neither depends on the document. None
        where the score of queries of ``asking`` on documents of ``held`` is no positive multiple
        plus a constant.
        """
        hubs = self.hubs is not None and self.hubs.weight
        return None if hubs else slope(self.affine(held), self.affine(asking, "query"))

    def level(self, asking: str, held: str) -> tuple[np.ndarray, float]:
        """Weights w and constant c: a query q scores q · w + c on a document at the origin.

        It is the b of ``slope``. q has unit length where the query map brings it there.
        """
        offset = self.affine(held).dense().offset
        asked = self.affine(asking, "query").dense()
        if offset is None:
            return np.zeros(asked.dim_in), 0.0
        weights = offset if asked.matrix is None else offset @ asked.matrix
        return weights, 0.0 if asked.offset is None else float(offset @ asked.offset)

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
        if self.hubs is not None:
            raise InputValueError(
                "A correction with a column of hubs can only be the last. Apply the other first."
            )
        keys = [(name, "document") for name in self.names]
        if self.roles_differ or second.roles_differ:
            keys += [(name, "query") for name in asking]
        maps = {
            key: self.affine(*key).then(second.affine(*key))  # type: ignore[arg-type]
            for key in keys
        }
        about = {"method": "Chain", "steps": [dict(self.about), dict(second.about)]}
        return Correction(
            self.names, maps, second.metric, about, asking, self.fitted, self.fitted_queries,
            second.hubs, second.background,
        )  # fmt: skip

    def inverse(self) -> Correction:
        """The correction that takes rows back, where there is one.

        They come back at unit length where the correction brought them there. A column of hubs is
        dropped.
        """
        maps = {key: affine.inverse() for key, affine in self.maps.items()}
        if self.hubs is not None:
            maps = {key: without_last(affine) for key, affine in maps.items()}
        about = {"method": "Inverse", "of": dict(self.about)}
        return Correction(self.names, maps, self.metric, about, self.queries)

    def _repr_html_(self) -> str:
        from modgap.corrections.wording import correction_html

        return correction_html(self)

    def __str__(self) -> str:
        from modgap.corrections.wording import demands

        return "\n".join(demands(self))

    def to_torch(self) -> Any:
        """An ``nn.Module``: ``module(rows, modality, role="document")``."""
        require("torch", "torch", "Correction.to_torch")
        from modgap.corrections.module import CorrectionModule

        return CorrectionModule(self)

    def without_bank(self) -> Correction:
        """The same without the bank of queries, for those who may not see them.

        It maps queries as before, and refuses documents.
        """
        return self if self.hubs is None else changed(self, hubs=self.hubs.without_bank())

    def save(self, path: str | os.PathLike[str], *, bank: bool = True) -> None:
        """Write one safetensors file with JSON metadata, in one step.

        ``bank=False`` leaves the bank of queries out, once all documents have their column of
        hubs; see ``without_bank``.
        """
        from modgap.corrections.correction_file import write_correction

        write_correction(self if bank else self.without_bank(), path)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, revision: str | None = None
    ) -> Correction:
        """A correction that ships with modgap, of a folder, or of the Hugging Face Hub.

        Only ``correction.safetensors`` and the card are read, and no code is run.

        Parameters
        ----------
        name : str or path
            Such as ``modgap/clip-vit-b-32-captions``, which ships with modgap and needs no
            network; a folder that ``save_pretrained`` wrote; or owner/name on the hub.
        revision : str, optional
            The commit, where the correction is on the hub: it can then not change, and is read
            from the hub's cache without a network.
        """
        from modgap.corrections.hub import read_pretrained

        return read_pretrained(name, revision)

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        judged: object = None,
        model: str = "",
        data: str = "",
        licence: str = "",
        bank: bool = True,
    ) -> None:
        """Write the correction and its card into a folder.

        Parameters
        ----------
        folder : path
            One that is there, or a new one.
        judged : Diagnosis, Evaluation or str, optional
            The verdict and metrics, which the card prints.
        model, data, licence : str, optional
            What embedded the rows, what they were, and who may use the correction.
        bank : bool
            False leaves the bank of queries out; see ``without_bank``.
        """
        from modgap.corrections.hub import card_of, write_pretrained

        name = os.path.basename(os.path.abspath(folder))
        card = card_of(self, name, repr(name), judged, model, data, licence)
        write_pretrained(self, folder, bank, card)

    def push_to_hub(
        self,
        name: str,
        *,
        judged: object = None,
        model: str = "",
        data: str = "",
        licence: str = "",
        bank: bool | None = None,
        private: bool | None = None,
    ) -> str:
        """Upload the correction and its card; the commit, to be named as ``revision``.

        Parameters
        ----------
        name : str
            owner/name on the Hugging Face Hub; the repository is made where there is none.
        judged, model, data, licence
            As for ``save_pretrained``.
        bank : bool, optional
            Whether to upload the bank of queries; to be said where there is one.
        private : bool, optional
            Whether a new repository is private; by default as its owner's settings say.
        """
        from modgap.corrections.hub import card_of, upload_pretrained

        opened = f'{name!r}, revision="…"'
        card = card_of(self, name, opened, judged, model, data, licence)
        return upload_pretrained(self, name, bank, private, card)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Correction:
        """Read what ``save`` wrote; nothing in the file is ever executed."""
        from modgap.corrections.correction_file import read_correction

        return read_correction(path)
