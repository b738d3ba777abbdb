"""How a corrector is written in code, and its parameters in a correction's file."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def code_label(corrector: BaseEstimator) -> str:
    """The corrector as it is written in code, without what is left at its default."""
    given = corrector.get_params()
    parameters = inspect.signature(type(corrector)).parameters.values()
    shown = [
        f"{p.name}={_said(given[p.name])}"
        for place, p in enumerate(parameters)
        if place == 0 or not _is(given[p.name], p.default)
    ]
    return f"{type(corrector).__name__}({', '.join(shown)})"


def given_parameters(corrector: BaseEstimator) -> dict[str, Any]:
    """The parameters that have a value; of an array its shape."""
    return {
        name: _said(value) if isinstance(value, np.ndarray) else value
        for name, value in corrector.get_params().items()
        if value is not None
    }


def _is(value: Any, default: Any) -> bool:
    """Whether a parameter is at its default; an array never is."""
    return not isinstance(value, np.ndarray) and bool(value == default)


def _said(value: Any) -> str:
    """A parameter in a label: of an array its shape."""
    return f"<array {value.shape}>" if isinstance(value, np.ndarray) else repr(value)
