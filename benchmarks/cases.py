"""What is timed against the bare work that it cannot do without, in one process."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from case import Case, blocked_product, pairs, unit
from case import rows as _rows
from modgap import Calibrate, Modalities, diagnose, measure, open_embeddings, retrieval
from modgap.corrections import Correction, ExpectedWrong, Hubs
from modgap.corrections.list_background import list_background
from modgap.evaluation import Gaussian, robustness
from modgap.measures import cone
from modgap.moments import Moments, PairMoments

# Where the rows of an index lie in memory moves the time of a search by a tenth: copies take turns.
_COPIES = 3


def measure_case(scale: float) -> Case:
    n = round(20_000 * scale)
    X, Y = pairs(n)
    return Case(
        f"measure, {n:,} pairs × 512",
        "its three bare products",
        lambda: measure(X, Y),
        lambda: three_products(X, Y),
        2.5,
        300,
    )


def diagnose_case(scale: float) -> Case:
    n = round(20_000 * scale)
    X, Y = pairs(n)
    return Case(
        f"diagnose, {n:,} pairs × 512",
        "the three bare products of X Yᵀ, X Xᵀ and Y Yᵀ",
        lambda: diagnose(X, Y),
        lambda: three_products(X, Y),
    )


def duplicates_case(scale: float) -> Case:
    """Copies found and grouped before anything is split, as `diagnose` does first."""
    data = Modalities.of(*pairs(round(100_000 * scale)))
    return Case(
        f"copies found, {data.n_groups:,} pairs × 512",
        "`diagnose` of the same rows, without",
        data.with_duplicates_grouped,
        lambda: diagnose(data, group_duplicates=False),
        0.05,
        once=True,
    )


def three_products(X: np.ndarray, Y: np.ndarray) -> None:
    for A, B in ((X, Y), (X, X), (Y, Y)):
        blocked_product(A, B)


def cone_case(scale: float) -> Case:
    n = round(30_000 * scale)
    X = _rows(n, 512, 0) + 0.5
    return Case(
        f"cone, {n:,} × 512",
        "the full blocked product",
        lambda: cone(X),
        lambda: blocked_product(X, X),
        1.2,
        300,
    )


def retrieval_case(scale: float) -> Case:
    import faiss

    n = round(25_000 * scale)
    X = unit(_rows(n, 512, 0))
    Y = unit(X + np.float32(0.05) * _rows(n, 512, 1))
    indexes = []
    for documents in (X, Y):
        index = faiss.IndexFlatIP(512)
        index.add(documents)
        indexes.append(index)

    def two_searches() -> None:
        indexes[0].search(Y, 10)
        indexes[1].search(X, 10)

    return Case(
        f"retrieval both ways, {n:,} × {n:,} × 512",
        "two FAISS IndexFlatIP searches",
        lambda: retrieval(X, Y),
        two_searches,
        1.3,
        200,
    )


def robustness_case(scale: float) -> Case:
    draws = max(2, round(100 * scale))
    queries, candidates = _rows(10_000, 512, 0), _rows(1_000, 512, 1)
    amounts = np.linspace(-1, 1, 21)

    def products() -> None:
        for _ in range(draws):
            queries @ candidates.T

    return Case(
        f"robustness, {draws} draws × 21 amounts, 10,000 × 1,000 × 512",
        f"its {draws} bare products",
        lambda: robustness(queries, candidates, Gaussian(0.1), draws=draws, amounts=amounts),
        products,
        3.0,
        None,
    )


def _file_of_rows(folder: str, n: int) -> Path:
    path = Path(folder) / "rows.npy"
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, 512))
    for start in range(0, n, 10_000):
        out[start : start + 10_000] = _rows(min(10_000, n - start), 512, start)
    out.flush()
    return path


def moments_case(scale: float) -> Case:
    n = round(500_000 * scale)
    folder = tempfile.TemporaryDirectory()
    path = _file_of_rows(folder.name, n)
    held: list[np.ndarray] = []

    def from_file(keep: object = folder) -> None:
        Moments.from_batches(open_embeddings(path).batches())

    def in_memory() -> None:
        if not held:  # loaded late, so that it does not count as memory of the streamed run
            held.append(np.load(path))
        size = len(next(open_embeddings(path).batches()))
        Moments.from_batches(held[0][i : i + size] for i in range(0, n, size))

    return Case(
        f"moments of a {n:,} × 512 .npy",
        "the same blocks in memory",
        from_file,
        in_memory,
        1 / 0.8,
        250,
    )


def calibrate_case(scale: float) -> Case:
    n = round(250_000 * scale)
    folder = tempfile.TemporaryDirectory()
    path = _file_of_rows(folder.name, n)

    def moments(keep: object = folder) -> PairMoments:
        both = [Moments.from_batches(open_embeddings(path).batches()) for _ in range(2)]
        return PairMoments(*both)

    return Case(
        f"calibrating on two files of {n:,} × 512",
        "one streaming pass over each",
        lambda: Calibrate().fit_moments(moments()),
        moments,
        1.05,
        None,
    )


def corrected_search_case(scale: float) -> Case:
    return _search_case(scale, Calibrate(), "a corrected FAISS index", 1.05)


def hub_search_case(scale: float) -> Case:
    return _search_case(scale, Calibrate(hubs=0.5), "a FAISS index with a column of hubs", 1.15)


def _search_case(scale: float, corrector: Calibrate, through: str, limit: float) -> Case:
    import faiss

    from modgap.index import open_index

    n = round(100_000 * scale)
    documents, queries = _rows(n, 512, 0), _rows(1_000, 512, 1)
    correction = corrector.fit(documents[: n // 2], documents[n // 2 :]).correction_
    folder = tempfile.TemporaryDirectory()
    plain = faiss.IndexFlatIP(512)
    plain.add(documents)
    uncorrected = str(Path(folder.name) / "uncorrected.faiss")
    faiss.write_index(plain, uncorrected)
    del plain
    path = Path(folder.name) / "documents.faiss"
    with open_index(path, correction, create=True) as index:
        index.write(documents[: n // 2], "image")
        index.write(documents[n // 2 :], "text")
    plain_ones = cycle([faiss.read_index(uncorrected) for _ in range(_COPIES)])
    corrected_ones = cycle([open_index(path, correction) for _ in range(_COPIES)])
    return Case(
        f"search through {through}, 1,000 × {n:,} × 512",
        "the same index uncorrected",
        lambda keep=folder: next(corrected_ones).search(queries, "text", 10),
        lambda: next(plain_ones).search(queries, 10),
        limit,
        None,
    )


def hubness_case(scale: float) -> Case:
    n = round(100_000 * scale)
    documents, bank = _rows(n, 512, 0), _rows(2_000, 512, 1)
    hubs = Hubs(0.5, 10, bank, np.arange(2_000), "row")
    keys = np.arange(n)
    bare = bank.astype(np.float16).astype(np.float32)
    return Case(
        f"hubness of {n:,} documents on a bank of 2,000 queries, × 512",
        "the bare product",
        lambda: hubs.column(documents, keys),
        lambda: blocked_product(documents, bare),
        2.0,
        None,
    )


def expected_wrong_case(scale: float, n: int = 100_000, by: str = "exact") -> Case:
    """One search merged by expected wrong results against one of each modality, without."""
    from modgap.index import open_index
    from modgap.search import search, search_corrected

    n = round(n * scale)
    correction, documents, queries = _with_bank(n // 2)
    plain = replace(correction, background=None)
    what = f"search by expected wrong results, {by}, 1,000 × {n:,} × 64"
    if by == "FAISS":
        folder = tempfile.TemporaryDirectory()
        path = Path(folder.name) / "documents.faiss"
        with open_index(path, correction, create=True) as index:
            index.write_all(documents, trust_rows=True)
        judged, unjudged = open_index(path, correction), open_index(path, plain)
        return Case(
            what,
            "two searches for 30 without",
            lambda keep=folder: judged.search(queries, "text", 10),
            lambda: [unjudged.search(queries, "text", 30, name) for name in documents],
            1.05,
            None,
        )
    stored = {name: correction.apply(rows, name) for name, rows in documents.items()}
    asked = correction.apply(queries, "text", "query")
    return Case(
        what,
        "two searches for 30 without",
        lambda: search_corrected(correction, queries, stored, 10, modality="text"),
        lambda: [search(asked, rows, 30, "inner_product") for rows in stored.values()],
        1.05,
        None,
    )


def _with_bank(n: int) -> tuple[Correction, dict[str, np.ndarray], np.ndarray]:
    """A correction with a bank of 1,000 queries, n documents of each modality, 1,000 queries."""
    X, Y = pairs(n + 2_000, 64)
    documents = {"image": X[2_000:], "text": Y[2_000:]}
    fitted = ExpectedWrong().fit(documents, queries="text", bank=Y[:1_000])
    return fitted.correction_, documents, Y[1_000:2_000]


def bank_case(scale: float) -> Case:
    """All that a bank says of one list, against one search with its queries."""
    from modgap.search import search

    n = round(1_000_000 * scale)
    correction, documents, _ = _with_bank(n)
    hubs, rows = correction.hubs, documents["image"]
    assert hubs is not None
    bank = hubs.check_bank().astype(np.float32)
    return Case(
        f"a bank of 1,000 queries searched in {n:,} × 64, with hubs",
        "one exact search with its queries",
        lambda: list_background(hubs, [(rows, None)], may_match=True),
        lambda: search(bank, rows, 60, "inner_product"),
        5.0,
        None,
    )


def equal_ranks_case(scale: float) -> Case:
    n = round(12_000 * scale)
    (X, Y), (one, other) = ((_rows(n, 512, 0), _rows(n, 512, 1)), _equal(n))
    return Case(
        f"retrieval both ways of {n:,} equal rows, × 512",
        "the same of distinct rows",
        lambda: retrieval(one, other),
        lambda: retrieval(X, Y),
        3.0,
        None,
    )


def equal_search_case(scale: float) -> Case:
    from modgap.search import search

    n = round(12_000 * scale)
    (X, Y), (one, other) = ((_rows(n, 512, 0), _rows(n, 512, 1)), _equal(n))
    return Case(
        f"exact search of {n:,} equal rows, × 512",
        "the same of distinct rows",
        lambda: search(one, other),
        lambda: search(X, Y),
        3.0,
        None,
    )


def _equal(n: int) -> tuple[np.ndarray, np.ndarray]:
    one, other = (np.repeat(_rows(1, 512, seed), n, axis=0) for seed in (0, 1))
    return one, other


CASES = {
    "measure": measure_case,
    "diagnose": diagnose_case,
    "duplicates": duplicates_case,
    "cone": cone_case,
    "retrieval": retrieval_case,
    "robustness": robustness_case,
    "moments": moments_case,
    "calibrate": calibrate_case,
    "search": corrected_search_case,
    "hub-search": hub_search_case,
    "hubness": hubness_case,
    "expected-wrong": expected_wrong_case,
    "expected-wrong-faiss": partial(expected_wrong_case, by="FAISS"),
    "expected-wrong-million": partial(expected_wrong_case, n=1_000_000),
    "bank": bank_case,
    "equal-ranks": equal_ranks_case,
    "equal-search": equal_search_case,
}
