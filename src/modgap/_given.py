"""What people have where rows are wanted: opened by io where it can be, else said what to call.

The libraries that such things come from are not imported: what is there was made by one that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import array_api_compat
import numpy as np

from modgap._errors import InputTypeError, InputValueError

_EMBED = "modgap embed MODEL DATA -o rows, or modgap.embed in Python"


def is_plain(given: Any) -> bool:
    """Whether it is an array, a tensor or a list already, which nobody has to open."""
    return isinstance(given, (np.ndarray, list, tuple)) or array_api_compat.is_torch_array(given)


def opened_rows(given: Any, name: str) -> Any:
    """The rows of one modality of a path, a table or Embeddings; anything else as it is."""
    if is_plain(given):
        return given
    # io comes later in the way of the data, and is asked only for what is no array.
    from modgap.io.opening import rows_of

    return rows_of(given, name)


def opened_batches(given: Any, name: str) -> Any:
    """The rows of one modality of a path, a table or Embeddings in batches; others as they are."""
    if is_plain(given) or isinstance(given, Iterator):
        return given
    from modgap.io.opening import batches_of

    return batches_of(given, name)


def opened_two(X: Any, Y: Any, names: Sequence[str], *, matched: bool) -> tuple[Any, Any]:
    """The rows of two modalities, in one path or table or in two; arrays as they are.

    ``matched`` takes the rows that match, one by one, where ids or groups say which do.
    """
    if is_plain(X) and is_plain(Y):
        return X, Y
    from modgap.io.opening import two_of

    return two_of(X, Y, names, matched=matched)


def dense(X: Any, name: str) -> Any:
    """A tensor with all its numbers; a sparse one is refused."""
    if X.is_sparse or str(X.layout) != "torch.strided":
        raise InputTypeError(f"{name} must be a dense tensor, got {X.layout}. Call .to_dense().")
    return X


def as_numpy(X: Any, name: str) -> np.ndarray:
    """An array of numbers; what is none is told what to call."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    if is_picture(first):
        raise InputTypeError(f"{name} must be a matrix of floats, got {what_to_call(X)}")
    if array_api_compat.is_torch_array(first):
        X = [_from_torch(one) for one in X]
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


def _from_torch(given: Any) -> Any:
    """A tensor among others in a list as an array; NumPy has no bfloat16."""
    if not array_api_compat.is_torch_array(given):
        return given
    given = given.detach().cpu()
    return (given.float() if str(given.dtype) == "torch.bfloat16" else given).numpy()


def refuse_output(X: Any) -> None:
    """Refuse what a model put out, which is a mapping but not one of names to rows."""
    if is_model_output(X):
        raise InputTypeError(f"X must be rows by name, got {what_to_call(X)}")


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
        taken = _spoken(f"output.{name}" for name in rows or list(given)[:2])
        return f"the {kind} of a model. Take its rows: {taken}."
    if isinstance(given, Mapping):
        return (
            f"a {kind} of {_spoken(repr(key) for key in list(given)[:4])}. Pass the rows of one "
            "modality; what takes several takes them by name."
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
    return f"a {kind}. Pass an array, a tensor, a path or a table: docs/inputs.md."


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


def _spoken(words: Any) -> str:
    return ", ".join(words) or "nothing"
