"""Checks of settings and of numbers in hand: what must hold, what came, what to do about it.

Rows that users pass come through the door, `modgap.core.door`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import array_api_compat
import numpy as np

from modgap.core.text import same_text

# An array of NumPy or a tensor of torch; torch is optional, so it has no type of its own here.
Array = Any

# Rows looked at together when values are checked: keeps the Boolean scratch small for memory maps.
_CHECK_ROWS = 8192

_KEEP_ALIGNED = "Drop them from both sides to keep the pairs aligned."
_NO_DIRECTION = "They have no direction; drop them from both sides."
_SCALE = "Their squares leave the range of floats; scale the embeddings."


class InputError(Exception):
    """What the user gave cannot be used; the message says what to do. The CLI prints it as is."""


class InputValueError(InputError, ValueError):
    """A value that cannot be used."""


class InputTypeError(InputError, TypeError):
    """A type that cannot be used."""


class MissingExtraError(InputError, ImportError):
    """An optional library that the call needs is not installed."""


def require(
    module: str | Sequence[str], extra: str, purpose: str, *, package: str = "", since: str = ""
) -> Any:
    """Import an optional library, or say which extra brings it, or which package.

    Several modules are tried in turn: libraries move and rename theirs. One older than ``since`` is
    refused.
    """
    import importlib

    first, *others = [module] if isinstance(module, str) else module
    try:
        found = importlib.import_module(first)
    except ImportError as error:
        if others:
            return require(others, extra, purpose, package=package, since=since)
        install = package or f"'modgap[{extra}]'"
        raise MissingExtraError(
            f"{purpose} needs {package or first}, which is not installed. "
            f"Install it with: pip install {install}"
        ) from error
    version, library = getattr(found, "__version__", since), package or first.replace("_", "-")
    if since and _numbers(version) < _numbers(since):
        raise MissingExtraError(
            f"{purpose} needs {library} {since} or newer, got {version}, which is less safe with "
            f"files of others. Install it with: pip install -U {library}"
        )
    return found


def _numbers(version: str) -> list[int]:
    """A version as numbers that can be compared.

    >>> _numbers("2.13.0+cpu") > _numbers("2.6")
    True
    """
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]


def first_line(error: object) -> str:
    """What an error says in its first line, or its type where it says nothing."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")


def did_you_mean(value: Any, choices: Iterable[Any]) -> str:
    """A sentence that names the choice nearest to a value, or nothing where none is near."""
    import difflib

    near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_values(
    X: Array, name: str, *, nonzero: bool = False, first_row: int = 0, advice: str | None = None
) -> None:
    """Refuse NaN and infinity, and with ``nonzero`` also rows of length zero.

    ``advice`` says what to do about numbers that are out of range.
    """
    xp = array_api_compat.array_namespace(X)
    aligned, scaled = advice or _KEEP_ALIGNED, advice or _SCALE
    finite, is_zero = xp.isfinite, lambda b: b == 0
    if isinstance(X, np.ndarray) and X.dtype == np.float16:
        finite, is_zero = _half_is_finite, _half_is_zero
    refusals = [("NaN or infinity", lambda b: ~xp.all(finite(b), axis=1), aligned)]
    if nonzero:
        refusals.append(("length zero", lambda b: xp.all(is_zero(b), axis=1), _NO_DIRECTION))
    if X.dtype == xp.float64:
        refusals.append(("numbers beyond 1e100", lambda b: xp.any(abs(b) > 1e100, axis=1), scaled))
        if nonzero:
            refusals.append(
                ("length below 1e-100", lambda b: xp.all(abs(b) < 1e-100, axis=1), _SCALE)
            )
    for start in range(0, X.shape[0], _CHECK_ROWS):
        block = X[start : start + _CHECK_ROWS]
        if len(refusals) == 1 and bool(xp.all(finite(block))):
            continue  # which rows it would be is a slower question
        for what, is_bad, what_to_do in refusals:
            if bool(xp.any(is_bad(block))):
                _refuse_rows(X, name, what, is_bad, what_to_do, first_row)


# NumPy has no fast loops for half precision, but for the whole numbers that it is stored as.
def _half_is_finite(block: np.ndarray) -> np.ndarray:
    return np.asarray((block.view(np.uint16) & 0x7C00) != 0x7C00)


def _half_is_zero(block: np.ndarray) -> np.ndarray:
    return np.asarray((block.view(np.uint16) & 0x7FFF) == 0)


def _refuse_rows(X: Array, name: str, what: str, is_bad: Any, advice: str, first_row: int) -> None:
    xp = array_api_compat.array_namespace(X)
    n_bad, first = 0, -1
    for start in range(0, X.shape[0], _CHECK_ROWS):
        bad = is_bad(X[start : start + _CHECK_ROWS])
        count = int(xp.sum(xp.astype(bad, xp.int64)))
        if count and first < 0:
            first = start + int(xp.argmax(xp.astype(bad, xp.int64)))
        n_bad += count
    rows = "1 row" if n_bad == 1 else f"{n_bad} rows"
    if str(X.dtype).endswith("float16") and advice == _KEEP_ALIGNED:
        advice += " float16 overflows above 65504: keep such embeddings in float32."
    raise InputValueError(
        f"{name} has {rows} with {what}, the first at row {first_row + first}. {advice}"
    )


def check_same_space(X: Array, Y: Array, names: Sequence[str] = ("X", "Y")) -> None:
    """Both must have the same number of columns, and live in the same library and device."""
    if X.shape[1] != Y.shape[1]:
        raise InputValueError(
            f"{names[0]} and {names[1]} must have the same number of columns, "
            f"got {X.shape[1]} and {Y.shape[1]}. Embed both with the same model."
        )
    if array_api_compat.is_torch_array(X) != array_api_compat.is_torch_array(Y):
        raise InputTypeError(
            f"{names[0]} and {names[1]} must both be NumPy arrays or both torch tensors, "
            f"got {type(X).__name__} and {type(Y).__name__}. Call torch.from_numpy(…) on the array."
        )
    if array_api_compat.device(X) != array_api_compat.device(Y):
        raise InputValueError(
            f"{names[0]} and {names[1]} must be on one device, "
            f"got {array_api_compat.device(X)} and {array_api_compat.device(Y)}."
        )


def check_names(names: Sequence[str]) -> tuple[str, str]:
    """Two different, non-empty modality names."""
    if isinstance(names, str) or len(names) != 2:
        raise InputValueError(f"names must be two modality names, got {_names_given(names)}.")
    first, second = check_modalities(names)
    return first, second


def _names_given(names: Any) -> str:
    if isinstance(names, (str, list, tuple)) and all(isinstance(name, str) for name in names):
        return repr(names)
    return (
        f"a {type(names).__name__}. More than two modalities come as one mapping: "
        '{"image": …, "text": …, "audio": …}'
    )


def check_modalities(names: Sequence[str]) -> tuple[str, ...]:
    """Two or more different, non-empty modality names, in NFC as all texts are compared."""
    if isinstance(names, str) or len(names) < 2:
        raise InputValueError(
            f"names must be two or more modality names, got {_names_given(names)}."
        )
    names = tuple(same_text(name) if isinstance(name, str) else name for name in names)
    if len(set(names)) < len(names) or any(not name or "." in name for name in names):
        raise InputValueError(
            f"Modality names must differ, not be empty and contain no dot, got {names!r}."
        )
    return tuple(names)


def check_temperature(temperature: float) -> float:
    """A finite temperature above zero."""
    return check_positive(temperature, "temperature")


def check_positive(value: float, name: str) -> float:
    """A finite number above zero."""
    if not np.isfinite(_number(value, name)) or value <= 0:
        raise InputValueError(f"{name} must be a finite number above 0, got {value}.")
    return float(value)


def check_finite(value: float, name: str) -> float:
    """A finite number."""
    if not np.isfinite(_number(value, name)):
        raise InputValueError(f"{name} must be finite, got {value}.")
    return float(value)


def _number(value: float, name: str) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__}.")
    return value


def check_all_finite(values: np.ndarray, what: str) -> np.ndarray:
    """An array of finite numbers, of any shape; ``what`` says whose they are."""
    try:
        is_finite = np.isfinite(values)
    except TypeError:
        raise InputTypeError(f"{what} must hold numbers, got {values.dtype}.") from None
    if not np.all(is_finite):
        place = [int(i) for i in np.argwhere(~is_finite)[0]]
        raise InputValueError(
            f"{what} must hold finite numbers, got {values[tuple(place)]} at {place}."
        )
    return values


def check_count(value: int, name: str, *, at_least: int = 1, at_most: int | None = None) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputTypeError(f"{name} must be a whole number, got {value!r}.")
    if value < at_least or (at_most is not None and value > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
        raise InputValueError(f"{name} must be {bounds}, got {value}.")
    return int(value)


def check_numbers(values: Any, name: str, *, positive: bool = False) -> np.ndarray:
    """A non-empty list of finite numbers, as a float64 array; a single number becomes a list."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name} must be numbers, got {values!r}.") from error
    if array.ndim != 1 or array.size == 0:
        raise InputValueError(f"{name} must be a non-empty list of numbers, got {values!r}.")
    if not np.all(np.isfinite(array)) or (positive and not np.all(array > 0)):
        want = "finite numbers above 0" if positive else "finite numbers"
        raise InputValueError(f"{name} must be {want}, got {array.tolist()}.")
    return array


def check_choice(value: Any, name: str, choices: Sequence[Any]) -> Any:
    """One of a few allowed values; a near miss is pointed out.

    Texts that are the same after Unicode normalisation are the same value, as the choice has it.
    """
    if value in choices:
        return value
    if isinstance(value, str):
        for choice in choices:
            if isinstance(choice, str) and same_text(choice) == same_text(value):
                return choice
    listed = ", ".join(repr(c) for c in choices)
    raise InputValueError(
        f"{name} must be one of {listed}, got {value!r}.{did_you_mean(value, choices)}"
    )
