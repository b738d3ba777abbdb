"""The corrector that leaves vectors as they are and merges modalities by expected wrong results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Self

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_finite
from modgap.core.results import changed
from modgap.corrections.affine import Affine
from modgap.corrections.background import (
    Background,
    check_list_size,
    hub_neighbours,
    warn_of_few_queries,
)
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.base import Corrector
from modgap.corrections.correction import Correction
from modgap.corrections.hubs import MAX_BANK
from modgap.corrections.list_background import ListBackground, list_background
from modgap.io import Embeddings, Modalities
from modgap.io.group_keys import document_keys
from modgap.moments import RowMoments


class ExpectedWrong(Corrector):
    """Rank documents of all modalities by how many wrong ones to expect at least as good.

    Vectors stay as they are, at unit length, with one more column for ``hubs``: that share of a
    document's hubness is subtracted from its cosine. Each modality is searched on its own, and the
    results are merged by expected wrong results, see `modgap.corrections.background`.

    It needs no pairs, and no mean or spread that grows stale: documents unlike those it was fitted
    on change nothing. It needs a bank of 100 queries or more like those of your users; by
    default the rows of the query modality are the bank. One index answers with one search for
    each modality.

    Ranks by inner product within a modality, and serves the queries of one.
    """

    metric = "inner_product"

    def __init__(self, hubs: float = 0.25) -> None:
        self.hubs = hubs

    def _check_params(self) -> None:
        if not 0 <= check_finite(self.hubs, "hubs") <= 1:
            raise InputValueError(f"hubs must be between 0 and 1, got {self.hubs}.")

    @property
    def serves_one(self) -> bool:
        """Whether the queries of one modality only are served: the bank holds those of one."""
        return True

    @property
    def needs_bank(self) -> bool:
        """Whether it takes a bank of queries: always."""
        return True

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> dict[tuple[str, str], Affine]:
        return {(side, "document"): Affine.fitted(len(rows.mean)) for side, rows in sides.items()}

    def _warned(self) -> Self:
        hubs = self.correction_.hubs
        assert hubs is not None
        warn_of_few_queries(hubs.n_bank)
        return super()._warned()

    def _after_fit(self, data: Modalities, bank: Array | Embeddings | None) -> None:
        if bank is not None:
            check_bank(self.correction_, bank, data)
        (asking,) = self.correction_.queries
        source = data.queries_of(asking) if bank is None else Embeddings.of(bank, "bank")
        neighbours = hub_neighbours(min(source.n_rows, MAX_BANK))
        hubs = with_hubs(self.correction_, data, self.hubs, neighbours, bank)
        self.correction_ = changed(hubs, background=background_of(hubs, data))


def background_of(correction: Correction, data: Modalities) -> Background:
    """What the bank of a correction finds in the documents of each modality."""
    n_others = {name: side.n_rows for name, side in data.others.items()}
    sizes = {name: side.n_rows + n_others.get(name, 0) for name, side in data.sides.items()}
    smallest = min(sizes, key=lambda name: sizes[name])
    check_list_size(sizes[smallest], smallest)
    lists = {}
    for name, side in data.sides.items():
        others = data.others.get(name)
        batches = chain(side.batches(), [] if others is None else others.batches())
        keys = np.concatenate([data.keys_of(name), np.full(n_others.get(name, 0), -1)])
        lists[name] = list_of_batches(correction, name, batches, keys)
    return Background(lists)


def list_of_documents(correction: Correction, name: str, side: Embeddings) -> ListBackground:
    """What the bank finds in the documents of one modality as they are now, or in a new one."""
    check_list_size(side.n_rows, name)
    hubs, background = correction.hubs, correction.background
    assert hubs is not None
    hubs.check_bank()
    known = None if background is None else background.lists.get(name)
    keys = None
    if hubs.keys is not None and hubs.keyed_by in ("id", "group"):
        keys = document_keys(side, name, hubs.keyed_by)
        # Where no id is a query's, nobody knows which documents are its matches.
        if known is None and keys is not None and not np.any(np.isin(keys, hubs.keys)):
            keys = None
    elif hubs.keyed_by is not None and known is not None and known.matched is None:
        # As many rows as then have the numbers that they had; else nobody knows them.
        as_then = known.n_documents == side.n_rows
        keys = document_keys(side, name, hubs.keyed_by) if as_then else None
    return list_of_batches(correction, name, side.batches(), keys)


def list_of_batches(
    correction: Correction, name: str, batches: Iterator[Array], keys: np.ndarray | None
) -> ListBackground:
    """That of the documents of one modality, as the model gives them, in batches."""
    hubs, affine = correction.hubs, correction.affine(name)
    assert hubs is not None

    def mapped() -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        first = 0
        for batch in batches:
            rows = to_numpy(affine.mapped(batch, name))
            yield rows, None if keys is None else keys[first : first + len(rows)]
            first += len(rows)

    # Where nobody knows which documents are a query's own, some may be its matches.
    return list_background(hubs, mapped(), may_match=hubs.keys is None or keys is None)
