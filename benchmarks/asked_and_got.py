"""Counts of wrong results, and whether there is a match at all; for expected_wrong.py.

One list at a time: the documents of one modality, asked by the other. Half of the groups that ask
have no match in the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from modgap.corrections import Background
from modgap.corrections.background import FOREIGN_LEAST, FOREIGN_SHARE
from modgap.corrections.list_background import PLACES, Levels
from modgap.search import ScoreCalibrator, judge_hits

ASKED = (0.5, 1.0, 5.0)
DEPTH = 100
MODALITIES = ("image", "text")
HUBS = 0.25
FEWEST_LABELLED = 30


@dataclass(frozen=True, eq=False)
class OneList:
    """Queries and their groups, documents and theirs; ``log`` are documents of the bank's groups.

    ``pairs`` are labelled queries and documents of the bank's half, half of them without a match.
    """

    queries: np.ndarray
    groups: np.ndarray
    documents: np.ndarray
    owners: np.ndarray
    bank: np.ndarray
    log: np.ndarray
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

    @property
    def has_match(self) -> np.ndarray:
        return np.isin(self.groups, self.owners)


def one_list(data, asking: int, rng: np.random.Generator, others: np.ndarray | None) -> OneList:
    """Half of the groups ask; half of those have documents, beside others that nobody asks for."""
    fit, index = data.halves(rng)
    kept = [half_of(part.groups[1 - asking], rng) for part in (fit, index)]
    rows, owners = (part[1 - asking][kept[1]] for part in (index.rows, index.groups))
    pair_rows, pair_owners = (part[1 - asking][kept[0]] for part in (fit.rows, fit.groups))
    if others is not None:
        rows, pair_rows = np.vstack([rows, others]), np.vstack([pair_rows, others])
        owners, pair_owners = (np.append(o, [-1] * len(others)) for o in (owners, pair_owners))
    return OneList(
        index.rows[asking], index.groups[asking], rows, owners, fit.rows[asking],
        fit.rows[1 - asking], (fit.rows[asking], fit.groups[asking], pair_rows, pair_owners),
    )  # fmt: skip


def half_of(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    labels = rng.permutation(np.unique(groups))
    return np.isin(groups, labels[: len(labels) // 2])


def best_of(scores: np.ndarray, owners: np.ndarray, groups: np.ndarray) -> tuple:
    """The best scores of each query, and which of them are matches."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    best = np.take_along_axis(scores, order, axis=1).astype(np.float64)
    return best, owners[order] == groups[:, None]


def counted(passes: np.ndarray, right: np.ndarray, has_match: np.ndarray) -> tuple[float, float]:
    """Wrong results a query, and the share of queries with a match that get one."""
    return float(np.mean(np.sum(passes & ~right, axis=1))), float(
        np.mean(np.any(passes & right, axis=1)[has_match])
    )


def by_threshold(values: np.ndarray, known: np.ndarray, wrong: np.ndarray) -> list[np.ndarray]:
    """Values at or above the threshold where ``known`` queries get as many wrong ones as asked."""
    ranked, found = np.sort(known[wrong])[::-1], []
    for asked in ASKED:
        place = min(max(round(asked * len(known)), 1), len(ranked)) - 1
        found.append(values >= ranked[place])
    return found


def cuts(one: OneList) -> dict[str, list[tuple[float, float]]]:
    """For each way to cut, wrong results and recall at each number asked for."""
    found: dict[str, list] = {}
    logged = np.vstack([one.documents, one.log])
    of_log = np.append(one.owners, np.full(len(one.log), -2))
    for name, documents, owners, may_match in (
        ("by E", one.documents, one.owners, False), ("by E, a log", logged, of_log, True)
    ):  # fmt: skip
        background = Background.fit({"x": documents}, one.bank, HUBS, may_match=may_match)
        scores = background.queries(one.queries) @ background.documents("x").T
        best, right = best_of(scores, owners, one.groups)
        expected, surprise = background.judged(best, "x")
        found[name] = [counted(expected <= asked, right, one.has_match) for asked in ASKED]
        chance = background.chance({"x": surprise})
        shown = [chance <= -np.expm1(-asked) for asked in ASKED]
        first = np.arange(best.shape[1]) == 0
        found[f"{name}, and nothing found"] = [
            counted(((expected <= asked) | first) & one_shown[:, None], right, one.has_match)
            for asked, one_shown in zip(ASKED, shown, strict=True)
        ]
    cosines = one.queries @ one.documents.T
    best, right = best_of(cosines, one.owners, one.groups)
    expected = Levels.of(best, PLACES).expected_without_bank(best)
    found["by E, no bank"] = [counted(expected <= asked, right, one.has_match) for asked in ASKED]
    of_bank, _ = best_of(one.bank @ one.documents.T, one.owners, np.full(len(one.bank), -3))
    every = np.ones(of_bank.shape, dtype=bool)
    z, z_bank = ((s - s.mean(axis=1, keepdims=True)) / s.std(axis=1, keepdims=True)
                 for s in (best, of_bank))  # fmt: skip
    ways = {"flat cosine, bank's tail": (best, of_bank, every, right),
            "query z, bank's tail": (z, z_bank, every, right)}  # fmt: skip
    if len(one.pairs[0]) >= FEWEST_LABELLED:
        queries, groups, documents, owners = one.pairs
        k = min(PLACES, len(owners), len(one.documents))
        hits = judge_hits(queries, documents, (groups, owners), pair=("a", "b"), k=k)
        calibrator = ScoreCalibrator(k=k).fit(hits)
        known, here = calibrator.predict(hits.scores), calibrator.predict(best[:, :k])
        ways["calibrated on pairs"] = here, known, ~hits.matches, right[:, :k]
    for name, (values, known, wrong, truth) in ways.items():
        passed = by_threshold(values, known, wrong)
        found[name] = [counted(passes, truth, one.has_match) for passes in passed]
    return found


def signals(one: OneList, has_match: np.ndarray, may_match: bool = False) -> dict[str, float]:
    """AUROC of "is there a match", and the queries for which ``at_most=1`` finds something."""
    from sklearn.metrics import roc_auc_score

    documents = np.vstack([one.documents, one.log]) if may_match else one.documents
    background = Background.fit({"x": documents}, one.bank, HUBS, may_match=may_match)
    scores = background.queries(one.queries) @ background.documents("x").T
    best = -np.sort(-scores, axis=1)[:, :DEPTH].astype(np.float64)
    expected, surprise = background.judged(best, "x")
    cosine = np.max(one.queries @ documents.T, axis=1)
    found = background.chance({"x": surprise}) <= -np.expm1(-1)
    return {
        "least E": float(roc_auc_score(has_match, -np.log(expected[:, 0]))),
        "best cosine": float(roc_auc_score(has_match, cosine)),
        "all": float(roc_auc_score(has_match, surprise)),
        "found with a match": float(np.mean(found[has_match])),
        "found without": float(np.mean(found[~has_match])),
    }


def lists_at_hand(sets: dict, imagenet: str, unsplash: str) -> Iterator[tuple]:
    """Name, rows, asking side and other documents."""
    for title, data in sets.items():
        for asking in (1, 0):
            yield f"{title}, {MODALITIES[asking]} asks", data, asking, None
    for asking in (1, 0):
        name = f"{unsplash} among ImageNet, {MODALITIES[asking]} asks"
        yield name, sets[unsplash], asking, sets[imagenet].rows[1 - asking]


def run_asked(sets: dict, splits: int, imagenet: str, unsplash: str) -> Iterator[tuple[str, dict]]:
    """Wrong results and recall, (splits, asked) each, for each way to cut."""
    for name, data, asking, others in lists_at_hand(sets, imagenet, unsplash):
        runs, n_bank = [], 0
        for seed in range(splits):
            one = one_list(data, asking, np.random.default_rng(seed), others)
            runs.append(cuts(one))
            n_bank = len(one.bank)
        figures = {way: np.array([run[way] for run in runs]).tolist() for way in runs[0]}
        yield name, figures | {"bank": n_bank}


def run_match(sets: dict, splits: int, imagenet: str, unsplash: str) -> Iterator[tuple[str, dict]]:
    """AUROC for each split: matches removed, and queries about another set."""
    for name, data, asking, others in lists_at_hand(sets, imagenet, unsplash):
        for log in (False, True):
            runs = []
            for seed in range(splits):
                one = one_list(data, asking, np.random.default_rng(seed), others)
                runs.append(signals(one, one.has_match, log))
            what = "match removed" + (", a log" if log else "")
            yield f"{what}: {name}", {key: [run[key] for run in runs] for key in runs[0]}
    for title, other in ((unsplash, imagenet), (imagenet, unsplash)):
        for asking in (1, 0):
            runs = []
            for seed in range(splits):
                rng = np.random.default_rng(seed)
                fit, index = sets[title].halves(rng)
                strange = sets[other].rows[asking]
                strange = strange[rng.permutation(len(strange))[: len(index.rows[asking])]]
                queries = np.vstack([index.rows[asking], strange])
                has_match = np.arange(len(queries)) < len(index.rows[asking])
                one = OneList(queries, has_match, index.rows[1 - asking], has_match[:0],
                              fit.rows[asking], has_match[:0], (queries,) * 4)  # fmt: skip
                runs.append(signals(one, has_match))
            name = f"foreign topic: {title}, {MODALITIES[asking]} asks"
            yield name, {key: [run[key] for run in runs] for key in runs[0]}


def run_bank(sets: dict, draws: int, imagenet: str, unsplash: str) -> Iterator[tuple[str, dict]]:
    """Got / asked by the size of the bank, and how often a bank's kind is noticed."""
    for size in (20, 50, 100, 200, 1000):
        got = []
        for _, data, asking, _ in lists_at_hand(sets, imagenet, unsplash):
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                one = one_list(data, asking, rng, None)
                bank = one.bank
                if size == 1000 and data.wordings is not None and asking == 1:
                    fit, _ = data.halves(np.random.default_rng(seed))
                    bank = np.vstack([bank, fit.wordings[0]])
                if len(bank) < size or len(one.documents) < 2 * PLACES:
                    continue
                drawn = bank[rng.permutation(len(bank))[:size]]
                background = Background.fit({"x": one.documents}, drawn, HUBS)
                scores = background.queries(one.queries) @ background.documents("x").T
                best, right = best_of(scores, one.owners, one.groups)
                expected, _ = background.judged(best, "x")
                got.append([
                    counted(expected <= asked, right, one.has_match)[0] / asked for asked in ASKED
                ])  # fmt: skip
        yield f"size {size}", {"got / asked": got}
    yield from _kinds(sets, draws)


def _kinds(sets: dict, draws: int) -> Iterator[tuple[str, dict]]:
    noticed: dict[str, list[float]] = {}
    for title, data in sets.items():
        for asking in (1, 0):
            for seed in range(10 * draws):
                rng = np.random.default_rng(seed)
                order = rng.permutation(len(data.rows[asking]))
                recent, own = order[:FOREIGN_LEAST], order[FOREIGN_LEAST : FOREIGN_LEAST + 500]
                if len(own) < 100 or len(data.rows[1 - asking]) < 2 * PLACES:
                    continue
                queries, documents = data.rows[asking][recent], data.rows[1 - asking]
                banks = {"own kind": data.rows[asking][own]}
                if seed < draws:
                    for other, rows in sets.items():
                        if other != title and rows.rows[0].shape[1] == queries.shape[1]:
                            name = f"{other} for {title}, {MODALITIES[asking]} asks"
                            banks[name] = rows.rows[asking]
                for name, bank in banks.items():
                    if len(bank) >= 50:
                        share = _foreign_share(documents, bank, queries)
                        noticed.setdefault(name, []).append(share)
    for name, shares in noticed.items():
        yield f"bank of {name}", {"share": shares, "noticed": np.mean(
            np.array(shares) > FOREIGN_SHARE)}  # fmt: skip


def _foreign_share(documents: np.ndarray, bank: np.ndarray, queries: np.ndarray) -> float:
    background = Background.fit({"x": documents}, bank, HUBS)
    scores = background.queries(queries) @ background.documents("x").T
    best = -np.sort(-scores, axis=1)[:, :PLACES].astype(np.float64)
    return background.lists["x"].foreign_share(Levels.of(best, PLACES))
