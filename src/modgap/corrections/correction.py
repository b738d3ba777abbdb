"""A correction: affine maps keyed by modality and role, kept in one small file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import (
    Array,
    InputError,
    InputValueError,
    check_all_finite,
    check_choice,
    check_count,
    check_modalities,
    require,
)
from modgap.core.door import check_rows
from modgap.core.limits import MOST_COLUMNS
from modgap.core.results import Brief, changed, unchecked
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.core.text import same_text
from modgap.corrections.affine import Affine, check_maps, slope, without_last
from modgap.corrections.background import Background
from modgap.corrections.hubs import HubMap, Hubs
from modgap.moments import RowMoments

Role = Literal["document", "query"]
Metric = Literal["cosine", "inner_product", "euclidean"]
ROLES = ("document", "query")
# A file that claims more was not written by modgap: one block is one query modality's.
_MOST_NAMES, _MOST_BLOCKS = 1_000, 64
METRICS = ("cosine", "inner_product", "euclidean")


@dataclass(frozen=True, eq=False)
class FittedRows(Brief):
    """How many rows of a modality there were, and the mean and variance of each feature.

    Of the rows at unit length where the correction's maps bring them there, else as given. The
    ``covariance`` of query rows is kept where the map of a further modality takes it.
    """

    n: int
    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_all_finite(self.mean, "The mean of the fitted rows")
        check_all_finite(self.variance, "The variance of the fitted rows")
        if self.covariance is not None:
            check_all_finite(self.covariance, "The covariance of the fitted rows")
            if self.covariance.shape != (len(self.mean),) * 2:
                raise InputValueError(
                    f"The covariance of rows of {len(self.mean)} columns must be square, got shape "
                    f"{self.covariance.shape}."
                )

    @classmethod
    def of_each(
        cls, moments: Mapping[str, RowMoments], spreads: Collection[str] = ()
    ) -> dict[str, FittedRows]:
        """Those of every modality, with the covariance of those in ``spreads``.

        Nothing where only means were gathered.
        """
        if any(rows.scatter is None for rows in moments.values()):
            return {}
        return {
            name: unchecked(
                cls,
                n=rows.n,
                mean=to_numpy(rows.mean),
                variance=to_numpy(rows.variance),
                covariance=to_numpy(rows.covariance) if name in spreads else None,
            )
            for name, rows in moments.items()
        }

    def tensors(self, prefix: str) -> dict[str, np.ndarray]:
        """Its arrays, named for a file; of the covariance one half, in single precision."""
        held = {f"{prefix}.mean": self.mean, f"{prefix}.variance": self.variance}
        if self.covariance is not None:
            half = self.covariance[np.tril_indices(len(self.mean))]
            held[f"{prefix}.covariance"] = half.astype(np.float32)
        return held

    @classmethod
    def read(cls, n: int, prefix: str, tensors: Mapping[str, np.ndarray]) -> FittedRows:
        """What ``tensors`` gave."""
        mean, half = tensors[f"{prefix}.mean"], tensors.get(f"{prefix}.covariance")
        whole = None
        if half is not None:
            whole = np.zeros((len(mean),) * 2)
            whole[np.tril_indices(len(mean))] = half
            whole = whole + np.tril(whole, -1).T
        return cls(n, mean, tensors[f"{prefix}.variance"], whole)


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
            self._check_hubs(self.hubs)
        if self.background is not None and {*self.background.lists} != {*self.names}:
            raise InputValueError(
                f"A background must have a list for {' and '.join(self.names)}, got "
                f"{' and '.join(self.background.lists)}."
            )

    def _check_hubs(self, hubs: Hubs) -> None:
        if self.metric != "inner_product":
            raise InputValueError(
                f"Hubs are ranked by inner product, and this correction by {self.metric}."
            )
        if len(self.queries) > 1:
            raise InputValueError(
                "Hubs serve one query modality, and this correction serves "
                f"{' and '.join(self.queries)} queries. Make one for each."
            )
        columns = self.affine(self.names[0]).dim_out
        if hubs.bank is not None and hubs.bank.shape[1] != columns:
            raise InputValueError(
                f"The bank must have the {columns} columns of the mapped queries, got "
                f"{hubs.bank.shape[1]}."
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
        if not bank:
            return self.without_bank().save(path)
        tensors: dict[str, np.ndarray] = {}
        maps = []
        for (name, role), affine in self.maps.items():
            held = {"matrix": affine.matrix, "offset": affine.offset}
            known = {part: value for part, value in held.items() if value is not None}
            tensors |= {f"{name}.{role}.{part}": value for part, value in known.items()}
            numbers = ("dim_in", "scale", "renormalise", "blocks", "normalise")
            entry = {"modality": name, "role": role} | {n: getattr(affine, n) for n in numbers}
            # The parts are named, so that a lost tensor is not taken for an identity.
            maps.append(entry | {"parts": [*known]})
        for part in ("fitted", "fitted_queries"):
            for name, rows in getattr(self, part).items():
                tensors |= rows.tensors(f"{name}.{part}")
        header = {
            "names": self.names,
            "metric": self.metric,
            "queries": self.queries,
            "fitted": {name: rows.n for name, rows in self.fitted.items()},
            "fitted_queries": {name: rows.n for name, rows in self.fitted_queries.items()},
            "demands": str(self),
            "dim_in": self.dim_in,
            "dim_out": self.dim_out,
            "maps": maps,
            "about": dict(self.about),
        }
        for part in ("hubs", "background"):
            if (value := getattr(self, part)) is not None:
                tensors |= value.tensors()
                header[part] = value.header()
        write_tensors(path, "correction", tensors, header)
        return None

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
        header, tensors = read_tensors(path, "correction")
        try:
            _check_counts(header)
            maps = {
                (entry["modality"], entry["role"]): _affine(entry, tensors)
                for entry in header["maps"]
            }
            fitted, fitted_queries = (
                {
                    name: FittedRows.read(int(n), f"{name}.{part}", tensors)
                    for name, n in header[part].items()
                }
                for part in ("fitted", "fitted_queries")
            )
            hubs, background = header.get("hubs"), header.get("background")
            return cls(
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


def fingerprint(
    correction: Correction, role: Role = "document", names: Sequence[str] | None = None
) -> str:
    """Tells whether two corrections store documents alike: document maps, metric and hubs.

    That of a correction whose bank was removed is another: it stores no documents. With ``role``
    "query", whether they map queries alike; with ``names`` only maps of these modalities count.
    """
    digest = hashlib.sha256(correction.metric.encode())
    for name in correction.names if names is None else names:
        affine = correction.affine(name, role)
        for one in dataclasses.fields(affine):
            value = getattr(affine, one.name)
            is_array = isinstance(value, np.ndarray)
            digest.update(f"{name}.{one.name}={None if is_array else value!r};".encode())
            digest.update(np.ascontiguousarray(value, "<f8").tobytes() if is_array else b"")
    if correction.hubs is not None:
        digest.update(json.dumps(correction.hubs.header()).encode())
        for name, tensor in correction.hubs.tensors().items():
            kind = "<f2" if name == "hubs.bank" else "<i8"
            digest.update(np.ascontiguousarray(tensor, kind).tobytes())
    return digest.hexdigest()


def query_modalities(
    queries: str | Sequence[str] | None,
    names: Sequence[str],
    correction: Correction | None = None,
    *,
    default: Literal["text", "all"] = "text",
) -> tuple[str, ...]:
    """The query modalities, in the order of ``names``.

    >>> query_modalities(None, ("image", "text")), query_modalities("both", ("image", "text"))
    (('text',), ('image', 'text'))

    Parameters
    ----------
    queries : str or several, optional
        A modality, several, "both" of two, or "all".
    names : sequence of str
        The modalities there are.
    correction : Correction, optional
        It must serve them; where none are named, they are all that it serves.
    default : {"text", "all"}
        Which they are where neither says so. Text must then be one of the names.
    """
    if queries is None or len(queries) == 0:
        if correction is not None:
            return correction.queries
        if default == "all":
            return tuple(names)
        if "text" in names:
            return ("text",)
        raise InputValueError(
            f"Say which modality the queries are of (queries=…, --queries): {' or '.join(names)}. "
            "Only a modality called text is the default."
        )
    if queries == "both" and "both" not in names and len(names) != 2:
        raise InputValueError(
            f"queries both is for two modalities, got {len(names)}: {', '.join(names)}. Say all."
        )
    named = [queries] if isinstance(queries, str) else list(queries)
    if queries in ("both", "all") and queries not in names:
        named = list(names)
    for name in named:
        check_choice(name, "queries", tuple(names))
        if correction is not None:
            correction.check_serves(name)
    return tuple(name for name in names if name in named)


def one_query_modality(queries: str | None, correction: Correction) -> str:
    """The one modality whose queries are meant; to be named where the correction serves several."""
    asking = query_modalities(queries, correction.names, correction)
    if len(asking) > 1:
        raise InputValueError(
            f"This correction serves {' and '.join(asking)} queries. Choose with --queries (in "
            "Python, queries=…)."
        )
    return asking[0]
