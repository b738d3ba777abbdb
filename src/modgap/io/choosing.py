"""Which matrix of a file, folder or table is whose: as told, else as their names tell."""

from __future__ import annotations

from modgap._validate import InputValueError
from modgap.io._contents import Contents, listed
from modgap.io.column_roles import PAIR_NAMES, matrix_names, model_pairs, own_prefixes


def own_column(contents: Contents, modality: str) -> str:
    """The matrix that is called like the modality, else its own of the only model's, else the only.

    ``b32_img`` is the image's where ``b32_txt`` is beside it.
    """
    named = [name for name in matrix_names(modality) if name in contents.embeddings]
    if not named and len(models := model_pairs(contents.embeddings)) == 1:
        (pair,) = models.values()
        named = [name for name in pair if {*own_prefixes(modality)} & {*name.split("_")}]
    return named[0] if named else contents.only_embedding()


def two_columns(
    contents: Contents, x_column: str | None, y_column: str | None, names: tuple[str, str]
) -> tuple[str, str]:
    """The two matrices of one file."""
    if x_column is not None and y_column is not None:
        return x_column, y_column
    found = contents.embeddings
    if x_column is None and y_column is None:
        for pair in (contents.pair,) if contents.pair else ((*names,), *PAIR_NAMES):
            if all(name in found for name in pair):
                return pair[0], pair[1]
        if models := model_pairs(found):
            return _only_model(contents, models)
    elif len(found) == 2 and x_column is not None:
        return x_column, found[1] if found[0] == x_column else found[0]
    elif len(found) == 2 and y_column is not None:
        return found[1] if found[0] == y_column else found[0], y_column
    if not found:
        raise InputValueError(
            f"{contents.path} must hold two modalities as rows of floats, got "
            f"{contents.listing()}. {contents.how_to_get_rows()}"
        )
    if len(found) < 2:
        raise InputValueError(
            f"{contents.path} must hold two modalities, got {contents.listing()}. "
            "Pass the other modality as the second path or table, or name the column that says "
            "which modality a row is: modgap.open_pair(…, modality_column=…) (--modality-column)."
        )
    texts = [name for name in found if "text" in name or "txt" in name]
    others = [name for name in found if name not in texts]
    x, y = (others[0], texts[0]) if others and texts else found[:2]
    raise InputValueError(
        f"{contents.path} does not say which matrix is which: it holds {listed(found)}. "
        f"{_how_to_choose(x, y)}"
    )


def _only_model(contents: Contents, models: dict[str, tuple[str, str]]) -> tuple[str, str]:
    *others, pair = models.values()
    if others:
        raise InputValueError(
            f"{contents.path} holds rows of several models: {', '.join(models)}. "
            f"{_how_to_choose(*pair)}"
        )
    return pair


def _how_to_choose(x: str, y: str) -> str:
    return (
        f"Choose with modgap.open_pair(…, x_column={x!r}, y_column={y!r}) "
        f"(--x-column {x} --y-column {y})."
    )
