"""The same rows by two models, an old and a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputValueError
from modgap.io import Embeddings, Modalities
from modgap.io.id_matches import match_ids

# Pairs that tell whether modalities are swapped; rows of other items must be this much less alike.
_COMPARED, _BY_CHANCE = 500, 2


@dataclass(frozen=True, eq=False)
class BothModels:
    """The same rows by two models, in the same order and groups; widths may differ."""

    old: Modalities
    new: Modalities

    @classmethod
    def of(cls, old: Modalities, new: Modalities) -> BothModels:
        """The rows that both hold: those of equal ids where both have ids, else row by row."""
        if {*old.names} != {*new.names}:
            raise InputValueError(
                "Both models must have embedded the same modalities, got "
                f"{' and '.join(old.names)} of the old one and {' and '.join(new.names)} of the "
                "new one."
            )
        # Queries that are not documents were embedded by one of the models only.
        old = replace(old, asking={}, asking_codes={}, others={})
        rows = {name: _same_rows(side, new.sides[name], name) for name, side in old.sides.items()}
        if all(one is None for one in rows.values()):
            return cls(old, replace(old, sides={name: new.sides[name] for name in old.names}))
        every = {name: np.arange(side.n_rows) for name, side in old.sides.items()}
        chosen = {name: (every[name],) * 2 if one is None else one for name, one in rows.items()}
        kept = old.take([own for own, _ in chosen.values()])
        sides = {name: new.sides[name].subset(other) for name, (_, other) in chosen.items()}
        return cls(kept, replace(kept, sides=sides))

    def with_duplicates_grouped(self) -> BothModels:
        """The same with copies among the rows of the old model as one group."""
        old = self.old.with_duplicates_grouped()
        return BothModels(old, replace(old, sides=self.new.sides))

    def take(self, groups: np.ndarray) -> BothModels:
        """The rows of these groups, in memory."""
        return BothModels(self.old.take_groups(groups), self.new.take_groups(groups))

    def check_not_swapped(self) -> None:
        """Refuse new rows of two modalities that are each more like the other's old rows."""
        for first, second in combinations(self.old.names, 2):
            pair = first, second
            old, new = (
                dict(zip(pair, _matched_rows(model.pair(*pair)), strict=True))
                for model in (self.old, self.new)
            )
            if all(
                _likeness(new[own], old[other])
                > max(
                    _likeness(new[own], old[own]),
                    _BY_CHANCE * _likeness(new[own], np.roll(old[other], 1, axis=0)),
                )
                for own, other in (pair, pair[::-1])
            ):
                raise InputValueError(
                    f"The {first} and {second} rows of the new model may be swapped: each are more "
                    "like the old model's rows of the other. Give both models in one order, or "
                    "name the files (image=PATH,text=PATH)."
                )


def _matched_rows(data: Modalities) -> list[np.ndarray]:
    """Some rows of both modalities that match, less their means."""
    some = np.linspace(0, data.n_groups - 1, min(data.n_groups, _COMPARED)).astype(int)
    rows = (
        to_numpy(side.take(chosen)).astype(np.float64)
        for side, chosen in zip(data.two(), data.matches(some), strict=True)
    )
    return [one - one.mean(axis=0) for one in rows]


def _likeness(X: np.ndarray, Y: np.ndarray) -> float:
    """Linear CKA of centred rows (Kornblith et al. 2019): 1 where one is the other, turned."""
    norms = (np.linalg.norm(one.T @ other) for one, other in ((X, Y), (X, X), (Y, Y)))
    across, of_x, of_y = norms
    return float(across**2 / (of_x * of_y)) if of_x and of_y else 0.0


def _same_rows(old: Embeddings, new: Embeddings, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the rows stand that both models have; None where row i is row i."""
    have_ids = "ids" in old.columns and "ids" in new.columns
    found = match_ids(old, new) if have_ids else None
    if found is not None and any(found.matched):
        if found.codes is None:
            return None
        for codes, model in zip(found.codes, ("old", "new"), strict=True):
            if len(np.unique(codes)) < len(codes):
                raise InputValueError(
                    f"Ids of the {name} rows of the {model} model are not unique, so they cannot "
                    "match the rows of both models. Give both in the same order."
                )
        first, second = found.codes
        _, own, other = np.intersect1d(first, second, return_indices=True)
        order = np.argsort(own)
        return own[order], other[order]
    if old.n_rows != new.n_rows:
        raise InputValueError(
            f"The same {name} rows are needed by both models, got {old.n_rows:,} of the old one "
            f"and {new.n_rows:,} of the new one. Give both in one order, or ids on both sides."
        )
    return None
