"""The pictures of rows that a page shows, and which of them could not be read."""

from __future__ import annotations

from modgap.io import Modalities
from modgap.io.images import ImageError, one_image, unreadable
from modgap.reports.labels import label_text
from modgap.reports.thumbnails import data_uri

_LONGEST_ID = 100


class RowPictures:
    """Pictures of rows as addresses that hold them. One that fails is counted, and left out."""

    def __init__(self, data: Modalities) -> None:
        self._data = data
        self._found: dict[tuple[str, int], str | None] = {}
        self._errors: dict[tuple[str, int], str] = {}

    def __call__(self, modality: str, row: int) -> str | None:
        """The picture of a row; None where there is none or it cannot be read."""
        picture = self._data.thumbnails.get(modality)
        if picture is None:
            return None
        if (modality, row) not in self._found:
            try:
                with one_image():
                    self._found[modality, row] = data_uri(picture(row))
            except ImageError as error:
                self._found[modality, row] = None
                self._errors[modality, row] = str(error)
        return self._found[modality, row]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """The name of each that could not be read and the reason, in the order of the rows."""
        places = list(self._data.names)
        failed = sorted(self._errors, key=lambda one: (places.index(one[0]), one[1]))
        return [(self._name(*one), self._errors[one]) for one in failed]

    def sentence(self) -> str | None:
        """How many could not be read, and the first of them; None where all could."""
        return unreadable(self.errors, len(self._found)) if self._errors else None

    def _name(self, modality: str, row: int) -> str:
        ids = self._data.sides[modality].ids
        name = None if ids is None else label_text(ids[row], _LONGEST_ID)
        return f"{modality} {row}" if name is None else name
