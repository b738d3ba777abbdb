"""Rows along the way between two rows (vertical SLERP), and the images of a bank nearest to them.

Levi and Gilboa 2025, eq. 12; the formula itself is `modgap.measures.vslerp`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from modgap.core.checks import InputValueError, check_count, check_numbers, check_same_space
from modgap.core.door import check_rows
from modgap.core.results import NOT_IN_JSON, Result, number
from modgap.core.tables import HasTable
from modgap.embed.item_batches import image_rows
from modgap.embed.model import Model
from modgap.embed.opening import open_model
from modgap.io import Embeddings, Items, open_items, open_modality, write_embeddings
from modgap.io.embedded import read_embed_note, source_inside
from modgap.io.images import SUFFIXES as IMAGE_SUFFIXES
from modgap.io.images import ImageError
from modgap.measures import vslerp_path
from modgap.search import search

# Above this cosine, two rows are the same.
_SAME = 1 - 1e-5
# A way is looked at; more steps are no way but a mistake, and take all memory.
_MOST_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class End:
    """One row: what it was named by, and the file it is of where it is a row of a file."""

    name: str
    row: np.ndarray
    source: str | None = None


def open_end(name: str, model: Model | None = None, *, column: str | None = None) -> End:
    """A row by what names it.

    Parameters
    ----------
    name : str
        ``FILE:ROW``, the row by its number or id; with a model also an image file, or a text.
    model : Model, optional
        Embeds images and texts.
    column : str, optional
        The array or column of the file.
    """
    file, colon, row = name.rpartition(":")
    if colon and row and Path(file).exists():
        return _of_file(name, file, row, column)
    path, is_file = Path(name), os.path.isfile(name)
    if model is None:
        what = f"{name}:ROW" if is_file else "image.npy:12"
        raise InputValueError(
            f"{name!r} must be a row of a file, such as {what}. Images and texts need --model."
        )
    if is_file:
        return End(name, image_rows(model, [path])[0])
    if path.suffix.lower() in IMAGE_SUFFIXES:
        raise InputValueError(f"There is no image {name!r}. Check the path.")
    if not name.strip():
        raise InputValueError("A text to go from or to must have words.")
    return End(name, model.encode_texts([name])[0])


def _of_file(name: str, file: str, row: str, column: str | None) -> End:
    rows = open_modality(file, "image", column=column)
    if row.isdecimal():
        number = int(row)
        if number >= rows.n_rows:
            raise InputValueError(f"{name} must name a row from 0 to {rows.n_rows - 1}, got {row}.")
    else:
        ids = [] if rows.ids is None else [str(one) for one in rows.ids]
        if row not in ids:
            has = "no row of that id" if ids else "no ids"
            raise InputValueError(f"{file} has {has}, got {row!r}. Give the number of the row.")
        number = ids.index(row)
    found = check_rows(rows.take([number]), name, nonzero=True)
    return End(name, np.asarray(found)[0], file)


@dataclass(frozen=True, eq=False)
class ImageBank:
    """Rows, and where at hand the images that they are of.

    ``item_of`` has the place in ``items`` of each row that has an image.
    """

    rows: Embeddings
    items: Items | None = None
    item_of: Mapping[int, int] = field(default_factory=dict)

    def name(self, row: int) -> str:
        """What a row is called: its id, else its number."""
        return str(row) if self.rows.ids is None else str(self.rows.ids[row])

    def image(self, row: int) -> bytes:
        """The stored image of a row; `ImageError` where there is none."""
        if self.items is None or row not in self.item_of:
            raise ImageError("no image of it is known: name the images with --images")
        return self.items.stored(self.item_of[row])


def open_image_bank(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    column: str | None = None,
) -> ImageBank:
    """Rows of images, with the images.

    Parameters
    ----------
    path : path
        A folder that ``modgap embed`` wrote, or any file of rows.
    images : path, optional
        The images, as for `modgap.io.open_items`: found by the ids of the rows where these have
        any, else row by row. A folder that holds its own images needs none.
    column : str, optional
        The array or column of the rows, where there are several.
    """
    rows = open_modality(path, "image", column=column)
    if images is not None:
        items = open_items(images)
    else:
        note = read_embed_note(Path(path)) if Path(path).is_dir() else None
        opens = None if note is None else source_inside(note, Path(path))
        if opens is None:
            return ImageBank(rows)
        items = opens()
    if rows.ids is not None:
        places = {name: place for place, name in enumerate(items.names)}
        known = {row: places[name] for row, name in enumerate(rows.ids) if name in places}
        if known or images is None:
            return ImageBank(rows, items, known)
    if len(items) != rows.n_rows:
        raise InputValueError(
            f"{images} must hold an image for each of the {rows.n_rows} rows of {path}, got "
            f"{len(items)}, and no id of a row is the name of an image."
        )
    return ImageBank(rows, items, {row: row for row in range(rows.n_rows)})


@dataclass(frozen=True, eq=False)
class Interpolation(HasTable, Result):
    """The way from one row to another, by several α.

    Attributes
    ----------
    ends : pair of str
        What the way goes between.
    alphas, thetas : (a,) and (s,) arrays
        How far the mean is taken off, and how far along the way each step is.
    rows : (a, s, d) array
        The rows, left out of ``to_dict``.
    radii : (a, s) array
        Their distance from the mean, over the mean distance of the ends.
    nearest, cosines : (a, s) arrays or None
        The row of the bank nearest to each, by cosine.
    names : tuple of tuples of str, or None
        What these rows of the bank are called.
    """

    ends: tuple[str, str]
    alphas: np.ndarray
    thetas: np.ndarray
    rows: np.ndarray = field(metadata=NOT_IN_JSON)
    radii: np.ndarray
    nearest: np.ndarray | None = None
    cosines: np.ndarray | None = None
    names: tuple[tuple[str, ...], ...] | None = None

    @property
    def flat(self) -> np.ndarray:
        """The rows one below the other: every step of the first α, then of the next."""
        return self.rows.reshape(-1, self.rows.shape[-1])

    @property
    def labels(self) -> list[str]:
        """What each of these rows is.

        >>> way = interpolate(np.eye(2)[0], np.eye(2)[1], thetas=[0, 1], alphas=[0])
        >>> way.labels
        ['α = 0, θ = 0', 'α = 0, θ = 1']
        """
        return [f"α = {a:.3g}, θ = {t:.3g}" for a in self.alphas for t in self.thetas]

    def write(self, path: Path) -> str:
        """Write the rows in the format of the suffix; returns what was written."""
        # The other formats hold numbers only.
        ids = self.labels if path.suffix.lower() in (".npz", ".parquet") else None
        write_embeddings(path, self.flat.astype(np.float32), ids=ids)
        return f"wrote {path}: {len(self.flat)} rows of {self.flat.shape[1]} columns"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: each step, its distance from the mean, and its nearest in the bank."""
        columns = [self.labels, [number(float(one), 3) for one in self.radii.ravel()]]
        header: tuple[str, ...] = ("", "distance from the mean")
        if self.names is not None and self.cosines is not None:
            header = (*header, "nearest", "cosine")
            columns.append([name for names in self.names for name in names])
            columns.append([number(float(one), 3) for one in self.cosines.ravel()])
        return header, list(zip(*columns, strict=True))


def interpolate_files(
    first: str,
    second: str,
    model: str | None = None,
    *,
    device: str | None = None,
    steps: int = 7,
    thetas: str | None = None,
    alphas: str = "0,0.5,1",
    mean: Path | None = None,
    bank: Path | None = None,
    images: Path | None = None,
    column: str | None = None,
    with_ends: bool = False,
    needs_images: bool = False,
) -> tuple[Interpolation, ImageBank | None]:
    """``interpolate`` between rows that are named as for `open_end`, and the bank.

    ``thetas`` and ``alphas`` are numbers with commas between them. The mean is that of the rows in
    ``mean``, else of the bank, else of the file that both ends are rows of. ``needs_images``
    refuses a bank without images.
    """
    encoder = None if model is None else open_model(model, device=device)
    ends = [open_end(name, encoder, column=column) for name in (first, second)]
    held = None if bank is None else open_image_bank(bank, images, column=column)
    if needs_images and held is not None and held.items is None:
        raise InputValueError(f"--picture needs the images of {bank}: name them with --images.")
    of = mean or bank or (ends[0].source if ends[0].source == ends[1].source else None)
    centre = None
    if of is not None:
        rows = open_modality(of, "image", column=column)
        centre = np.asarray(rows.moments("image", unit=False).given.mean)
    check_count(steps, "steps", at_least=2, at_most=_MOST_STEPS)
    even = [k / (steps - 1) for k in range(steps)]
    way = interpolate(
        ends[0].row,
        ends[1].row,
        thetas=even if thetas is None else _numbers(thetas, "θ"),
        alphas=_numbers(alphas, "α"),
        mean=centre,
        bank=held,
        with_ends=with_ends,
        ends=(first, second),
    )
    return way, held


def _numbers(said: str, name: str) -> list[float]:
    try:
        return [float(part) for part in said.split(",")]
    except ValueError:
        raise InputValueError(
            f"{name} must be numbers with commas between, such as 0,0.5,1, got {said!r}."
        ) from None


def interpolate(
    a: np.ndarray,
    b: np.ndarray,
    *,
    thetas: Sequence[float],
    alphas: Sequence[float],
    mean: np.ndarray | None = None,
    bank: ImageBank | None = None,
    with_ends: bool = False,
    ends: tuple[str, str] = ("A", "B"),
) -> Interpolation:
    """Rows along the way from ``a`` to ``b``, around the mean of their modality.

    Parameters
    ----------
    a, b : (d,) arrays
        The ends, as they are: raw rows stay raw.
    thetas : sequence of float
        How far along the way: 0 is ``a``, 1 is ``b``.
    alphas : sequence of float
        0 is SLERP around the origin, 1 goes around the mean.
    mean : (d,) array, optional
        The mean of the modality; may be left out where every α is 0.
    bank : ImageBank, optional
        Where the row nearest to each is looked for.
    with_ends : bool
        Whether a step between the ends may find the ends themselves, which are often nearest.
    ends : pair of str
        What to call the ends.
    """
    steps, amounts = check_numbers(thetas, "thetas"), check_numbers(alphas, "alphas")
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    check_same_space(a[None], b[None], ends)
    if mean is None and np.any(amounts):
        raise InputValueError(
            "An α other than 0 takes off a mean: name the rows that it is of with --mean, or a "
            "bank with --bank."
        )
    centre = np.zeros_like(a) if mean is None else np.asarray(mean, dtype=np.float64)
    check_same_space(a[None], centre[None], (ends[0], "the mean"))
    rows = vslerp_path(a, b, steps.tolist(), amounts.tolist(), centre)
    of_ends = (np.linalg.norm(a - centre) + np.linalg.norm(b - centre)) / 2
    radii = np.linalg.norm(rows - centre, axis=-1) / of_ends
    found = Interpolation(ends, amounts, steps, rows, radii)
    return found if bank is None else _with_nearest(found, bank, with_ends)


def _with_nearest(found: Interpolation, bank: ImageBank, with_ends: bool) -> Interpolation:
    documents = bank.rows.rows()
    check_same_space(found.flat, documents, (found.ends[0], bank.rows.source))
    queries = found.flat.astype(np.float32)
    near, cosines = search(queries, documents, 3)
    chosen = np.zeros(len(near), dtype=np.int64)
    if not with_ends:
        at = np.tile(found.thetas, len(found.alphas))
        # Never all three: the ends are two rows at most.
        is_end = np.isin(near, near[:, 0][((at == 0) | (at == 1)) & (cosines[:, 0] > _SAME)])
        between = (at > 0) & (at < 1) & ~is_end.all(axis=1)
        chosen[between] = np.argmin(is_end[between], axis=1)
    shape = found.radii.shape
    nearest, values = (
        np.take_along_axis(of, chosen[:, None], axis=1).reshape(shape) for of in (near, cosines)
    )
    names = tuple(tuple(bank.name(int(row)) for row in steps) for steps in nearest)
    return dataclasses.replace(found, nearest=nearest, cosines=values, names=names)
