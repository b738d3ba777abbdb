"""The first words of the page: what happens to the user's search, in plain words.

The rule goes from the numbers of a diagnosis to two or three sentences. "Usually" means: in at
least half of the searches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modgap.core.results import Result, spoken
from modgap.diagnosis import Diagnosis
from modgap.diagnosis.verdict import plural
from modgap.evaluation.metric_names import NDCG, OWN_EXCESS
from modgap.evaluation.mixed_results import FirstTen

# Results are balanced where wrong ones lean to a modality by no more than one in ten.
BALANCED = 0.1
ALMOST_ONLY, MOSTLY = 0.95, 0.6
TEN = 10
_METRICS = {
    "mixed": (NDCG, "recall", OWN_EXCESS),
    "robust": ("robust_to_noise", "recall", NDCG),
    "quantised": ("robust_to_1bit", "robust_to_int8", "recall"),
}
# Shown where one of those is not known.
_OTHERS = (OWN_EXCESS, "gap", "robust_to_noise", "robust_to_int8")
_DISTURBED = {
    "robust": "with noise on the documents",
    "quantised": "with documents stored in few bits",
}
_LEAVE = "leave it as it is."


@dataclass(frozen=True)
class Headline(Result):
    """The sentences, what they rest on, and the three metrics to stand beside them."""

    sentences: tuple[str, ...]
    evidence: str = ""
    metrics: tuple[str, ...] = ()
    before: FirstTen | None = None
    after: FirstTen | None = None


def headline(
    diagnosis: Diagnosis | None, before: FirstTen | None, after: FirstTen | None
) -> Headline:
    """What the first screen says; ``before`` and ``after`` are of the confirm split.

    ``before`` is None where no query has a known match, ``after`` where there is no correction.
    """
    if diagnosis is None:
        return Headline(("These rows could not be judged.",))
    words = Words(diagnosis.names, diagnosis.queries)
    if diagnosis.verdict in ("use", "leave it alone"):
        said = _judged(diagnosis, words, before, after)
    else:
        said = _not_judged(diagnosis, words, before, after)
    few = diagnosis.verdict == "not enough pairs"
    evidence = "" if before is None else evidence_words(words, before, after, few=few)
    return Headline(tuple(said), evidence, three_metrics(diagnosis), before, after)


class Words:
    """What queries and results are called, for modalities of any names."""

    def __init__(self, names: Sequence[str], queries: Sequence[str]) -> None:
        others = [name for name in names if name not in queries]
        one_way = len(queries) == 1 and len(others) == 1
        self.queries = f"{spoken(queries)} queries"
        self.own = plural(queries[0]) if len(queries) == 1 else "results of their own modality"
        singular = plural(others[0]).removesuffix("s") if one_way else "result"
        self.right = f"the right {singular}"
        self.every = spoken(map(plural, names))


def shares_words(words: Words, own_share: float, excess: float) -> str:
    """What queries return, by the share of their own modality and by how far that is from balanced.

    >>> shares_words(Words(("image", "text"), ["text"]), 1.0, 0.5)
    'text queries return only texts'
    """
    if math.isnan(excess):
        return f"every result of {words.queries} is right"
    if abs(excess) <= BALANCED:
        return f"{words.queries} return {words.every} in balance"
    about = f"about {round(TEN * own_share)} of the first {TEN}"
    if excess < 0:
        return f"{words.queries} return too few {words.own}, {about}"
    if own_share == 1:
        return f"{words.queries} return only {words.own}"
    if own_share >= ALMOST_ONLY:
        return f"{words.queries} return almost only {words.own}"
    if own_share >= MOSTLY:
        return f"{words.queries} return mostly {words.own}, {about}"
    return f"{words.queries} return too many {words.own}, {about}"


def place_words(place: int) -> str:
    """Where the right result is, in at least half of the searches.

    >>> place_words(1), place_words(2), place_words(3), place_words(1200)
    ('comes first', 'comes first or second', 'is among the first 3', 'comes in place 1,200')
    """
    few = {1: "comes first", 2: "comes first or second"}
    if place in few:
        return few[place]
    return f"is among the first {place}" if place <= TEN else f"comes in place {place:,}"


def fix_words(
    words: Words, before: FirstTen | None, after: FirstTen | None, ndcg: tuple[float, float]
) -> str:
    """What a correction that is recommended does for the right result, by what tells most."""
    if before is not None and after is not None:
        was, now = before.median_place, after.median_place
        if was is not None and now is not None and now < was:
            if now <= TEN:
                return f"With the fix, {words.right} usually {place_words(now)}."
            return (
                f"With the fix, half of the {words.queries} find {words.right} by place {now:,}, "
                f"instead of by place {was:,}."
            )
        ways = (
            (before.found_first, after.found_first, "comes first"),
            (before.found, after.found, f"is among the first {TEN}"),
        )
        for share, then, where in ways:
            if share is not None and then is not None and _hundred(then) > _hundred(share):
                return (
                    f"With the fix, {words.right} {where} for {_hundred(then)} of 100 "
                    f"{words.queries}, instead of for {_hundred(share)}."
                )
    return (
        f"With the fix, {words.right} comes a little higher: NDCG@10 goes from {ndcg[0]:.3f} to "
        f"{ndcg[1]:.3f}."
    )


def evidence_words(
    words: Words, before: FirstTen, after: FirstTen | None, *, few: bool = False
) -> str:
    """What the sentences rest on; ``few`` pairs promise nothing for others."""
    searches = (
        f"{before.n_queries:,} searches with held-out {words.queries} in an index of "
        f"{before.n_documents:,} documents"
    )
    if before.median_place is None:
        return f"Measured in {searches}."
    right = f"On these few, {words.right}" if few else words.right[:1].upper() + words.right[1:]
    if after is None or after.median_place is None:
        return f"{right} is in place {before.median_place:,}: the median of {searches}."
    return (
        f"{right} goes from place {before.median_place:,} to place {after.median_place:,}: the "
        f"medians of {searches}."
    )


def three_metrics(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The metrics that people ask for first, by the goal; others where they are not known."""
    known = [
        key for key, score in diagnosis.raw.metrics.items() if not math.isnan(score.value.value)
    ]
    recall = next((key for key in known if key.endswith("_recall@1")), "")
    wanted = (recall if key == "recall" else key for key in _METRICS[diagnosis.goal])
    chosen = dict.fromkeys(key for key in (*wanted, *_OTHERS) if key in known)
    return tuple(chosen)[:3]


def _judged(
    diagnosis: Diagnosis, words: Words, before: FirstTen | None, after: FirstTen | None
) -> list[str]:
    """The sentences of "use" and of "leave it alone"."""
    use = diagnosis.verdict == "use"
    was, now = _before_and_after(diagnosis, None)
    if diagnosis.goal != "mixed":
        kept = f"{_hundred(was)} of 100 {words.queries} keep their first result"
        today = f"Today, {_DISTURBED[diagnosis.goal]}, {kept}."
        fixed = f"With the fix, {_hundred(now)} do."
        return [today, fixed if use else f"No correction does better beyond chance: {_LEAVE}"]
    if before is None:
        return [f"No correction does better beyond chance: {_LEAVE}"]
    excess, _ = _before_and_after(diagnosis, OWN_EXCESS)
    today = f"Today {shares_words(words, before.own_share, excess)}"
    if use:
        return [f"{today}.", fix_words(words, before, after, (was, now))]
    if abs(excess) <= BALANCED and before.median_place is not None:
        where = f"{words.right} usually {place_words(before.median_place)}"
        return [f"{today}, and {where}.", f"No correction does better beyond chance: {_LEAVE}"]
    return [f"{today}.", f"No correction makes the results better beyond chance: {_LEAVE}"]


def _not_judged(
    diagnosis: Diagnosis, words: Words, before: FirstTen | None, after: FirstTen | None
) -> list[str]:
    """The sentences where shares are known and relevance is not."""
    excess, then = _before_and_after(diagnosis, OWN_EXCESS)
    why = "cannot be judged without pairs."
    if diagnosis.verdict == "not enough pairs":
        n = diagnosis.n_groups["confirm"]
        why = f"cannot be judged yet: {n:,} held-out pairs are too few."
    said = [] if before is None else [f"Today {shares_words(words, before.own_share, excess)}."]
    if after is not None:
        fixed = shares_words(words, after.own_share, then).replace(" return ", " would return ", 1)
        said.append(f"With the fix, {fixed}.")
    return [*said, f"Whether {words.right} comes first {why}"]


def _before_and_after(diagnosis: Diagnosis, key: str | None) -> tuple[float, float]:
    """A metric, or the goal, of the rows as they are and of the recommended correction."""
    trial = next((t for t in diagnosis.trials if t.method == diagnosis.recommended), None)
    both = [diagnosis.raw, diagnosis.raw if trial is None else trial.confirm]
    was, now = ((one.goal if key is None else one.metrics[key]).value.value for one in both)
    return was, now


def _hundred(share: float) -> int:
    return round(100 * share)
