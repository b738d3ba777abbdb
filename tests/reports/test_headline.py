from __future__ import annotations

import math

import pytest

from modgap.diagnosis import Diagnosis, Trial
from modgap.evaluation import Interval, Score, Scores
from modgap.evaluation.metric_names import NDCG, OWN_EXCESS
from modgap.evaluation.mixed_results import FirstTen
from modgap.reports.headline import (
    ALMOST_ONLY,
    BALANCED,
    MOSTLY,
    Words,
    evidence_words,
    fix_words,
    headline,
    place_words,
    shares_words,
)

RECALL = "image_retrieval_recall@1"
TEXT = Words(("image", "text"), ["text"])
BEFORE = FirstTen(1250, 750, 1.0, 175, 0.0, 0.0)
AFTER = FirstTen(1250, 750, 0.7, 2, 0.44, 0.92)


def scores(goal=0.2, **metrics):
    known = {NDCG: goal, RECALL: 0.5, OWN_EXCESS: 0.5, "gap": 0.8, "robust_to_noise": 0.6,
             "robust_to_int8": 0.9, "robust_to_1bit": 0.5} | metrics  # fmt: skip
    made = {name: Score(Interval(value, value, value), None) for name, value in known.items()}
    return Scores(made, Score(Interval(goal, goal, goal), None))


def make(verdict="use", goal="mixed", raw=None, fixed=None, names=("image", "text"), **more):
    """A diagnosis of these metrics; ``fixed`` are those of the correction it names."""
    trials, recommended = (), None
    if fixed is not None:
        trials, recommended = (Trial("Fix()", "cosine", True, "", 0.1, 1.0, fixed),), "Fix()"
    return Diagnosis(
        verdict=verdict, sentence="", recommended=recommended, goal=goal, names=names,
        n_groups={"fit": 500, "choose": 250, "confirm": 250} | more.pop("n_groups", {}), seed=0,
        raw=raw or scores(), trials=trials, not_tried={}, measurement=None, explanations={},
        queries=more.pop("queries", ("text",)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("share", "excess", "said"),
    [
        (1.0, 0.5, "text queries return only texts"),
        (math.nextafter(1.0, 0), 0.5, "text queries return almost only texts"),
        (ALMOST_ONLY, 0.5, "text queries return almost only texts"),
        (0.9499, 0.45, "text queries return mostly texts, about 9 of the first 10"),
        (MOSTLY, 0.2, "text queries return mostly texts, about 6 of the first 10"),
        (0.59, 0.2, "text queries return too many texts, about 6 of the first 10"),
        (0.2, math.nextafter(BALANCED, 1), "text queries return too many texts, about 2 of"),
        (1.0, BALANCED, "text queries return images and texts in balance"),
        (0.4, -BALANCED, "text queries return images and texts in balance"),
        (0.0, -0.4, "text queries return too few texts, about 0 of the first 10"),
        (0.5, math.nan, "every result of text queries is right"),
    ],
)
def test_shares_are_said_by_the_own_modality_and_by_what_is_fair(share, excess, said):
    assert shares_words(TEXT, share, excess).startswith(said)


@pytest.mark.parametrize(
    ("names", "queries", "said"),
    [
        (("image", "text"), ["image"], ("image queries", "images", "the right text")),
        (("image", "text"), ["image", "text"],
         ("image and text queries", "results of their own modality", "the right result")),
        (("image", "text", "fused"), ["text"], ("text queries", "texts", "the right result")),
        (("audio", "words"), ["words"],
         ("words queries", "words documents", "the right audio document")),
        (("<b>", "%s"), ["%s"], ("%s queries", "%s documents", "the right <b> document")),
    ],
)  # fmt: skip
def test_modalities_of_any_name_and_number_have_their_words(names, queries, said):
    words = Words(names, queries)
    assert (words.queries, words.own, words.right) == said


@pytest.mark.parametrize(
    ("place", "said"),
    [(1, "comes first"), (2, "comes first or second"), (3, "is among the first 3"),
     (10, "is among the first 10"), (11, "comes in place 11")],
)  # fmt: skip
def test_places_are_said_as_people_say_them(place, said):
    assert place_words(place) == said


def after(place, first=0.0, found=0.0):
    return FirstTen(1250, 750, 0.7, place, first, found)


@pytest.mark.parametrize(
    ("before", "then", "said"),
    [
        (BEFORE, after(1), "With the fix, the right image usually comes first."),
        (BEFORE, after(10), "With the fix, the right image usually is among the first 10."),
        (BEFORE, after(11), "With the fix, half of the text queries find the right image by place "
         "11, instead of by place 175."),
        (after(1, 0.784), after(1, 0.796), "With the fix, the right image comes first for 80 of "
         "100 text queries, instead of for 78."),
        (after(1, 0.784, 0.8), after(1, 0.784, 0.9), "With the fix, the right image is among the "
         "first 10 for 90 of 100 text queries, instead of for 80."),
        # No number that people know tells the gain: the metric itself does.
        (after(3, 0.2, 0.8), after(4, 0.2, 0.8), "With the fix, the right image comes a little "
         "higher: NDCG@10 goes from 0.200 to 0.300."),
        (None, None, "With the fix, the right image comes a little higher: NDCG@10 goes from "
         "0.200 to 0.300."),
    ],
)  # fmt: skip
def test_the_fix_is_told_by_what_became_better(before, then, said):
    assert fix_words(TEXT, before, then, (0.2, 0.3)) == said


def test_a_recommended_correction_is_two_sentences_and_three_metrics():
    found = headline(make(fixed=scores(0.66)), BEFORE, AFTER)
    assert found.sentences == (
        "Today text queries return only texts.",
        "With the fix, the right image usually comes first or second.",
    )
    assert found.evidence == (
        "The right image goes from place 175 to place 2: the medians of 1,250 searches with "
        "held-out text queries in an index of 750 documents."
    )
    assert found.metrics == (NDCG, RECALL, OWN_EXCESS)


@pytest.mark.parametrize(
    ("goal", "before", "then", "metrics"),
    [
        ("robust", "Today, with noise on the documents, 61 of 100 text queries keep their first "
         "result.", "With the fix, 80 do.", ("robust_to_noise", RECALL, NDCG)),
        ("quantised", "Today, with documents stored in few bits, 61 of 100 text queries keep their "
         "first result.", "With the fix, 80 do.", ("robust_to_1bit", "robust_to_int8", RECALL)),
    ],
)  # fmt: skip
def test_other_goals_are_told_by_their_own_metric(goal, before, then, metrics):
    found = headline(make(goal=goal, raw=scores(0.61), fixed=scores(0.8)), BEFORE, AFTER)
    assert (found.sentences, found.metrics) == ((before, then), metrics)
    left = headline(make("leave it alone", goal=goal, raw=scores(0.61)), BEFORE, None)
    assert left.sentences == (
        before, "No correction does better beyond chance: leave it as it is."
    )  # fmt: skip


def test_leaving_alone_says_what_is_there():
    fair = make("leave it alone", raw=scores(**{OWN_EXCESS: 0.02}))
    assert headline(fair, after(1, 0.8, 0.9), None).sentences == (
        "Today text queries return images and texts in balance, and the right image usually "
        "comes first.",
        "No correction does better beyond chance: leave it as it is.",
    )
    found = headline(make("leave it alone"), BEFORE, None)
    assert found.sentences == (
        "Today text queries return only texts.",
        "No correction makes the results better beyond chance: leave it as it is.",
    )
    assert found.evidence.startswith("The right image is in place 175: the median of 1,250")
    nobody = headline(make("leave it alone"), None, None)
    assert nobody.sentences == ("No correction does better beyond chance: leave it as it is.",)
    assert nobody.evidence == ""


@pytest.mark.parametrize(
    ("verdict", "n", "why"),
    [
        ("no pairs", {}, "cannot be judged without pairs."),
        ("not enough pairs", {"confirm": 15}, "cannot be judged yet: 15 held-out pairs are too"),
    ],
)
def test_a_correction_that_was_not_judged_promises_shares_only(verdict, n, why):
    fixed = scores(**{OWN_EXCESS: 0.0})
    before, then = FirstTen(200, 400, 1.0), FirstTen(200, 400, 0.5)
    first, second, third = headline(make(verdict, fixed=fixed, n_groups=n), before, then).sentences
    assert first == "Today text queries return only texts."
    assert second == "With the fix, text queries would return images and texts in balance."
    assert third.startswith(f"Whether the right image comes first {why}")
    alone = headline(make(verdict, n_groups=n), before, None).sentences
    assert alone == (first, third)
    assert evidence_words(TEXT, before, then).startswith("Measured in 200 searches")


def test_places_of_few_pairs_are_said_to_be_of_these_few():
    few = make("not enough pairs", fixed=scores(), n_groups={"confirm": 15})
    found = headline(few, BEFORE, AFTER)
    assert found.evidence.startswith("On these few, the right image goes from place 175 to place 2")


def test_metrics_that_are_not_known_give_way_to_others():
    unknown = scores(**{NDCG: math.nan, RECALL: math.nan})
    found = headline(make("no pairs", raw=unknown), FirstTen(200, 400, 1.0), None)
    assert found.metrics == (OWN_EXCESS, "gap", "robust_to_noise")


def test_without_a_diagnosis_nothing_is_promised():
    found = headline(None, None, None)
    assert found.sentences == ("These rows could not be judged.",)
    assert (found.evidence, found.metrics) == ("", ())
