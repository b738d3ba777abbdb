"""The corrections the workbench offers: their parameters, and how a request becomes a corrector."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from modgap._validate import InputTypeError, InputValueError, check_choice, check_finite
from modgap.corrections import CORRECTORS, Corrector

# An amount beyond these moves every row to where its modality cannot be told any more.
WIDEST = (-10.0, 10.0)
SHARES = {("OrthogonalShift", "explained_variance"), ("Whiten", "shrinkage")}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: a number within bounds, or one of a few words."""

    name: str
    type: Literal["number", "choice"]
    default: float | str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None

    def check(self, value: Any) -> float | str:
        """The value as the corrector takes it."""
        if self.choices is not None:
            return str(check_choice(value, self.name, self.choices))
        number = check_finite(value, self.name)
        assert self.minimum is not None
        assert self.maximum is not None
        if not self.minimum <= number <= self.maximum:
            raise InputValueError(
                f"{self.name} must be between {self.minimum:g} and {self.maximum:g}, "
                f"got {number:g}."
            )
        return number


@dataclass(frozen=True)
class Method:
    """One kind of correction."""

    name: str
    summary: str
    needs_pairs: bool
    parameters: tuple[Parameter, ...]

    def make(self, given: Mapping[str, Any]) -> Corrector:
        """An unfitted corrector with these parameters, the others at their defaults."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise InputValueError(
                    f"{self.name} has no parameter {name!r}. Its parameters are: {listed}."
                )
        return _KINDS[self.name](**{name: known[name].check(v) for name, v in given.items()})


def make_corrector(method: str, parameters: Mapping[str, Any]) -> Corrector:
    """An unfitted corrector from its name and parameters."""
    if not isinstance(parameters, Mapping):
        raise InputTypeError("parameters must be an object of names and values.")
    return METHODS[check_choice(method, "method", tuple(METHODS))].make(parameters)


def _describe(kind: type[Corrector]) -> Method:
    hints = get_type_hints(kind.__init__)
    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    parameters = tuple(
        _parameter(kind.__name__, p.name, hints[p.name], p.default)
        for p in inspect.signature(kind).parameters.values()
    )
    return Method(kind.__name__, summary, kind.needs_pairs, parameters)


def _parameter(kind: str, name: str, hint: Any, default: Any) -> Parameter:
    if get_origin(hint) is Literal:
        return Parameter(name, "choice", default, choices=get_args(hint))
    low, high = (0.0, 1.0) if (kind, name) in SHARES else WIDEST
    return Parameter(name, "number", float(default), low, high)


_KINDS: Mapping[str, type[Corrector]] = {kind.__name__: kind for kind in CORRECTORS}
METHODS: Mapping[str, Method] = {name: _describe(kind) for name, kind in _KINDS.items()}
