"""The correctors by name: what each takes, and how a name and its settings become one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from modgap.core.checks import InputTypeError, InputValueError, check_choice, check_finite
from modgap.corrections.base import Corrector
from modgap.corrections.calibrate import Calibrate
from modgap.corrections.correction import Correction
from modgap.corrections.correctors import (
    Center,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.corrections.expected_wrong import ExpectedWrong
from modgap.corrections.query_names import query_modalities
from modgap.io import Modalities

CORRECTORS: tuple[type[Corrector], ...] = (
    Calibrate,
    Center,
    Shift,
    OriginShift,
    OrthogonalShift,
    Whiten,
    Procrustes,
    ExpectedWrong,
)
# An amount beyond these moves every row to where its modality cannot be recognised any more.
_WIDEST = (-10.0, 10.0)
_SHARES = {
    ("OrthogonalShift", "explained_variance"),
    ("Whiten", "shrinkage"),
    ("Calibrate", "hubs"),
    ("ExpectedWrong", "hubs"),
}
_MOST_NEIGHBOURS = 1_000
# How much of the hubness is subtracted where a bank is given and nothing else is said.
_HUBS = 0.5


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: a number within bounds, or one of a few words."""

    name: str
    type: Literal["number", "choice"]
    default: float | int | str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None

    def check(self, value: Any) -> float | int | str:
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
        if isinstance(self.default, int):
            if number != round(number):
                raise InputValueError(f"{self.name} must be a whole number, got {number:g}.")
            return int(number)
        return number


@dataclass(frozen=True)
class Method:
    """One kind of correction."""

    name: str
    summary: str
    needs_pairs: bool
    parameters: tuple[Parameter, ...]

    @property
    def option(self) -> str:
        """The name on the command line: ``orthogonal-shift`` for ``OrthogonalShift``."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.name).lower()


def make_corrector(method: str, parameters: Mapping[str, Any]) -> Corrector:
    """An unfitted corrector from its name and parameters, the others at their defaults.

    The name is that of the class, or the one of the command line.

    >>> make_corrector("origin-shift", {"amount": 0.5})
    OriginShift(amount=0.5)
    """
    if not isinstance(parameters, Mapping):
        raise InputTypeError("parameters must be an object of names and values.")
    options = {found.option: name for name, found in METHODS.items()}
    names = {name: name for name in METHODS}
    # Names in small letters get those of the command line as advice.
    known_names = options if str(method).islower() else names
    name = known_names[check_choice(method, "method", tuple(known_names))]
    known = {parameter.name: parameter for parameter in METHODS[name].parameters}
    for given in parameters:
        if given not in known:
            listed = ", ".join(known) or "none"
            raise InputValueError(
                f"{name} has no parameter {given!r}. Its parameters are: {listed}."
            )
    return _KINDS[name](**{key: known[key].check(value) for key, value in parameters.items()})


def corrector_of_words(
    method: str | None, words: Mapping[str, str], *, has_bank: bool = False
) -> Corrector:
    """The same with parameters as words; ``Calibrate`` where no method is named.

    >>> corrector_of_words(None, {"neighbours": "5"}, has_bank=True)
    Calibrate(hubs=0.5, neighbours=5)
    """
    settings = {name: _number(word) for name, word in words.items()}
    if has_bank and method in (None, "calibrate"):
        settings.setdefault("hubs", _HUBS)
    return make_corrector(method or "calibrate", settings)


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _describe(kind: type[Corrector]) -> Method:
    hints = get_type_hints(kind.__init__)
    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    parameters = tuple(
        _parameter(kind.__name__, p.name, hints[p.name], p.default)
        for p in inspect.signature(kind).parameters.values()
        if p.default is not None  # an array, which no option and no form can give
    )
    return Method(kind.__name__, summary, kind.needs_pairs, parameters)


def _parameter(kind: str, name: str, hint: Any, default: Any) -> Parameter:
    if get_origin(hint) is Literal:
        return Parameter(name, "choice", default, choices=get_args(hint))
    if hint is int:
        return Parameter(name, "number", int(default), 1, _MOST_NEIGHBOURS)
    low, high = (0.0, 1.0) if (kind, name) in _SHARES else _WIDEST
    return Parameter(name, "number", float(default), low, high)


_KINDS: Mapping[str, type[Corrector]] = {kind.__name__: kind for kind in CORRECTORS}
METHODS: Mapping[str, Method] = {name: _describe(kind) for name, kind in _KINDS.items()}


def fit_each(
    corrector: Corrector, data: Modalities, queries: str | None, **options: Any
) -> dict[str, Correction]:
    """Fit for each of the modalities that query; the corrections by the queries that they serve.

    A corrector that serves all queries at once is fitted once.
    """
    one_each = corrector.serves_one
    asking = query_modalities(queries, data.names)[::-1] if one_each or queries else ()
    made: dict[str, Correction] = {}
    for name in asking if one_each else [None]:
        correction = corrector.fit(data, queries=name, **options).correction_
        made |= dict.fromkeys(correction.queries, correction)
    return made
