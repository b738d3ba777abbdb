"""What the metrics of a correction are called, and what each means in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

NDCG = "mixed_ndcg@10"
OWN_EXCESS = "own_modality_excess@10"


def directions(
    names: Sequence[str], queries: Sequence[str] | None = None, apart: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """The recall metrics by name, each with the query modality and the one that is searched.

    ``queries`` are the query modalities; those ``apart`` have queries that are not documents,
    and search their own modality too.

    >>> directions(("image", "text"), ["text"])
    {'image_retrieval_recall@1': ('text', 'image')}
    """
    ways = [
        (asking, found)
        for asking in reversed(names)
        if queries is None or asking in queries
        for found in names
        if found != asking or asking in apart
    ]
    asked = [found for _, found in ways]
    return {
        f"{found}_retrieval{f'_by_{asking}' if asked.count(found) > 1 else ''}_recall@1": (
            asking,
            found,
        )
        for asking, found in ways
    }


def metric_descriptions(
    names: Sequence[str], queries: Sequence[str] | None = None, apart: Collection[str] = ()
) -> dict[str, str]:
    """Key and explanation of each metric for these query modalities, in the order shown."""
    both, other = ("both", "the other modality") if len(names) == 2 else ("all", "another modality")
    if apart:
        other = "any modality"
    gap = "distance between the modalities' means, in lengths of an average row"
    return {
        "gap": gap if len(names) == 2 else f"largest {gap}",
        **{
            name: f"{asking} queries whose best {found} is theirs"
            for name, (asking, found) in directions(names, queries, apart).items()
        },
        NDCG: f"one index for {both}: how high the match of {other} comes",
        OWN_EXCESS: f"one index for {both}: share of the query's own modality in the "
        "wrong results, beyond its share of the index (0 is balanced)",
        "robust_to_noise": "nearest neighbours kept under noise half as long as a row",
        "robust_to_int8": "nearest neighbours kept with int8 documents",
        "robust_to_1bit": "nearest neighbours kept with 1-bit documents",
        "neighbours_kept": "nearest neighbours that are those of the rows as they are",
    }


_NAMES = {
    NDCG: "mixed NDCG@10",
    OWN_EXCESS: "own-modality excess@10",
    "robust_to_1bit": "robust to 1 bit",
}
# As heads of narrow columns.
_SHORT = {
    OWN_EXCESS: "own excess@10",
    "robust_to_noise": "noise",
    "robust_to_int8": "int8",
    "robust_to_1bit": "1-bit",
    "neighbours_kept": "kept, new rows",
}


def metric_name(key: str, names: Sequence[str]) -> str:
    """A metric's name in a sentence, for modalities of these names.

    >>> metric_name("image_retrieval_recall@1", ("image", "text"))
    'image recall@1'
    >>> metric_name("audio_retrieval_by_text_recall@1", ("image", "text", "audio"))
    'audio recall@1, text queries'
    >>> metric_name("mixed_ndcg@10", ("image", "text"))
    'mixed NDCG@10'
    """
    return _recall(key, names, "recall") or _NAMES.get(key, key.replace("_", " "))


def metric_label(key: str, names: Sequence[str]) -> str:
    """The same as a label: with a capital.

    >>> metric_label("image_retrieval_recall@1", ("image", "text"))
    'Image recall@1'
    """
    name = metric_name(key, names)
    return name[:1].upper() + name[1:]


def metric_head(key: str, names: Sequence[str]) -> str:
    """The same as the head of a narrow column.

    >>> metric_head("image_retrieval_recall@1", ("image", "text"))
    'image R@1'
    """
    return _recall(key, names, "R") or _SHORT.get(key) or metric_name(key, names)


def _recall(key: str, names: Sequence[str], word: str) -> str | None:
    """What is found, how it is counted and the query modality; None where the key is no recall."""
    stem, at, places = key.rpartition("_recall@")
    if not at:
        return None
    for found in names:
        if stem == f"{found}_retrieval":
            return f"{found} {word}@{places}"
        for asking in names:
            if stem == f"{found}_retrieval_by_{asking}":
                return f"{found} {word}@{places}, {asking} queries"
    return None
