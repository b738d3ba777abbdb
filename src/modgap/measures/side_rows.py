"""Rows that several measures look at: what they share is computed once, from as few products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from modgap.arrays import (
    CosineExponentials,
    CosineSpread,
    as_float,
    half_product_pass,
    is_unit,
    namespace,
    product_pass,
    row_norms,
    unit,
)
from modgap.core.checks import Array
from modgap.core.memory import give_back
from modgap.measures.cone import Cone, cone_from
from modgap.measures.conformity import EstimatedConformity, conformity_of_unit, estimate_from
from modgap.measures.ellipsoid import Shell, shell_from
from modgap.measures.gap import Leads
from modgap.measures.loss import (
    LossTerms,
    SoftAssignments,
    assignments_from,
    assignments_of_pairs,
    logits_of,
    terms_of_logits,
)
from modgap.measures.uniformity import uniformity_from
from modgap.moments import Moments


@dataclass(eq=False)
class SideRows:
    """Rows of one modality, with their moments, and what several measures share."""

    rows: Array
    moments: Moments

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.rows.shape[0])

    @cached_property
    def unit(self) -> Array:
        """The rows at unit length."""
        return as_float(self.rows) if is_unit(self.rows) else unit(self.rows)

    @cached_property
    def lengths(self) -> Array:
        """Norm of each row."""
        return row_norms(self.rows)

    @cached_property
    def several(self) -> bool:
        """Whether there are rows that differ."""
        return self.n >= 2 and bool(namespace(self.rows).any(self.rows != self.rows[:1]))

    @cached_property
    def conformity(self) -> Array:
        """Conformity of each row; for two rows at least."""
        return conformity_of_unit(self.unit, self.moments.unit_rows())

    @cached_property
    def shell(self) -> Shell:
        """Their shell, where there are several."""
        return shell_from(self.rows, self.moments.given)

    def forget_unit(self) -> None:
        """Give the unit rows back; what was made of them stays, and they are made again if asked.

        Large samples of half precision take twice their own memory at unit length.
        """
        self.__dict__.pop("unit", None)

    def estimated_conformity(self) -> EstimatedConformity:
        """How well the cosine to the mean stands for conformity."""
        return estimate_from(
            self.unit, self.lengths, self.moments.given.mean, self.shell.radius, self.conformity
        )

    def cone_and_uniformity(self) -> tuple[Cone, float]:
        """From one pass over half of the cosines; for two rows at least."""
        spread, exponentials = CosineSpread(self.unit), CosineExponentials(self.unit)
        half_product_pass(self.unit, [spread, exponentials])
        return cone_from(self.moments, spread.result()), uniformity_from(exponentials, self.n)


def products_of_pairs(
    X: SideRows, Y: SideRows, temperature: float
) -> tuple[LossTerms, float | None, SoftAssignments]:
    """Loss and margin of the cosines, and the soft assignments of the rows as given.

    A single pair has no margin. Two passes over the product of unit rows serve all; of other rows
    the soft assignments have two of their own.
    """
    U, V = X.unit, Y.unit
    losses = logits_of(U, V, temperature)
    leads = Leads(U, V) if X.n >= 2 else None
    consumers: list[Any] = [losses] if leads is None else [losses, leads]
    logits = None
    if is_unit(X.rows) and is_unit(Y.rows):
        logits = logits_of(U, V, temperature, "squared_distance")
        consumers.append(logits)
    product_pass(U, V, consumers)
    terms, smallest = terms_of_logits(losses), leads.smallest() if leads else None
    if logits is not None:
        return terms, smallest, assignments_from(U, V, logits)
    del U, V, losses, leads, consumers  # other rows are multiplied now
    for side in (X, Y):
        side.forget_unit()
    give_back()
    return terms, smallest, assignments_of_pairs(X.rows, Y.rows, temperature)
