"""The door: what users pass as rows is opened and checked here, and nowhere else.

Exported functions call it once and hand checked arrays to internals, which open and check nothing
again; import-linter keeps it out of them. Paths, tables and Embeddings are opened by io. The
libraries that other things come from are not imported: what is there was made by one that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import array_api_compat
import numpy as np

from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_same_space,
    check_values,
)
from modgap.core.text import same_text, same_texts

_WITH_DIMENSIONS = {
    1: " One row alone is X[None, :].",
    3: " Join batches with np.concatenate(X). Of patches or tokens, keep one row per item.",
}


def check_matrix(X: Any, name: str = "X") -> Array:
    """A two-dimensional array of floats with at least one row; its values are not looked at."""
    X = opened_rows(X, name)
    if array_api_compat.is_torch_array(X):
        if X.is_sparse or str(X.layout) != "torch.strided":
            raise InputTypeError(
                f"{name} must be a dense tensor, got {X.layout}. Call .to_dense()."
            )
        X = X.detach()
        kind = str(X.dtype).removeprefix("torch.")
        is_float = X.dtype.is_floating_point
    else:
        X = _as_array(X, name)
        kind = str(X.dtype)
        is_float = X.dtype.kind == "f"
    if not is_float:
        hint = {
            "complex": "Take the real part, if you mean it.",
            "object": "Rows of different lengths or Python objects cannot be used. Rows of one "
            "length become a matrix with np.stack(X).",
        }.get(
            "complex" if "complex" in kind else kind,
            "Convert the rows to float32 if the numbers are embeddings.",
        )
        raise InputTypeError(f"{name} must hold float16, float32 or float64, got {kind}. {hint}")
    if X.ndim != 2:
        raise InputValueError(
            f"{name} must be a matrix with one row per item, got shape {tuple(X.shape)}."
            f"{_WITH_DIMENSIONS.get(X.ndim, '') if 0 not in X.shape else ''}"
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InputValueError(
            f"{name} must have at least one row and one column, got shape {tuple(X.shape)}."
        )
    return X


def check_rows(X: Any, name: str = "X", *, min_rows: int = 1, nonzero: bool = False) -> Array:
    """A matrix of finite floats; with ``nonzero``, no row of length zero (it has no direction)."""
    X = check_matrix(X, name)
    if X.shape[0] < min_rows:
        raise InputValueError(f"{name} needs at least {min_rows} rows, got {X.shape[0]}.")
    check_values(X, name, nonzero=nonzero)
    return X


def check_two(
    X: Any, Y: Any, *, names: Sequence[str] = ("X", "Y"), min_rows: int = 1, nonzero: bool = False
) -> tuple[Array, Array]:
    """Two matrices of one dimension, from one library and device; the row counts may differ.

    What is no array is opened; one path or table may hold both, and ``Y`` is then left out.
    """
    X, Y = opened_two(X, Y, names, matched=False)
    X = check_rows(X, names[0], min_rows=min_rows, nonzero=nonzero)
    Y = check_rows(Y, names[1], min_rows=min_rows, nonzero=nonzero)
    check_same_space(X, Y, names)
    return X, Y


def check_pairs(X: Any, Y: Any, *, min_rows: int = 1, nonzero: bool = False) -> tuple[Array, Array]:
    """Two matrices whose rows belong together one by one."""
    X, Y = opened_two(X, Y, ("X", "Y"), matched=True)
    X, Y = check_two(X, Y, min_rows=min_rows, nonzero=nonzero)
    if X.shape[0] != Y.shape[0]:
        raise InputValueError(
            "X and Y must hold the same pairs row by row, "
            f"got {tuple(X.shape)} and {tuple(Y.shape)}."
        )
    return X, Y


def check_groups(
    groups: Any, n: int, m: int, names: Sequence[str] = ("X", "Y")
) -> tuple[np.ndarray, np.ndarray]:
    """Groups of two sides as whole numbers; without labels row i belongs to row i."""
    if groups is None:
        if n != m:
            raise InputValueError(
                f"Without groups the rows of {names[0]} and {names[1]} must be pairs, got {n} and "
                f"{m} rows. Pass groups=(gx, gy) to say which rows match."
            )
        return np.arange(n), np.arange(n)
    gx, gy = encode_groups(check_group_labels(groups, names), (n, m), names)
    return gx, gy


def check_group_labels(groups: Any, names: Sequence[str]) -> list[Any]:
    """The labels of each modality in order, from a mapping by name or, for two, from a pair."""
    if isinstance(groups, Mapping):
        groups = {same_text(str(name)): labels for name, labels in groups.items()}
        if set(groups) != {same_text(name) for name in names}:
            raise InputValueError(
                f"groups must name the same modalities as the rows, {', '.join(names)}, got "
                f"{', '.join(map(str, groups))}."
            )
        return [groups[same_text(name)] for name in names]
    if len(names) != 2:
        raise InputTypeError(
            f"groups of {len(names)} modalities must be a mapping, one label per row of "
            f"{', '.join(names)} each."
        )
    if not (isinstance(groups, (tuple, list)) and len(groups) == 2):
        raise InputTypeError(
            f"groups must be two sequences (gx, gy), one label per row of {names[0]} and "
            f"{names[1]}."
        )
    return list(groups)


def encode_groups(
    labels: Sequence[Any], sizes: Sequence[int], names: Sequence[str]
) -> tuple[np.ndarray, ...]:
    """Group labels of several sides as whole numbers, the same number for the same label.

    Texts are compared in NFC, see `modgap.core.text`.
    """
    arrays = [same_texts(one) for one in labels]
    for array, rows, name in zip(arrays, sizes, names, strict=True):
        if array.ndim != 1 or len(array) != rows:
            raise InputValueError(
                f"groups must give one label per row of {name}: {rows} rows, "
                f"got shape {array.shape}."
            )
    codes = np.unique(np.concatenate(arrays), return_inverse=True)[1]
    found = tuple(np.split(codes, np.cumsum(sizes)[:-1]))
    common = found[0]
    for other in found[1:]:
        common = np.intersect1d(common, other)
    if len(common) == 0:
        where = "on both sides" if len(found) == 2 else "of every modality"
        raise InputValueError(
            f"No group has rows {where}, so no row has a match. Texts are "
            "compared after Unicode normalisation (NFC), upper and lower case apart."
        )
    return found


_EMBED = "modgap embed MODEL DATA -o rows, or modgap.embed in Python"


def _is_plain(given: Any) -> bool:
    """Whether it is an array, a tensor or a list already, which nobody has to open."""
    return isinstance(given, (np.ndarray, list, tuple)) or array_api_compat.is_torch_array(given)


def opened_rows(given: Any, name: str) -> Any:
    """The rows of one modality of a path, a table or Embeddings; anything else as it is."""
    if _is_plain(given):
        return given
    # io comes later in the way of the data, and is asked only for what is no array.
    from modgap.io.opening import rows_of

    return rows_of(given, name)


def opened_batches(given: Any, name: str) -> Any:
    """The rows of one modality of a path, a table or Embeddings in batches; others as they are."""
    if _is_plain(given) or isinstance(given, Iterator):
        return given
    from modgap.io.opening import batches_of

    return batches_of(given, name)


def opened_two(X: Any, Y: Any, names: Sequence[str], *, matched: bool) -> tuple[Any, Any]:
    """The rows of two modalities, in one path or table or in two; arrays as they are.

    ``matched`` takes the rows that match, one by one, where ids or groups say which do.
    """
    if _is_plain(X) and _is_plain(Y):
        return X, Y
    from modgap.io.opening import two_of

    return two_of(X, Y, names, matched=matched)


def _as_array(X: Any, name: str) -> np.ndarray:
    """An array of numbers; other objects are refused with advice."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    if is_picture(first):
        raise InputTypeError(f"{name} must be a matrix of floats, got {what_to_call(X)}")
    if array_api_compat.is_torch_array(first):
        X = [as_numpy(one) if array_api_compat.is_torch_array(one) else one for one in X]
    try:
        found = np.asanyarray(X)
    except ValueError as error:
        raise InputValueError(
            f"{name} must be a matrix, but its rows do not have the same length ({error})."
        ) from error
    except TypeError as error:
        raise InputTypeError(f"{name} must be a matrix of floats, got {what_to_call(X)}") from error
    if isinstance(found, np.ma.MaskedArray) and np.ma.is_masked(found):
        raise InputValueError(
            f"{name} must have every number, got a masked array. Drop the rows that are masked."
        )
    if isinstance(found, (np.matrix, np.ma.MaskedArray)):
        return np.asarray(found)
    is_array = isinstance(X, np.ndarray) or hasattr(X, "__array__")
    if found.dtype.kind in "OUS" and not is_array:
        raise InputTypeError(f"{name} must be a matrix of floats, got {what_to_call(X)}")
    return found


def as_numpy(array: Any) -> np.ndarray:
    """A NumPy array of the numbers of an array or tensor; bfloat16 becomes float32."""
    if not array_api_compat.is_torch_array(array):
        return np.asarray(array)
    array = array.detach().cpu()
    return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()


def what_to_call(given: Any) -> str:
    """What it is, and what makes rows of it.

    >>> what_to_call(x for x in ())
    'a generator. Collect its batches: np.concatenate(list(batches)).'
    """
    kind, library = type(given).__name__, type(given).__module__.partition(".")[0]
    if given is None:
        return "nothing. Pass an array, a tensor, a path or a table."
    if isinstance(given, (list, tuple)):
        return _of_list(given)
    if is_model_output(given):
        rows = [name for name in given if name.endswith("embeds") or name == "pooler_output"]
        taken = ", ".join(f"output.{name}" for name in rows or list(given)[:2])
        return f"the {kind} of a model. Take its rows: {taken or 'nothing'}."
    if isinstance(given, Mapping):
        keys = ", ".join(map(repr, list(given)[:4])) or "nothing"
        return (
            f"a {kind} of {keys}. Pass the rows of one modality; what takes several takes them by "
            "name."
        )
    if is_picture(given):
        return f"a picture (PIL {kind}). Pictures are embedded first: {_EMBED}."
    if library == "scipy" and hasattr(given, "toarray"):
        return f"a sparse {kind}. Call .toarray() on it."
    if library == "torch" and kind == "DataLoader":
        return "a DataLoader. Embed its batches and collect the rows: torch.cat(rows)."
    if callable(getattr(given, "forward", None)):
        return f"a model ({kind}). Give it pictures and texts first: {_EMBED}."
    if hasattr(given, "readinto") or hasattr(given, "readline"):
        return "an open file. Pass its path."
    if callable(getattr(given, "apply", None)) or callable(getattr(given, "fit", None)):
        return f"a {kind}. Pass rows first, and a correction by its name: correction=…."
    if isinstance(given, Iterator):
        return f"a {kind}. Collect its batches: np.concatenate(list(batches))."
    if isinstance(given, (bytes, bytearray, memoryview)):
        return f"{kind}. Read them with np.frombuffer(…), or pass the path of the file."
    if hasattr(given, "__cuda_array_interface__"):
        return f"a {kind} on a GPU. Bring it to the CPU (.get()), or make it a torch tensor."
    return f"a {kind}. Pass an array, a tensor, a path or a table: docs/reference/inputs.md."


def _of_list(given: Sequence[Any]) -> str:
    first = given[0] if given else None
    if isinstance(first, str):
        return f"texts. Texts are embedded first: {_EMBED}. A path is one string, not in a list."
    if isinstance(first, Mapping):
        return "a list of dicts. Make it a table first: pyarrow.Table.from_pylist(X)."
    if is_picture(first):
        return f"pictures. Pictures are embedded first: {_EMBED}."
    return f"a {type(given).__name__} of {type(first).__name__}. Pass one vector of floats a row."


def is_picture(given: Any) -> bool:
    """Whether it is a picture of Pillow's, which NumPy and Arrow would read as pixels."""
    return type(given).__module__.partition(".")[0] == "PIL"


def is_model_output(given: Any) -> bool:
    """Whether transformers' models put it out."""
    return any(kind.__name__ == "ModelOutput" for kind in type(given).__mro__)
