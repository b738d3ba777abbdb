"""The rows that the server shows: captions, ids and pictures."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from urllib.parse import quote

from modgap.core.checks import InputValueError, check_choice
from modgap.io import Modalities
from modgap.io.images import ImageError, one_image
from modgap.reports.rows import label_text
from modgap.serve.mapped_rows import LiveRows
from modgap.serve.models import ItemPage, RowItem

_LONGEST_TEXT = 2_000


class RowItems:
    """Rows of the data by their number, and those of the live index by their words."""

    def __init__(self, data: Modalities, live: Mapping[str, LiveRows]) -> None:
        self._data, self._live = data, live
        self._texts: dict[str, list[str]] = {}
        self._reading = threading.Lock()

    def item(self, modality: str, row: int) -> RowItem:
        """One row by its number in the data."""
        n_rows = self._n_rows(modality)
        if not 0 <= row < n_rows:
            raise InputValueError(
                f"row must be a row number of {modality}, from 0 to {n_rows - 1}, got {row}."
            )
        caption, name = self._words(modality, row)
        at = None
        if modality in self._data.thumbnails:
            at = f"/api/thumbnails/{quote(modality, safe='')}/{row}"
        return RowItem(modality=modality, row=row, caption=caption, id=name, thumbnail=at)

    def find(self, modality: str, contains: str = "", offset: int = 0, limit: int = 20) -> ItemPage:
        """Rows of the index whose caption or id contains a text, and how many there are in all.

        Parameters
        ----------
        modality : str
            The modality of the rows.
        contains : str
            Part of the caption or of the id; upper and lower case are the same.
        offset, limit : int
            The first row to give of those found, and how many.
        """
        self._n_rows(modality)
        numbers = self._live[modality].numbers
        if contains:
            wanted, texts = contains.casefold(), self._searchable(modality)
            numbers = numbers[[place for place, text in enumerate(texts) if wanted in text]]
        shown = [self.item(modality, int(row)) for row in numbers[offset : offset + limit]]
        return ItemPage(total=len(numbers), offset=offset, items=shown)

    def thumbnail(self, modality: str, row: int) -> bytes | None:
        """The picture of a row, where there is one that can be read."""
        picture = self._data.thumbnails.get(modality)
        if picture is None or not 0 <= row < self._n_rows(modality):
            return None
        try:
            with one_image():
                return picture(row)
        except ImageError:
            return None

    def _n_rows(self, modality: str) -> int:
        return self._data.sides[check_choice(modality, "modality", self._data.names)].n_rows

    def _words(self, modality: str, row: int) -> list[str | None]:
        """The caption and the id of a row."""
        side = self._data.sides[modality]
        with self._reading:  # two threads at once need not both read the columns
            columns = side.captions, side.ids
        return [c if c is None else label_text(c[row], _LONGEST_TEXT) for c in columns]

    def _searchable(self, modality: str) -> list[str]:
        """Captions and ids of the rows in the index, in one case."""
        if modality not in self._texts:
            words = (self._words(modality, row) for row in self._live[modality].numbers)
            self._texts[modality] = ["\n".join(filter(None, w)).casefold() for w in words]
        return self._texts[modality]
