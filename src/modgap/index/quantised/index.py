"""Documents of each modality in few bits, with what the modality gap costs taken out first.

A score splits into what is known exactly and a remainder. With μ the mean of the document's
modality and P the projection on the span of all modalities' means,

    q · v  =  q · μ  +  Pq · P(v − μ)  +  (q − Pq) · (v − μ − P(v − μ)).

The first term is one number per query and modality. The second needs one number per document for
each direction of P, kept in half precision. Only the third is quantised, and there neither the
documents nor the queries carry a mean: the error of a quantised score grows with the length of the
query that is multiplied with it, and most of a CLIP query's length is its modality's mean.

A column of hubs, −α h, is one more number per document, and kept in half precision too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from modgap.arrays import row_blocks, to_numpy
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    require,
)
from modgap.core.door import check_rows
from modgap.corrections import Correction, NotFitted, check_mapped, own_keys
from modgap.index.quantised.codes import BITS, Bits, train_codes
from modgap.index.quantised.rotation import ROTATIONS, Rotate, learned_rotation, random_rotation
from modgap.index.quantised.segment import BLOCK_ROWS, Segment, along_directions, lengths_of, turn
from modgap.index.stored_vectors import check_products, query_modality
from modgap.io import Embeddings
from modgap.search import Hits
from modgap.search.merging import NO_BACKGROUND, best_of, merge_checked


class QuantisedIndex:
    """An index of quantised documents whose scores are estimates of the inner product q · v.

    Queries stay floats. With ``centre=False, rotate="none"`` it is the plain FAISS index.

    Parameters
    ----------
    bits : {"int8", "4bit", "1bit", "pq", "rabitq"}
        The kind of code, see ``train_codes``.
    centre : bool
        Take each modality's mean out of the documents, and the directions of all means out of what
        is quantised (see above). ``"1bit"`` and ``"pq"`` then also keep a length per document, as
        RaBitQ does, that makes up for what a code shrinks.
    rotate : {"none", "random", "learned"}
        Rotate what is quantised; ``"learned"`` suits the signs, or the product quantiser.
    exact : int
        Keep so many leading directions of the residuals exact, 2 bytes per document each.
    subspaces : int, optional
        Of ``"pq"``; d/4 by default.
    seed : int
        Of the random rotation and the codebooks.
    """

    segments_: dict[str, Segment]

    def __init__(
        self,
        bits: Bits = "int8",
        *,
        centre: bool = True,
        rotate: Rotate = "random",
        exact: int = 0,
        subspaces: int | None = None,
        seed: int = 0,
    ) -> None:
        self.bits = bits
        self.centre = centre
        self.rotate = rotate
        self.exact = exact
        self.subspaces = subspaces
        self.seed = seed

    def __repr__(self) -> str:
        held = "".join(
            f", {name} {len(segment):,} documents"
            for name, segment in getattr(self, "segments_", {}).items()
        )
        return f"{type(self).__name__}({self.bits!r}{held})"

    def fit(
        self,
        documents: Mapping[str, Array | Embeddings],
        train: Mapping[str, Array] | None = None,
        *,
        correction: Correction | None = None,
    ) -> Self:
        """Learn means, directions, rotation and ranges, and store the documents.

        Parameters
        ----------
        documents : mapping of str to (n, d) arrays or Embeddings
            The rows of each modality by its name.
        train : mapping of str to (n, d) arrays, optional
            What everything is learned from; the documents themselves by default. It may hold
            modalities of which there are only queries: their means are taken out of the queries
            too.
        correction : Correction, optional
            Documents, queries and what is trained on are then raw rows, which it maps, and which
            must be ranked by inner product. Its column of hubs is kept beside the codes, in half
            precision.
        """
        require("faiss", "faiss", "A quantised index")
        check_choice(self.bits, "bits", BITS)
        check_choice(self.rotate, "rotate", ROTATIONS)
        check_count(self.exact, "exact", at_least=0)
        if self.exact and not self.centre:
            raise InputValueError("exact keeps directions of centred rows; it needs centre=True.")
        if correction is not None and correction.metric != "inner_product":
            raise InputValueError(
                "Quantised scores are inner products, and this correction ranks by "
                f"{correction.metric}. Use Calibrate."
            )
        self.correction_ = correction
        given = _check_modalities(documents, "documents")
        stored, added = self._mapped(given, documents)
        learned = stored
        if train is not None:
            learned = self._mapped(_check_modalities(train, "train"))[0]
        for part in (stored, learned):
            for name, rows in part.items():
                check_products(rows, name)
        self.dim_ = next(iter(stored.values())).shape[1]
        for name in stored:
            check_choice(name, "documents", tuple(learned))
        if next(iter(learned.values())).shape[1] != self.dim_:
            raise InputValueError(
                f"train must have the {self.dim_} columns of the documents, "
                f"got {next(iter(learned.values())).shape[1]}."
            )
        means = {
            name: rows.mean(axis=0, dtype=np.float64) if self.centre else np.zeros(self.dim_)
            for name, rows in learned.items()
        }
        self.directions_ = self._directions(learned, means)
        rotation = random_rotation(self.dim_, self.seed) if self.rotate == "random" else None
        self.segments_ = {
            name: self._store(name, rows, learned[name], means[name], rotation, added.get(name))
            for name, rows in stored.items()
        }
        return self

    def search(
        self,
        queries: Array,
        k: int = 10,
        only: str | None = None,
        *,
        pool: int | None = None,
        modality: str | None = None,
        at_most: float | None = None,
    ) -> Hits:
        """The k best documents of each query, best first; ids are row numbers in their modality.

        Parameters
        ----------
        queries : (n, d) array
            Query vectors of any modality, as they are; raw ones where there is a correction.
        k : int
            How many documents to find.
        only : str, optional
            Search one modality.
        pool : int, optional
            Let FAISS propose so many documents of each modality by the quantised remainder alone
            and score only these in full: faster for few queries, and approximate. Without it
            every document is scored.
        modality : str, optional
            That of the queries, where there is a correction that serves more than one.
        at_most : float, optional
            Leave out results with more expected wrong results than this, with a correction that
            has a background.
        """
        segments = self._segments(only)
        rows = self._asked(_numpy_rows(queries, "queries"), modality)
        if rows.shape[1] != self.dim_:
            raise InputValueError(
                f"The index holds rows of {self.dim_} columns, but queries has {rows.shape[1]}. "
                "Embed both with the same model."
            )
        check_products(rows, "queries")
        check_count(k, "k", at_most=self.count(only))
        if pool is not None:
            check_count(pool, "pool", at_least=k)
        background = None if self.correction_ is None else self.correction_.background
        if background is None:
            if at_most is not None:
                raise InputValueError(NO_BACKGROUND)
            lists = {name: one.search(rows, k, pool) for name, one in segments.items()}
            names = [np.full(found.shape, name) for name, (found, _) in lists.items()]
            ids, scores = (np.hstack([one[place] for one in lists.values()]) for place in (0, 1))
            return best_of(ids, scores, np.hstack(names), k)
        lists = {}
        for name, segment in segments.items():
            wanted = max(k, background.list_of(name).places)
            lists[name] = segment.search(rows, wanted, None if pool is None else max(pool, wanted))
        return merge_checked(lists, k, background, at_most=at_most)

    @property
    def bytes_per_vector(self) -> int:
        """What one document takes: its code, its exact coordinates, its hubness, its length."""
        return next(iter(self._segments().values())).bytes_per_vector

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities stored."""
        return tuple(self._segments())

    def count(self, only: str | None = None) -> int:
        """How many documents are stored, of one modality or in all."""
        return sum(len(segment) for segment in self._segments(only).values())

    def faiss_index(self, modality: str) -> Any:
        """The FAISS index that holds the codes of one modality."""
        return self._segments()[check_choice(modality, "modality", self.names)].index

    def _segments(self, only: str | None = None) -> dict[str, Segment]:
        if not hasattr(self, "segments_"):
            raise NotFitted("This QuantisedIndex has not been fitted. Call fit(documents) first.")
        if only is None:
            return self.segments_
        return {only: self.segments_[check_choice(only, "only", tuple(self.segments_))]}

    def _mapped(
        self, rows: Mapping[str, np.ndarray], source: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Rows as documents, and apart from them their column of hubs, for those of a source."""
        correction = self.correction_
        if correction is None:
            return {**rows}, {}
        mapped = {name: correction.affine(name)(one, name) for name, one in rows.items()}
        if correction.hubs is None or source is None:
            return mapped, {}
        keys = {
            name: own_keys(correction, Embeddings.of(source[name], name), name) for name in mapped
        }
        return mapped, {
            name: correction.hubs.column(one, keys[name]) for name, one in mapped.items()
        }

    def _asked(self, queries: np.ndarray, modality: str | None) -> np.ndarray:
        """Queries as the documents are stored, without the 1 in the column of hubs."""
        if self.correction_ is None:
            return queries
        served = dict.fromkeys(self.correction_.queries, self.correction_)
        asking = query_modality(served, modality)
        return np.asarray(self.correction_.affine(asking, "query")(queries, "queries"))

    def _means_of_queries(self) -> list[np.ndarray]:
        """Where the queries lie that a correction was fitted on, as it maps them.

        Without a correction they lie where the documents of their modality do.
        """
        found = []
        if self.correction_ is not None:
            known = {**self.correction_.fitted, **self.correction_.fitted_queries}
            for name in self.correction_.queries:
                if name in known:
                    affine = self.correction_.affine(name, "query")
                    straight = replace(affine, normalise=False, renormalise=False)
                    found.append(straight(known[name].mean[None, :])[0])
        return found

    def _directions(
        self, learned: Mapping[str, np.ndarray], means: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Orthonormal columns: the span of the means, then the leading directions that are left."""
        if not self.centre:
            return np.zeros((self.dim_, 0))
        spanning = [*means.values(), *self._means_of_queries()]
        left, singular, _ = np.linalg.svd(np.stack(spanning, 1), full_matrices=False)
        # What is left of means that a correction took out is rounding.
        basis = left[:, singular > 1e-6 * max(float(singular[0]), 1e-30)]
        if basis.shape[1] + self.exact >= self.dim_:
            raise InputValueError(
                f"{basis.shape[1]} means and exact={self.exact} leave nothing to quantise of "
                f"{self.dim_} columns. Use a smaller exact, or centre=False."
            )
        if self.exact:
            scatter = sum(
                centred.T @ centred / len(centred)
                for centred in (rows - means[name] for name, rows in learned.items())
            )
            keep = np.eye(self.dim_) - basis @ basis.T
            _, vectors = np.linalg.eigh(keep @ scatter @ keep)
            # Again orthogonal to the means, to the last digit.
            basis = np.linalg.qr(np.hstack([basis, vectors[:, : -self.exact - 1 : -1]]))[0]
        return basis

    def _store(
        self,
        name: str,
        rows: np.ndarray,
        learned: np.ndarray,
        mean: np.ndarray,
        rotation: np.ndarray | None,
        added: np.ndarray | None,
    ) -> Segment:
        """Train on the learned rows of one modality, then encode its documents in blocks."""
        coordinates, residuals = along_directions(learned, mean, self.directions_)
        if self.rotate == "learned":
            rotation = learned_rotation(residuals, self.bits, self.subspaces, self.seed)
        turned = turn(residuals, rotation)
        index = train_codes(self.bits, turned, self.subspaces, self.seed)
        with_lengths = self.centre and self.bits in ("1bit", "pq")
        # Half precision of what has been brought to the size of 1 cannot overflow.
        unit_length = float(lengths_of(turned, index).mean()) or 1.0 if with_lengths else 1.0
        sizes = np.abs(coordinates).max(axis=0, initial=0.0)
        sizes = np.where(sizes > 0, sizes, 1.0)
        exact, lengths = [], []
        level = None if added is None else float(added.mean(dtype=np.float64))
        for block in row_blocks(len(rows), BLOCK_ROWS):
            coordinates, residuals = along_directions(rows[block], mean, self.directions_)
            turned = turn(residuals, rotation)
            check_mapped(turned, name, first_row=block.start)
            index.add(turned)
            kept = [coordinates / sizes]
            if with_lengths:
                kept.append(lengths_of(turned, index)[:, None] / unit_length)
            with np.errstate(over="ignore"):
                halves = np.hstack(kept).astype(np.float16)
            check_mapped(halves, name, first_row=block.start)
            exact.append(halves[:, : coordinates.shape[1]])
            lengths.append(halves[:, coordinates.shape[1] :])
        beside = np.concatenate(exact)
        if added is not None:
            check_mapped(added[:, None], name)
            column = added - level
            size = float(np.abs(column).max()) or 1.0
            beside = np.hstack([beside, (column / size).astype(np.float16)[:, None]])
            sizes = np.append(sizes, size)
        return Segment(
            mean=mean,
            directions=self.directions_,
            rotation=rotation,
            index=index,
            exact=beside,
            sizes=sizes,
            level=level,
            lengths=np.concatenate(lengths)[:, 0] if with_lengths else None,
            unit_length=unit_length,
        )


def _check_modalities(given: Any, what: str) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping) or not given:
        raise InputTypeError(
            f'{what} must give the rows of each modality by its name, {{"image": X, "text": Y}}, '
            f"got {type(given).__name__}."
        )
    rows = {str(name): _numpy_rows(value, f"{what}[{name!r}]") for name, value in given.items()}
    columns = {name: value.shape[1] for name, value in rows.items()}
    if len(set(columns.values())) > 1:
        raise InputValueError(
            f"All modalities must have the same number of columns, got {columns}. "
            "Embed them with the same model."
        )
    return rows


def _numpy_rows(value: Any, name: str) -> np.ndarray:
    rows = value.rows() if isinstance(value, Embeddings) else value
    return np.asarray(to_numpy(check_rows(rows, name)))
