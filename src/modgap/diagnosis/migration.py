"""``migrate``: may queries of a new model search the documents of an old one, while these move?

How it works:

1. Rows that both models embedded are split by group: 50 to fit, 25 to choose, 25 to confirm.
2. Each map from the queries of the new model to those of the old one (ridge at five strengths, and
   orthogonal; from rows of the query modality, or of all) is fitted on the first split. The one
   whose queries find their matches highest among the old documents of the second is chosen.
3. On the third it is judged beside the old model's own queries, in the same resamples of groups:
   the share of recall@1 that is kept, and NDCG@10 in one index. So is the new model on its own
   documents, which is what moving them gains.
4. What is written is fitted on all rows. A bank of new queries searches the documents of both
   models, so that their lists can be merged by expected wrong results while documents move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputValueError, check_count, check_finite
from modgap.core.results import Progress, changed, silent, spoken
from modgap.corrections import (
    Background,
    Correction,
    ExpectedWrong,
    check_recognised,
    query_modalities,
)
from modgap.corrections.background import hub_neighbours
from modgap.corrections.bank import with_hubs
from modgap.corrections.hubs import MIN_BANK, kept_in_bank
from modgap.corrections.list_background import PLACES
from modgap.corrections.new_model import MAP_METHODS, MapMethod, QueryMaps
from modgap.diagnosis.both_models import BothModels
from modgap.diagnosis.migration_verdict import (
    Kept,
    Migration,
    map_sentence,
    map_verdict,
    no_map_sentence,
)
from modgap.diagnosis.run import refuse_collapsed
from modgap.diagnosis.splits import in_shares
from modgap.evaluation import GroupBootstrap, Interval
from modgap.evaluation.metric_names import NDCG, directions
from modgap.evaluation.metrics import Sample, mixed_samples, recall_samples, resample
from modgap.evaluation.retrieval import Corrected, ranks_across
from modgap.index.generations import PARTS, new_list
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import check_pairing
from modgap.search.exact import best_documents

# The least share of recall@1 that must be kept, by the lower end of its interval.
KEEP = 0.8
# Groups that are used, at most and at least: half of them must make a bank.
SAMPLE, MIN_GROUPS = 10_000, 2 * MIN_BANK


def migrate(
    old: Any,
    new: Any,
    correction: Correction | None = None,
    *,
    new_correction: Correction | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    paired: bool | None = None,
    queries: str | None = None,
    keep: float = KEEP,
    sample: int = SAMPLE,
    model: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Migration:
    """Say whether queries of a new model may search documents of an old one, by a linear map.

    A sample of rows that both models embedded is enough; their widths may differ. The map is worth
    its name where at least the share ``keep`` of the old model's recall@1 is kept beyond chance.
    Else nothing is given: documents must be embedded by the new model before it can embed queries.

    Parameters
    ----------
    old, new : mapping of names to (n, d) arrays, path, table or Modalities
        The same rows by both models: those of equal ids where both have ids, else row by row.
    correction : Correction, optional
        The one that the index of old documents was built with. By default the index holds the rows
        as they are and ranks by cosine.
    new_correction : Correction, optional
        The one for the new documents; ``ExpectedWrong`` fitted on the new rows when left out.
    names, groups, paired
        Of the old rows, as for ``diagnose``.
    queries : str, optional
        The query modality; "text" where that is a name.
    keep : float
        The least share of recall@1 that must be kept, by the lower end of its 95 % interval.
    sample : int
        Use at most this many groups.
    model : str, optional
        The name of the new model, noted in the corrections.
    trust_pairs, group_duplicates, seed
        As for ``diagnose``.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    if not 0 < check_finite(keep, "keep") <= 1:
        raise InputValueError(f"keep must be above 0 and at most 1, got {keep}.")
    check_count(sample, "sample", at_least=MIN_GROUPS)
    held = Modalities.of(old, None, names, groups=groups, paired=paired)
    if held.undecided:
        raise InputValueError(held.undecided)
    asked = query_modalities(queries, held.names, correction)
    (asking,) = asked if len(asked) == 1 else query_modalities(None, asked)
    given = isinstance(new, Modalities)
    both = BothModels.of(held, new if given else Modalities.of(new, None, names, paired=False))
    known = Correction.identity(held.dim, held.names) if correction is None else correction
    _check_stored(known, both.old, asking)
    if new_correction is not None:
        _check_stored(new_correction, both.new, asking)
        new_correction = changed(new_correction, queries=(asking,))
    check_pairing(both.old, trust_pairs=trust_pairs, seed=seed)
    if both.old.paired and not trust_pairs:
        both.check_not_swapped()
    both = both.with_duplicates_grouped() if group_duplicates else both
    run = _Run(
        both=both,
        known=changed(known, queries=(asking,)),
        given=new_correction,
        model=model,
        sample=sample,
        seed=seed,
        progress=progress or silent,
    )
    for data in (run.both.old, run.both.new):
        refuse_collapsed(data.side_moments(), known.metric)
    return run.migrate(keep)


def _check_stored(correction: Correction, data: Modalities, asking: str) -> None:
    """Refuse a correction that is not of these documents."""
    if {*correction.names} != {*data.names}:
        raise InputValueError(
            f"The correction is for {spoken(correction.names)}, and the rows are "
            f"{spoken(data.names)}. Name them alike (names=…, --names)."
        )
    correction.check_serves(asking)
    for name, side in data.sides.items():
        correction.map(name).check_columns(side)
        check_recognised(correction, side, name)


class _OldDocuments:
    """Old documents of one split as they are stored, searched by queries of either model."""

    def __init__(self, rows: BothModels, stored: Correction) -> None:
        self._rows, self._stored = rows, stored
        plain = Corrected(rows.old, stored)
        self._documents = {name: plain.documents(name) for name in rows.old.names}

    def with_old_queries(self) -> Corrected:
        """Searched by the old model's queries."""
        return Corrected(self._rows.old, self._stored, documents=self._documents)

    def with_new_queries(self, correction: Correction) -> Corrected:
        """Searched by the new model's queries, which the correction maps."""
        (asking,) = correction.queries
        given = self._rows.new.sides[asking].rows()
        queries = correction.map(asking, "query").mapped(given, f"new {asking} queries")
        return Corrected(
            self._rows.old, correction, documents=self._documents, queries={asking: queries}
        )


@dataclass(eq=False)
class _Run:
    """What the steps of one migration share; ``known`` serves one query modality."""

    both: BothModels
    known: Correction
    given: Correction | None
    model: str | None
    sample: int
    seed: int
    progress: Progress

    def __post_init__(self) -> None:
        (self.asking,) = self.known.queries
        old, rng = self.both.old, np.random.default_rng(self.seed)
        groups = old.matched_groups if old.paired else np.unique(np.concatenate(old.groups))
        if len(groups) < MIN_GROUPS:
            raise InputValueError(
                f"A migration needs at least {MIN_GROUPS} groups that both models embedded, got "
                f"{len(groups)}."
            )
        chosen = rng.permutation(groups)[: self.sample]
        splits = in_shares(chosen, rng)
        self.n_groups = dict(zip(("fit", "choose", "confirm"), map(len, splits), strict=True))
        self.fit, self.choose, self.confirm = map(self.both.take, splits)
        self.both = self.both.take(chosen)

    def migrate(self, keep: float) -> Migration:
        self.progress("maps", 0, 3)
        tried = self._tried()
        method = max(tried, key=lambda one: tried[one])
        self.progress("held-out rows", 1, 3)
        recall, ndcg, own_rows = self._judged(method)
        old, new = self.both.old, self.both.new
        found = Migration(
            verdict=map_verdict(recall, own_rows, self.n_groups["confirm"], keep),
            sentence="",
            method=str(method),
            query_modality=self.asking,
            names=old.names,
            dims=(old.dim, new.dim),
            n_groups=self.n_groups,
            counted=old.counted if old.paired else "rows of each modality",
            keep=keep,
            seed=self.seed,
            recall=recall,
            ndcg=ndcg,
            own_rows=own_rows,
            tried={str(one): value for one, value in tried.items()},
        )
        if found.verdict == "leave it alone":
            return changed(found, sentence=no_map_sentence(found))
        self.progress("all rows", 2, 3)
        stored = self._maps(self.both, self.known).correction(method, **self._about(method))
        fresh = self._of_new(new)
        background = background_of_both(self.both, stored, fresh)
        if self.known.background is not None:
            lists = {name: background.list_of(f"old {name}") for name in old.names}
            stored = changed(stored, background=Background(lists))
        return changed(
            found,
            sentence=map_sentence(found, stored),
            correction=stored,
            new_correction=fresh,
            background=background,
        )

    def _about(self, method: MapMethod) -> dict[str, Any]:
        return {
            "method": "Migrate",
            "label": f"{method}, new {self.asking} queries in old documents",
            "parameters": asdict(method),
            "query_model": self.model or "the new model",
        }

    def _maps(self, rows: BothModels, stored: Correction) -> QueryMaps:
        return QueryMaps(stored, rows.old.sides, rows.new.sides)

    def _tried(self) -> dict[MapMethod, float]:
        """The mean reciprocal rank of the matches of the choose split, by each map."""
        stored = with_bank_of(self.known, self.fit.old)
        documents, maps = _OldDocuments(self.choose, stored), self._maps(self.fit, stored)
        names, found = self.both.old.names, {}
        # Without pairs the row of the old model is the one match that is known.
        ways = [(self.asking, self.asking)]
        if self.both.old.paired:
            ways = [*directions(names, [self.asking]).values()]
        for method in MAP_METHODS:
            rows = documents.with_new_queries(maps.correction(method))
            ranks = [ranks_across(rows, *way) for way in ways]
            found[method] = float(np.mean([np.mean(1 / (1.0 + one[one >= 0])) for one in ranks]))
        return found

    def _of_new(self, rows: Modalities) -> Correction:
        """The correction of new documents, given or fitted on these."""
        if self.given is not None:
            return self.given
        found, reason = ExpectedWrong().try_fit(rows, queries=self.asking, model=self.model)
        if found is None:
            raise InputValueError(reason)
        return found

    def _judged(self, method: MapMethod) -> tuple[dict[str, Kept], Kept | None, Interval]:
        """Recall and NDCG of the confirm split with what is kept of them, and the own rows."""
        stored = with_bank_of(self.known, self.fit.old)
        mapped = self._maps(self.fit, stored).correction(method)
        # Whatever background it has, that of a drawn index is made anew from the bank.
        mapped = changed(mapped, background=stored.background)
        bridge = with_bank_of(mapped, self.fit.new)
        fresh = with_bank_of(self._of_new(self.fit.new), self.fit.new)
        documents = _OldDocuments(self.confirm, stored)
        before, after = documents.with_old_queries(), documents.with_new_queries(bridge)
        bootstrap = GroupBootstrap(np.concatenate(self.confirm.old.groups), seed=self.seed)
        ranks = ranks_across(after, self.asking, self.asking)
        own = Sample((ranks == 0).astype(float), self.confirm.old.query_groups(self.asking))
        own_rows = bootstrap.interval(*resample(bootstrap, own))
        if not self.both.old.paired:
            return {}, None, own_rows
        ways = [before, after, Corrected(self.confirm.new, fresh)]
        recalls = [recall_samples(way, [self.asking]) for way in ways]
        mixed = [mixed_samples(way, [self.asking], self.seed)[NDCG] for way in ways]
        kept = {key: Kept.of(bootstrap, [one[key] for one in recalls]) for key in recalls[0]}
        return kept, Kept.of(bootstrap, mixed), own_rows


def with_bank_of(correction: Correction, data: Modalities) -> Correction:
    """The correction with the queries of these rows as its bank, where it has hubs."""
    if correction.hubs is None:
        return correction
    n = len(kept_in_bank(data.queries_of(correction.queries[0]).n_rows))
    return with_hubs(correction, data, correction.hubs.weight, hub_neighbours(n))


def background_of_both(both: BothModels, stored: Correction, fresh: Correction) -> Background:
    """What queries of the new model find in old and in new documents: "old image" and so on.

    Documents of a query's own group are left out.

    Parameters
    ----------
    both : BothModels
        Documents and queries.
    stored, fresh : Correction
        Those of the old and of the new documents, for the same queries.
    """
    (asking,) = fresh.queries
    rows, rng = both.new.queries_of(asking), np.random.default_rng(0)
    kept = kept_in_bank(rows.n_rows)
    own = both.new.query_groups(asking)[kept]
    scores, sizes = {}, {}
    for data, correction, parts in ((both.old, stored, (1,)), (both.new, fresh, PARTS)):
        asked = correction.map(asking, "query").mapped(rows.take(kept), f"{asking} queries")
        held = Corrected(data, correction)
        for name, groups in zip(data.names, data.groups, strict=True):
            documents, order = to_numpy(held.documents(name)), rng.permutation(len(groups))
            for part in parts:
                some = order[: len(order) // part]
                if part > 1 and len(some) < 2 * PLACES:
                    continue
                deep = 2 * PLACES + int(np.bincount(groups[some]).max())
                found, best = best_documents(asked, documents[some], deep, correction.metric)
                best = np.where(groups[some][found] == own[:, None], -np.inf, best)
                key = f"old {name}" if data is both.old else new_list(name, part)
                scores[key], sizes[key] = -np.sort(-best, axis=1)[:, : 2 * PLACES], len(some)
    return Background.of_scores(scores, sizes)
