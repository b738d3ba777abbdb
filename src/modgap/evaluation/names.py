"""What people call the metrics. Keys such as ``image_retrieval_recall@1`` are for JSON alone."""

from __future__ import annotations

from collections.abc import Sequence

from modgap.evaluation.metrics import NDCG, OWN_EXCESS

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
    'audio recall@1, text asks'
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
    """What is found, how it is counted and who asks; None where the key is no recall."""
    stem, at, places = key.rpartition("_recall@")
    if not at:
        return None
    for found in names:
        if stem == f"{found}_retrieval":
            return f"{found} {word}@{places}"
        for asking in names:
            if stem == f"{found}_retrieval_by_{asking}":
                return f"{found} {word}@{places}, {asking} asks"
    return None
