"""Expected wrong results: against a slow reference, under changes that change nothing, at ends."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_pairs, unit
from modgap.core.checks import InputError
from modgap.corrections import (
    Background,
    Correction,
    ExpectedWrong,
    FewQueriesWarning,
    ForeignQueriesWarning,
)
from modgap.corrections.background import hub_neighbours
from reference_background import SlowBackground, bank_scores, heights

B, N, D = 100, 70, 12
WEIGHTS = (0.0, 0.25, 0.5)


def drawn(n, seed, d=D):
    return np.random.default_rng(seed).normal(size=(n, d))


def in_half(rows):
    """A bank as it is kept: in half precision."""
    return unit(rows).astype(np.float32).astype(np.float16).astype(np.float64)


def slow(documents, bank, weight, own=lambda i, j: False, matched=None):
    lines = bank_scores(unit(documents), in_half(bank), weight, hub_neighbours(len(bank)), own)
    return SlowBackground(lines, len(documents), matched)


def slow_expected(found, documents, bank, queries, weight, own=lambda i, j: False):
    """E of all documents, with the hubness that a document has in the index."""
    k, answer = hub_neighbours(len(bank)), []
    stored = unit(documents)
    for query in unit(queries):
        line = []
        for j, document in enumerate(stored):
            on_it = [float(q @ document) for i, q in enumerate(in_half(bank)) if not own(i, j)]
            line.append(query @ document - weight * np.mean(sorted(on_it)[-k:]))
        answer.append([found.expected(u) for u in heights(line, found.places, found.usual)])
    return np.array(answer)


def assert_equal_where_known(found, wanted):
    """Of longer lists the best 60 of each bank query are kept; E of 30 lies among them for all."""
    known = wanted < (30 if wanted.shape[1] >= 60 else wanted.shape[1] - 1)
    assert np.mean(known) > 0.3
    np.testing.assert_allclose(found[known], wanted[known], rtol=2e-3)
    assert np.all(found[~known] > 0.99 * wanted[known].max())


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("n", [14, N])
def test_every_number_is_that_of_slow_loops(weight, n):
    documents, bank, queries = drawn(n, 0), drawn(40, 1), drawn(5, 2)
    with pytest.warns(FewQueriesWarning, match="40 queries: with fewer than 100"):
        background = Background.fit({"image": documents}, bank, weight)
    found = slow(documents, bank, weight)
    one = background.lists["image"]
    assert one.places == found.places == {14: 7, N: 30}[n]
    assert one.slope == pytest.approx(found.usual, rel=1e-5)
    wanted = slow_expected(found, documents, bank, queries, weight)
    assert_equal_where_known(background.expected_wrong(queries, "image"), wanted)


def test_documents_of_a_querys_own_group_do_not_count():
    X, Y = make_pairs(N)
    labels = np.arange(N) // 2
    own = lambda i, j: labels[i] == labels[j]  # noqa: E731
    with pytest.warns(FewQueriesWarning):
        background = Background.fit({"image": X}, Y, groups={"image": labels}, bank_groups=labels)
    found = slow(X, Y, 0.25, own)
    wanted = slow_expected(found, X, Y, Y[:4], 0.25, own)
    assert_equal_where_known(background.expected_wrong(Y[:4], "image"), wanted)
    with pytest.warns(FewQueriesWarning):
        with_matches = Background.fit({"image": X}, Y)
    best, others = (one.lists["image"].signals[:, 0] for one in (with_matches, background))
    assert np.mean(best > others + 0.01) > 0.2


def test_in_a_log_the_first_of_both_count_half_in_the_logarithm():
    X, Y = make_pairs(N)
    X = np.vstack([X, X[:20] + 0.01])  # some queries have two matches
    with pytest.warns(FewQueriesWarning):
        background = Background.fit({"image": X}, Y, 0.0, may_match=True)
    scores, matched = in_half(Y) @ unit(X).T, []
    best_query = scores.argmax(axis=0)
    for i, line in enumerate(scores):
        count = 0
        for j in np.argsort(-line)[:3]:
            if best_query[j] != i:
                break
            count += 1
        matched.append(count)
    assert {0, 1} < set(matched)
    assert background.lists["image"].matched.tolist() == matched
    found = slow(X, Y, 0.0, matched=matched)
    wanted = slow_expected(found, X, Y, Y[:4], 0.0)
    assert_equal_where_known(background.expected_wrong(Y[:4], "image"), wanted)


def test_hits_are_judged_as_all_documents_are():
    documents, queries = drawn(200, 0), drawn(6, 2)
    background = Background.fit({"image": documents}, drawn(B, 1))
    every = background.expected_wrong(queries, "image")
    scores = background.queries(queries) @ background.documents("image").T
    order = np.argsort(-scores, axis=1)
    for depth in (30, 45, 200):
        best = order[:, :depth]
        found = background.expected_wrong_of_scores(np.take_along_axis(scores, best, 1), "image")
        np.testing.assert_allclose(found, np.take_along_axis(every, best, 1), rtol=1e-4)


def gumbel(seed, n):
    return -np.sort(-np.random.default_rng(seed).gumbel(size=(n, 40)), axis=1)


@given(st.integers(0, 10_000), st.floats(-5, 5), st.floats(0.01, 100))
def test_scores_shifted_or_scaled_for_all_say_the_same(seed, shift, scale):
    bank, asked = gumbel(seed, B), gumbel(seed + 1, 8)
    expected, chance = [], []
    for change in (np.asarray, lambda scores: scale * scores + shift):
        background = Background.of_scores({"x": change(bank)}, {"x": 40})
        one, surprise = background.judged(change(asked), "x")
        expected.append(one)
        chance.append(background.chance({"x": surprise}))
    np.testing.assert_allclose(*expected, rtol=1e-3)
    np.testing.assert_allclose(*chance, atol=1.01 / (B + 1))


@given(st.integers(0, 10_000))
def test_one_querys_own_shift_changes_nothing(seed):
    asked = gumbel(seed + 1, 8)
    background = Background.of_scores({"list": gumbel(seed, B)}, {"list": 40})
    before = background.expected_wrong_of_scores(asked, "list")
    own = np.random.default_rng(seed).normal(size=(8, 1))
    after = background.expected_wrong_of_scores(asked + own, "list")
    np.testing.assert_allclose(after, before, rtol=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(WEIGHTS), st.booleans())
def test_a_better_score_never_has_a_larger_e(seed, weight, may_match):
    documents, bank = drawn(64, seed), drawn(B, seed + 1)
    background = Background.fit({"x": documents}, bank, weight, may_match=may_match)
    queries = drawn(5, seed + 2)
    scores = background.queries(queries) @ background.documents("x").T
    expected = background.expected_wrong(queries, "x")
    for line, e in zip(scores, expected, strict=True):
        assert np.all(np.diff(e[np.argsort(-line, kind="stable")]) >= -1e-6 * e.max())
    assert np.all(expected > 0)


@given(st.integers(0, 10_000))
def test_the_order_of_documents_and_of_the_bank_is_nothing(seed):
    documents, bank, queries = drawn(64, seed), drawn(B, seed + 1), drawn(4, seed + 2)
    order = np.random.default_rng(seed).permutation(64)
    fit = partial(Background.fit, may_match=True)
    one, other = fit({"x": documents}, bank), fit({"x": documents[order]}, bank[::-1])
    np.testing.assert_allclose(
        other.expected_wrong(queries, "x"), one.expected_wrong(queries, "x")[:, order], rtol=1e-4
    )


def test_as_many_were_got_as_asked_for():
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(500, 32))
    background = Background.fit({"x": documents}, rng.normal(size=(400, 32)))
    expected = background.expected_wrong(rng.normal(size=(4000, 32)), "x")
    for asked, tolerance in ((0.1, 0.15), (0.5, 0.1), (1, 0.1), (5, 0.05)):
        assert np.mean(np.sum(expected <= asked, axis=1)) == pytest.approx(asked, rel=tolerance)


def test_equal_scores_expect_as_many_as_there_are():
    flat = np.full((B, 30), 0.5)
    background = Background.of_scores({"x": flat}, {"x": 1_000})
    found = background.expected_wrong_of_scores(flat[:3], "x")
    np.testing.assert_allclose(found, 30, rtol=0.01)
    higher = np.where(np.arange(30) == 0, 0.6, flat[:3])
    assert np.all(background.expected_wrong_of_scores(higher, "x")[:, 0] < found[:, 0])


def test_lists_of_six_documents_have_a_level():
    documents, bank = drawn(6, 0), drawn(B, 1)
    background = Background.fit({"x": documents}, bank)
    assert background.lists["x"].places == 6
    expected = background.expected_wrong(drawn(3, 2), "x")
    assert np.all(np.isfinite(expected))
    assert np.all(expected.max(axis=1) == pytest.approx(6, rel=0.01))
    with pytest.raises(InputError, match="at least 6 documents in a list, and x has 5"):
        Background.fit({"x": documents[:5]}, bank)


def test_the_smallest_bank_gives_numbers_with_a_warning_and_a_smaller_one_none():
    documents, bank = drawn(80, 0), drawn(20, 1)
    with pytest.warns(FewQueriesWarning, match="may be off several-fold"):
        background = Background.fit({"x": documents}, bank)
    assert background.least == 5 / 20
    assert np.all(np.isfinite(background.expected_wrong(drawn(3, 2), "x")))
    with pytest.raises(InputError, match="A bank must have at least 20 queries, got 19"):
        Background.fit({"x": documents}, bank[:19])


def test_a_large_bank_is_thinned():
    background = Background.fit({"x": drawn(30, 0)}, drawn(2_500, 1), bank_groups=np.arange(2_500),
                                groups={"x": np.arange(30)})  # fmt: skip
    assert background.n_queries == 2_000


def test_documents_that_most_of_the_bank_owns_have_the_hubness_of_the_others():
    documents, bank = drawn(12, 0), drawn(B, 1)
    labels = np.where(np.arange(B) < B - 4, 0, 1)
    own = lambda i, j: labels[i] == 0 and j == 0  # noqa: E731
    groups = {"x": np.where(np.arange(12) == 0, 0, 2)}
    background = Background.fit({"x": documents}, bank, groups=groups, bank_groups=labels)
    wanted = slow_expected(
        slow(documents, bank, 0.25, own), documents, bank, drawn(3, 2), 0.25, own
    )
    assert_equal_where_known(background.expected_wrong(drawn(3, 2), "x"), wanted)


def test_the_interval_holds_e_and_shrinks_with_the_bank():
    widths = []
    for b in (100, 1_000):
        bank = -np.sort(-np.random.default_rng(0).gumbel(size=(b, 40)), axis=1)
        one = Background.of_scores({"x": bank}, {"x": 40}).lists["x"]
        low, high, carried = one.interval(0.5)
        assert low < 0.5 < high
        assert 0.25 * b < carried < 0.6 * b
        widths.append(high - low)
        assert one.expected(np.array([one.height_at(0.5)]))[0] == pytest.approx(0.5, rel=1e-6)
        *_, carried = one.interval(1 / b)
        assert carried <= 5
    assert widths[1] < 0.5 * widths[0]


def test_what_the_bank_tells_just_so_is_taken():
    assert Background.fit({"x": drawn(80, 0)}, drawn(B, 1)).check_at_most(0.05, 1) == 0.05


def test_queries_of_another_kind_are_noticed():
    documents = drawn(300, 0)
    shift = 2 * np.ones(D)
    background = Background.fit({"x": documents + shift}, drawn(200, 1) + shift)

    def judged(queries):
        scores = background.queries(queries) @ background.documents("x").T
        return background.expected_wrong_of_scores(-np.sort(-scores, axis=1)[:, :30], "x")

    with pytest.warns(
        ForeignQueriesWarning, match="100% of these queries score x documents unlike"
    ):
        judged(drawn(60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged(drawn(60, 3) + shift)
        judged(drawn(49, 2))  # too few to tell


def test_the_best_results_of_the_bank_look_like_chance():
    documents, bank = drawn(300, 0), drawn(200, 1)
    background = Background.fit({"x": documents}, bank, 0.0)
    queries = np.vstack([drawn(400, 2), documents[:200] + 0.3 * drawn(200, 3)])
    scores = background.queries(queries) @ background.documents("x").T
    best = -np.sort(-scores, axis=1)[:, :30]
    _, surprise = background.judged(best, "x")
    chance = background.chance({"x": surprise})
    assert np.all((chance > 0) & (chance < 1))
    assert np.mean(chance[:400] <= 0.2) == pytest.approx(0.2, abs=0.08)
    assert np.mean(chance[400:] <= 0.05) > 0.95


def test_whether_there_is_a_match_is_told_as_slow_loops_do():
    bank, asked = gumbel(0, 40), gumbel(1, 60)
    asked[::3, 0] += 1.5
    with pytest.warns(FewQueriesWarning):
        background = Background.of_scores({"x": bank}, {"x": 40})
    found, (_, surprise) = SlowBackground(bank.tolist(), 40), background.judged(asked, "x")
    np.testing.assert_allclose(surprise, [found.surprise(line) for line in asked], rtol=1e-3)
    wanted = [found.chance(line) for line in asked.tolist()]
    np.testing.assert_array_equal(background.chance({"x": surprise}), wanted)
    assert len(set(wanted)) > 20


def test_a_higher_score_never_looks_less_like_a_match():
    background = Background.of_scores({"x": gumbel(0, B)}, {"x": 40})
    asked, last = gumbel(1, 8), np.ones(8)
    for _ in range(40):
        asked[:, 0] += 0.2
        _, surprise = background.judged(asked, "x")
        chance = background.chance({"x": surprise})
        assert np.all(chance <= last)
        last = chance
    assert np.all(last < 0.02)


def test_where_every_query_of_the_bank_looks_alike_the_height_alone_tells_of_a_match():
    background = Background.of_scores({"x": np.tile(gumbel(0, 1), (B, 1))}, {"x": 40})
    assert background.lists["x"].signal_scale[1].tolist() == [0, 0, 0]
    asked = gumbel(0, 1) + 3 * np.eye(1, 40)
    expected, surprise = background.judged(asked, "x")
    assert surprise == pytest.approx(-np.log(expected[:, 0]))


def test_a_query_without_results_is_without_a_match():
    background = Background.of_scores({"x": gumbel(0, B)}, {"x": 40})
    _, surprise = background.judged(np.full((2, 30), -np.inf), "x")
    assert surprise.tolist() == [-np.inf] * 2
    assert background.chance({"x": surprise}) == pytest.approx((B + 0.5) / (B + 1))


@pytest.mark.parametrize("may_match", [False, True])
def test_a_file_gives_the_same_numbers(tmp_path, may_match):
    documents = {"image": drawn(80, 0), "text": drawn(40, 4)}
    background = Background.fit(documents, drawn(B, 1), 0.5, may_match=may_match)
    background.save(tmp_path / "b.safetensors")
    again = Background.load(tmp_path / "b.safetensors")
    for name in documents:
        scores = background.queries(drawn(5, 2)) @ background.documents(name).T
        best = -np.sort(-scores, axis=1)[:, :30]
        np.testing.assert_array_equal(
            again.expected_wrong_of_scores(best, name),
            background.expected_wrong_of_scores(best, name),
        )
    assert (again.hubs.weight, again.n_queries, again.least) == (0.5, B, 0.05)
    with pytest.raises(InputError, match="This background has no documents: its file does not"):
        again.documents("image")


def test_a_file_from_scores_alone_comes_back(tmp_path):
    bank = -np.sort(-drawn(B, 0, 40), axis=1)
    background = Background.of_scores({"words": bank}, {"words": 40})
    background.save(tmp_path / "b.safetensors")
    again = Background.load(tmp_path / "b.safetensors")
    assert again.hubs is None
    np.testing.assert_array_equal(
        again.expected_wrong_of_scores(bank, "words"),
        background.expected_wrong_of_scores(bank, "words"),
    )


SCORES = -np.sort(-drawn(B, 0, 40), axis=1)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES[0], r"The scores of x must be \(n, k\), got shape \(40,\)"),
        (np.where(SCORES > 2, np.nan, SCORES), "The scores of x must be numbers, got NaN"),
        (np.where(SCORES > 2, np.inf, SCORES), "The scores of x must be numbers, got NaN or inf"),
        (SCORES[:, ::-1], "The scores of x must come best first, larger is nearer"),
        (np.full((B, 40), -np.inf), "The bank found no document in a list"),
        (SCORES[:10], "A bank must have at least 20 queries, got 10"),
    ],
)
def test_scores_that_say_nothing_are_refused(scores, message):
    with pytest.raises(InputError, match=message):
        Background.of_scores({"x": scores}, {"x": 1_000})


def test_what_cannot_be_fitted_is_refused():
    documents, bank = {"x": drawn(40, 0)}, drawn(B, 1)
    for given_to_fit, message in (
        ({"hubs": 1.5}, "hubs must be between 0 and 1, got 1.5"),
        ({"groups": {"x": range(40)}}, "groups and bank_groups go together"),
        ({"groups": {"x": range(39)}, "bank_groups": range(B)}, "groups of x must be one label"),
        ({"groups": {"x": range(40)}, "bank_groups": range(9)}, "groups of bank must be one label"),
    ):
        with pytest.raises(InputError, match=message):
            Background.fit(documents, bank, **given_to_fit)
    message = "x and bank must have the same number of columns, got 12 and 5"
    with pytest.raises(InputError, match=message):
        Background.fit(documents, bank[:, :5])
    with pytest.raises(InputError, match="got banks of 100 and 101 queries"):
        Background.of_scores(
            {"x": SCORES, "y": np.vstack([SCORES, SCORES[:1]])}, {"x": 40, "y": 40}
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.check_at_most(0.04, 1), "at least 0.05 with a bank of 100 queries: fewer tha"),
        (lambda b: b.check_at_most(0.08, 2), "at least 0.1 with a bank of 100 queries and 2 lists"),
        (lambda b: b.check_at_most(0.0, 1), "at_most must be above 0, got 0"),
        (
            lambda b: b.expected_wrong_of_scores(SCORES[:3, :10], "x"),
            r"the best 30 results of x, got 10\. Search for 30",
        ),
        (lambda b: b.expected_wrong(drawn(3, 2), "y"), "list must be one of 'x', got 'y'"),
        (
            lambda b: b.expected_wrong(drawn(3, 2, 5), "x"),
            "queries and the bank must have the same number of columns, got 5 and 12",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(Background.fit({"x": drawn(80, 0)}, drawn(B, 1)))


def test_missing_results_are_as_bad_as_can_be():
    background = Background.of_scores({"x": SCORES}, {"x": 1_000})
    few = np.where(np.arange(40) < 12, SCORES[:3], -np.inf)
    none = np.full((1, 40), -np.inf)
    expected = background.expected_wrong_of_scores(np.vstack([few, none]), "x")
    assert np.all(np.isfinite(expected[:3, :12]))
    assert np.all(np.isposinf(expected[:3, 12:]))
    assert np.all(np.isposinf(expected[3]))


def test_the_corrector_fits_what_background_fits(tmp_path):
    X, Y = make_pairs(120)
    correction = ExpectedWrong(0.5).fit(X, Y).correction_
    labels = np.arange(120)
    background = Background.fit(
        {"image": X, "text": Y}, Y, 0.5, groups={"image": labels, "text": labels},
        bank_groups=labels,
    )  # fmt: skip
    correction.save(tmp_path / "c.safetensors")
    for one in (correction, Correction.load(tmp_path / "c.safetensors")):
        for name, rows in (("image", X), ("text", Y)):
            held, wanted = one.background.lists[name], background.lists[name]
            np.testing.assert_allclose(held.heights, wanted.heights, atol=2e-3)
            np.testing.assert_allclose(
                one.apply(rows, name, keys=labels), background.documents(name), atol=1e-5
            )
    np.testing.assert_allclose(
        correction.apply(Y, "text", "query"), background.queries(Y), atol=1e-6
    )


def test_the_corrector_takes_a_log_as_bank():
    X, Y = make_pairs(150)
    correction = ExpectedWrong().fit(X[:120], Y[:120], bank=Y[20:150]).correction_
    assert correction.background.n_queries == 130
    assert correction.background.lists["image"].matched.any()
    with pytest.raises(InputError, match=r"hubs must be between 0 and 1, got 2"):
        ExpectedWrong(2.0).fit(X, Y)


def test_the_corrector_knows_no_lengths_and_warns_of_few_queries():
    X, Y = make_pairs(70)
    lengths = np.random.default_rng(0).uniform(0.01, 100, size=(70, 1))
    with pytest.warns(FewQueriesWarning, match="The bank has 70 queries"):
        one = ExpectedWrong().fit(X, Y).correction_
    with pytest.warns(FewQueriesWarning):
        other = ExpectedWrong().fit(lengths * X, lengths * Y).correction_
    for name in ("image", "text"):
        np.testing.assert_allclose(
            other.background.lists[name].heights, one.background.lists[name].heights, atol=1e-3
        )
