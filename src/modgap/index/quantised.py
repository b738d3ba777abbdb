"""Documents of each modality in few bits, with what the modality gap costs taken out first.

A score splits into what is known exactly and a remainder. With μ the mean of the document's
modality and P the projection on the span of all modalities' means,

    q · v  =  q · μ  +  Pq · P(v − μ)  +  (q − Pq) · (v − μ − P(v − μ)).

The first term is one number per query and modality. The second needs one number per document for
each direction of P, kept in half precision. Only the third is quantised, and there neither the
documents nor the queries carry a mean: the error of a quantised score grows with the length of the
query that is multiplied with it, and most of a CLIP query's length is its modality's mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from modgap._arrays import row_blocks, to_numpy
from modgap._validate import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_rows,
    require,
)
from modgap.corrections.base import NotFitted
from modgap.index.quantised_codes import BITS, Bits, check_subspaces, train_codes
from modgap.index.quantised_part import BLOCK_ROWS, Part, float32, lengths_of, split
from modgap.index.rotation import (
    ROTATIONS,
    Rotate,
    product_rotation,
    random_rotation,
    sign_rotation,
)
from modgap.search.hits import Hits
from modgap.search.merging import best_of


class QuantisedIndex:
    """An index of quantised documents whose scores are estimates of the inner product q · v.

    ``bits``: ``"int8"``, ``"4bit"``, ``"1bit"``, ``"pq"`` or ``"rabitq"``, see ``train_codes``.
    ``centre`` takes each modality's mean out of the documents and all means' directions out of
    what is quantised (see above); for ``"1bit"`` and ``"pq"`` it also keeps a length per document,
    as RaBitQ does, that makes up for what a code shrinks. ``exact`` keeps that many leading
    directions of the residuals besides, 2 bytes per document each. ``rotate`` turns the residuals:
    ``"random"``, or ``"learned"`` (for signs, or for the product quantiser). Queries stay floats.

    With ``centre=False, rotate="none"`` it is the plain FAISS index of that kind.
    """

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

    def fit(self, documents: Mapping[str, Array], train: Mapping[str, Array] | None = None) -> Self:
        """Learn means, directions, rotation and ranges, and store the documents.

        ``documents`` has the rows of each modality by its name. They are learned from ``train``,
        by default from the documents themselves. ``train`` may hold modalities that only ask:
        their means are taken out of the queries too.
        """
        require("faiss", "faiss", "A quantised index")
        check_choice(self.bits, "bits", BITS)
        check_choice(self.rotate, "rotate", ROTATIONS)
        check_count(self.exact, "exact", at_least=0)
        if self.exact and not self.centre:
            raise InputValueError("exact keeps directions of centred rows; it needs centre=True.")
        stored = _check_modalities(documents, "documents")
        learned = stored if train is None else _check_modalities(train, "train")
        self.dim_ = next(iter(stored.values())).shape[1]
        for name in stored:
            check_choice(name, "documents", tuple(learned))
        if next(iter(learned.values())).shape[1] != self.dim_:
            raise InputValueError(
                f"train must have the {self.dim_} columns of the documents, "
                f"got {next(iter(learned.values())).shape[1]}."
            )
        zero = np.zeros(self.dim_)
        means = {
            name: rows.mean(axis=0, dtype=np.float64) if self.centre else zero
            for name, rows in learned.items()
        }
        self.directions_ = self._directions(learned, means)
        turn = random_rotation(self.dim_, self.seed) if self.rotate == "random" else None
        self._parts = {
            name: self._store(rows, learned[name], means[name], turn)
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
    ) -> Hits:
        """The k best documents of each query, best first; ids are row numbers in their modality.

        ``only`` searches one modality. Every document is scored unless ``pool`` is given: then
        FAISS's own search proposes that many of each modality by the quantised remainder alone,
        and these are scored in full; faster for few queries, and near rather than exact.
        """
        parts = self._fitted()
        if only is not None:
            parts = {only: parts[check_choice(only, "only", tuple(parts))]}
        rows = _numpy_rows(queries, "queries")
        if rows.shape[1] != self.dim_:
            raise InputValueError(
                f"The index holds rows of {self.dim_} columns, but queries has {rows.shape[1]}. "
                "Embed both with the same model."
            )
        check_count(k, "k", at_most=sum(part.n for part in parts.values()))
        if pool is not None:
            check_count(pool, "pool", at_least=k)
        ids, scores, names = [], [], []
        for name, part in parts.items():
            found, values = part.search(rows, self.directions_, k, pool)
            ids.append(found)
            scores.append(values)
            names.append(np.full(found.shape, name))
        return best_of(np.hstack(ids), np.hstack(scores), np.hstack(names), k)

    @property
    def bytes_per_vector(self) -> int:
        """What one document takes: its code, its exact coordinates, its length."""
        part = next(iter(self._fitted().values()))
        return part.code_bytes + part.exact.itemsize * part.exact.shape[1] + part.length_bytes

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities stored."""
        return tuple(self._fitted())

    def count(self, only: str | None = None) -> int:
        """How many documents are stored, of one modality or in all."""
        parts = self._fitted()
        if only is not None:
            return parts[check_choice(only, "only", tuple(parts))].n
        return sum(part.n for part in parts.values())

    def faiss_index(self, modality: str) -> Any:
        """The FAISS index that holds the codes of one modality."""
        parts = self._fitted()
        return parts[check_choice(modality, "modality", tuple(parts))].index

    def _fitted(self) -> dict[str, Part]:
        if not hasattr(self, "_parts"):
            raise NotFitted("This QuantisedIndex has not been fitted. Call fit(documents) first.")
        return self._parts

    def _directions(
        self, learned: Mapping[str, np.ndarray], means: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Orthonormal columns: the span of the means, then the leading directions that are left."""
        if not self.centre:
            return np.zeros((self.dim_, 0))
        left, singular, _ = np.linalg.svd(np.stack(list(means.values()), 1), full_matrices=False)
        basis = left[:, singular > 1e-9 * max(float(singular[0]), 1e-30)]
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
        self, rows: np.ndarray, learned: np.ndarray, mean: np.ndarray, turn: np.ndarray | None
    ) -> Part:
        """Train on the learned rows of one modality, then encode its documents in blocks."""
        coordinates, residuals = split(learned, mean, self.directions_)
        if self.rotate == "learned":
            turn = self._learned_rotation(residuals)
        turned = float32(residuals if turn is None else residuals @ turn.T)
        index = train_codes(self.bits, turned, self.subspaces, self.seed)
        with_lengths = self.centre and self.bits in ("1bit", "pq")
        # Half precision of what has been brought to the size of 1 cannot overflow.
        unit_length = float(lengths_of(turned, index).mean()) or 1.0 if with_lengths else 1.0
        sizes = np.abs(coordinates).max(axis=0, initial=0.0)
        sizes = np.where(sizes > 0, sizes, 1.0)
        exact, lengths = [], []
        for block in row_blocks(len(rows), BLOCK_ROWS):
            coordinates, residuals = split(rows[block], mean, self.directions_)
            turned = float32(residuals if turn is None else residuals @ turn.T)
            index.add(turned)
            exact.append((coordinates / sizes).astype(np.float16))
            if with_lengths:
                lengths.append((lengths_of(turned, index) / unit_length).astype(np.float16))
        return Part(
            mean=mean,
            rotation=turn,
            index=index,
            exact=np.concatenate(exact),
            sizes=sizes,
            lengths=np.concatenate(lengths) if with_lengths else None,
            unit_length=unit_length,
        )

    def _learned_rotation(self, residuals: np.ndarray) -> np.ndarray:
        if self.bits == "pq":
            return product_rotation(residuals, check_subspaces(self.subspaces, self.dim_))
        return sign_rotation(residuals, self.seed)


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
    return np.asarray(to_numpy(check_rows(value, name)))
