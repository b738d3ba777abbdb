"""The report over rows that a model gave in tasks, beside loops that a reader trusts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reference
from modgap.adapters.mteb_report import MtebReport, MtebRows, report_pairs, task_modalities
from modgap.corrections import Calibrate

N, D, CAPTIONS = 12, 6, 2


def made(seed=0):
    """Images, and two captions of each, which share a latent; each modality has an offset."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(N, D))
    images = latent + 2 * rng.normal(size=D) + 0.3 * rng.normal(size=(N, D))
    texts = latent.repeat(CAPTIONS, axis=0) + 2 * rng.normal(size=D)
    return images, texts + 0.3 * rng.normal(size=texts.shape)


def t2i(images, texts, task="T2I", order=slice(None)):
    """A task in which captions ask for images."""
    rows = MtebRows(task, "default", "test")
    asked = np.arange(len(texts))[order]
    rows.add(["text"] * len(texts), "query", [f"q{i}" for i in asked], texts[asked])
    rows.add(["image"] * len(images), "document", [f"d{i}" for i in range(len(images))], images)
    rows.match({f"q{i}": {"d0": 0, f"d{i // CAPTIONS}": 1} for i in range(len(texts))})
    return rows


def by_hand(queries, documents, home, score):
    """NDCG@10 and own-modality excess of captions whose image is in the index.

    ``home`` says of each image whether it or its captions are in the index.
    """
    index = [("image", g, documents["image"][g]) for g in range(N) if home[g] == 0]
    texts = [g for g in range(N) if home[g] == 1 for _ in range(CAPTIONS)]
    rows = [row for i, row in enumerate(documents["text"]) if home[i // CAPTIONS] == 1]
    index += [("text", g, row) for g, row in zip(texts, rows, strict=True)]
    share = sum(kind == "text" for kind, _, _ in index) / len(index)
    gains, wrong, excess = [], 0, 0.0
    for i, query in enumerate(queries):
        if home[i // CAPTIONS] == 1:
            continue
        ranked = sorted(index, key=lambda one, query=query: -score(query, one[2]))[:10]
        (place,) = [p for p, one in enumerate(ranked) if one[1] == i // CAPTIONS] or [math.inf]
        gains.append(1 / math.log2(place + 2) if place < math.inf else 0.0)
        kinds = [kind for kind, g, _ in ranked if g != i // CAPTIONS]
        wrong += len(kinds)
        excess += kinds.count("text") - len(kinds) * share
    return gains, wrong, excess


def both_draws(queries, documents, score):
    """The same over two indexes: in the second every image and its captions change places."""
    home = np.zeros(N, dtype=int)
    home[np.random.default_rng(0).permutation(N)[N // 2 :]] = 1
    first, second = (by_hand(queries, documents, one, score) for one in (home, 1 - home))
    ndcg = float(np.mean(first[0] + second[0]))
    return ndcg, (first[2] + second[2]) / (first[1] + second[1])


def cosine(a, b):
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def test_the_report_is_that_of_loops_before_and_after_a_correction():
    images, texts = made()
    rows = t2i(images, texts)
    data = task_modalities([rows], rows.names)
    correction = Calibrate().fit(data, queries="text").correction_
    (found,) = report_pairs([rows], "cosine", correction)
    assert (found.names, found.n_rows, found.n_matches) == (("image", "text"), (12, 24), N)
    unit = [reference.unit(side) for side in (images, texts)]
    assert found.gap == pytest.approx(np.linalg.norm(unit[0].mean(0) - unit[1].mean(0)))
    for side, cone in zip(unit, found.cones, strict=True):
        cosines = side @ side.T
        assert cone == pytest.approx(cosines[~np.eye(len(side), dtype=bool)].mean())
    rows_of = {"image": images, "text": texts}
    raw = both_draws(texts, rows_of, cosine)
    assert (found.mixed.ndcg, found.mixed.own_excess) == pytest.approx(raw)
    documents = {name: correction.apply(rows, name) for name, rows in rows_of.items()}
    asked = correction.apply(texts, "text", "query")
    after = both_draws(asked, documents, np.dot)
    assert (found.corrected.ndcg, found.corrected.own_excess) == pytest.approx(after)
    assert after[0] > raw[0] + 0.1


def test_neither_the_order_nor_batches_nor_the_length_of_rows_matter():
    images, texts = made()
    (one,) = report_pairs([t2i(images, texts)], "cosine", None)
    again = t2i(images * 3, texts, order=slice(None, None, -1))
    for place in (5, 0, 11):  # embedded once more, alone
        again.add(["image"], "document", [f"d{place}"], images[[place]])
    (other,) = report_pairs([again], "cosine", None)
    assert other.n_rows == one.n_rows
    assert (other.gap, *other.cones) == pytest.approx((one.gap, *one.cones))
    assert other.mixed.ndcg == pytest.approx(one.mixed.ndcg)


def test_queries_that_share_some_relevant_documents_only_match_nothing():
    rows = MtebRows("T2I", "default", "test")
    rows.add(["text"] * 4, "query", "abcd", np.eye(4))
    rows.add(["image"] * 4, "document", "1234", -np.eye(4))
    rows.match({"a": {"1": 1}, "b": {"1": 2}, "c": {"2": 1, "3": 1}, "d": {"3": 1, "4": 0}})
    queries, documents = rows.labels("text"), rows.labels("image")
    assert queries[0] == queries[1] == documents[0]
    assert len({*queries, *documents}) == 1 + 2 + 3


def test_two_modalities_that_no_task_has_match_through_what_their_tasks_share():
    images, texts = made()
    sounds = images[::-1] + 5.0
    a2i = MtebRows("A2I", "default", "test")
    a2i.add(["audio"] * N, "query", [f"s{i}" for i in range(N)], sounds)
    a2i.add(["image"] * N, "document", [f"i{i}" for i in range(N)], images[::-1])
    a2i.match({f"s{i}": {f"i{i}": 1} for i in range(N)})
    texts_alone = MtebRows("T2T", "default", "test")
    texts_alone.add(["text"] * 4, "query", None, texts[:4] + 9)
    found = report_pairs([t2i(images, texts), texts_alone, a2i], "cosine", None)
    assert [(one.task, one.names) for one in found] == [
        ("T2I", ("image", "text")),
        ("A2I", ("audio", "image")),
        ("all tasks", ("audio", "text")),
    ]
    whole = found[-1]
    assert (whole.n_rows, whole.n_matches) == ((12, 24), N)
    assert [one.modality for one in whole.mixed.queries] == ["audio", "text"]
    gap = reference.gap_distance(*(reference.unit(side) for side in (sounds, texts)))
    assert whole.gap == pytest.approx(gap)
    a2i.add(["image"] * N, "document", [f"i{i}" for i in range(N)], images[::-1] + 0.1)
    *_, apart = report_pairs([t2i(images, texts), a2i], "cosine", None)
    assert (apart.names, apart.n_matches, apart.mixed) == (("audio", "text"), 0, None)


def test_rows_without_matches_have_a_gap_but_no_mixed_search():
    images, texts = made()
    rows = MtebRows("zero-shot", "default", "test")
    rows.add(["image"] * N, "document", None, images)
    rows.add(["text"], "document", None, texts[:1])
    (found,) = report_pairs([rows], "cosine", None)
    assert (found.n_matches, found.mixed) == (0, None)
    assert found.gap > 0
    assert math.isnan(found.cones[1])


def test_a_report_is_a_table_with_the_numbers_that_there_are():
    images, texts = made()
    rows = t2i(images, texts)
    report = MtebReport("made", report_pairs([rows], "cosine", None))
    assert repr(report) == "MtebReport(made, 1 pairs of modalities)"
    frame = report.to_pandas()
    assert frame.index.tolist() == ["T2I"]
    assert frame.columns.tolist() == [
        "x", "y", "gap", "cone x", "cone y", "matches", "NDCG@10", "own excess"
    ]  # fmt: skip
    assert frame["gap"].iloc[0] == round(report.pairs[0].gap, 3)
    assert "T2I & image & text" in report.to_latex()
    assert str(report).startswith("made\n")
    (held,) = json.loads(json.dumps(report.to_dict()))["pairs"]
    assert held["mixed"]["ndcg@10"] == report.pairs[0].mixed.ndcg
    assert held["corrected"] is None
