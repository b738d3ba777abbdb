"""What moved between two sets of rows: numbers against slow references, chance, planted changes."""

from __future__ import annotations

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from conftest import load_published, load_published_tensors, unit
from modgap import detect_drift
from modgap.core.checks import InputError, InputValueError
from modgap.core.results import document, to_json
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.datasets import load_digits
from modgap.drift import BlockedMoments, DriftReport, load_streams, save_streams, streams_of
from modgap.drift.blocked_moments import MOST_BLOCKS, Blocks, probe_directions
from modgap.drift.detection import LEAST
from modgap.drift.estimate import Estimate, z_of_log_ratio
from modgap.moments import Moments, PairMoments
from streams import DIM, SPREADS, stream, turned


def pair(rng, n=1000, **more):
    """Two modalities with a gap."""
    gap = np.zeros(DIM)
    gap[0] = 2.0
    return {"image": stream(rng, n, mean=1 + gap, **more), "text": stream(rng, n, **more)}


def moved(report: DriftReport) -> dict[str, tuple[str, ...]]:
    found = {s.name: s.moved for s in report.streams}
    return found | {"gap": tuple(g.first for g in report.gaps if g.alarm)}


def test_blocks_hold_the_sums_of_consecutive_rows(rng):
    rows = stream(rng, 1000)
    whole = BlockedMoments.of(rows, "given")
    parts = BlockedMoments.of(rows[:13], "given")
    for start in range(13, 1000, 41):
        parts = parts.then(rows[start : start + 41])
    probes = probe_directions(DIM)
    for found in (whole.blocks, parts.blocks):
        assert len(found.counts) <= MOST_BLOCKS
        assert found.counts.sum() == 1000
        start = 0
        for count, sums in zip(found.counts, found.sums, strict=True):
            block = rows[start : start + count]
            squares = [sum(float(x @ x) for x in block)]
            along = [sum(float(g @ x) ** 2 for x in block) for g in probes]
            assert sums == pytest.approx([*block.sum(axis=0), *squares, *along], rel=1e-9)
            start += count
    few = whole.blocks.evened(10)
    assert len(few.counts) == 10
    assert few.sums.sum(axis=0) == pytest.approx(whole.blocks.sums.sum(axis=0))
    assert few.counts.max() < 2 * few.counts.min()


def test_probes_are_the_same_on_every_machine():
    found = probe_directions(3)
    assert found.shape == (64, 3)
    assert np.mean(np.sum(found**2, axis=1)) == pytest.approx(1, abs=0.2)
    raw = np.random.PCG64(19).random_raw(3)  # whose bits are promised to stay
    expected = [NormalDist().inv_cdf(((int(bits) >> 11) + 0.5) / 2**53) for bits in raw]
    assert found[0] * 3**0.5 == pytest.approx(expected)


def test_numbers_are_those_of_their_definitions(rng):
    a, b = stream(rng, 800), 1.2 * stream(rng, 600) + 0.1
    then, now = (Estimate(BlockedMoments(BlockedMoments.of(x, "given").moments)) for x in (a, b))
    report = detect_drift({"text": a}, {"text": b}, rows="given", independent=True).streams[0]
    errors = [np.trace(np.cov(x.T, bias=True)) / len(x) for x in (a, b)]
    assert then.mean_error.trace == pytest.approx(errors[0])
    assert then.mean_error.square == pytest.approx(np.sum(np.cov(a.T, bias=True) ** 2) / 800**2)
    step = b.mean(axis=0) - a.mean(axis=0)
    spread = np.trace(np.cov(a.T))
    assert report.mean_shift == pytest.approx(
        math.sqrt((step @ step - sum(errors)) / spread), rel=1e-3
    )
    assert report.spread_ratio == pytest.approx(np.trace(np.cov(b.T)) / spread, rel=1e-3)
    shapes = [np.cov(x.T) / np.trace(np.cov(x.T)) for x in (a, b)]
    noise = sum((1 + np.sum(s**2)) / len(x) for s, x in zip(shapes, (a, b), strict=True))
    distance = math.sqrt(max(np.sum((shapes[1] - shapes[0]) ** 2) - noise, 0))
    assert report.shape_distance == pytest.approx(distance / np.linalg.norm(shapes[0]), abs=0.01)
    assert z_of_log_ratio(0.1, then.spread_error, now.spread_error) > 0


def test_z_is_what_a_permutation_test_finds(rng):
    a, b = stream(rng, 150), stream(rng, 150)
    b = b + 0.13 * SPREADS
    both, squared = np.vstack([a, b]), float(np.sum((a.mean(axis=0) - b.mean(axis=0)) ** 2))
    chance = []
    for _ in range(4000):
        order = rng.permutation(300)
        step = both[order[:150]].mean(axis=0) - both[order[150:]].mean(axis=0)
        chance.append(float(step @ step))
    p = float(np.mean(np.array(chance) >= squared))
    z = detect_drift({"t": a}, {"t": b}, rows="given", independent=True).streams[0].mean_z
    assert 0.002 < p < 0.05
    assert z == pytest.approx(stats.norm.isf(p), abs=0.3)


@pytest.mark.parametrize("session", [1, 5, 20])
def test_chance_seldom_looks_like_drift_also_where_rows_come_in_sessions(session):
    rng = np.random.default_rng(session)
    zs = []
    for _ in range(70):
        a, b = (unit(stream(rng, n, session=session)) for n in (1500, 500))
        found = detect_drift({"text": a}, {"text": b}).streams[0]
        assert found.moved == ()
        zs.append([found.mean_z, found.spread_z, found.shape_z])
    beyond = np.mean(np.array(zs) > stats.norm.isf(0.05), axis=0)
    assert np.all(beyond <= 0.12)
    assert np.max(zs) < 4.2


def test_rows_of_saved_moments_are_taken_to_be_as_clustered_as_those_beside_them():
    rng = np.random.default_rng(3)
    for _ in range(40):
        a, b = (unit(stream(rng, 500, session=10)) for _ in range(2))
        assert not detect_drift({"text": Moments.from_batch(a)}, {"text": b}).drifted
    clustered = detect_drift({"text": a}, {"text": b}).streams[0].clustering
    assert 3 < clustered < 16


def test_a_change_of_the_means_alone_is_named_so(rng):
    a = pair(rng)
    b = {name: rows + 0.5 * SPREADS for name, rows in pair(rng).items()}  # both move together
    found = moved(detect_drift(a, b, rows="given"))
    assert found == {"image": ("mean",), "text": ("mean",), "gap": ()}


def test_a_change_of_the_spread_alone_is_named_so(rng):
    a, b = pair(rng), pair(rng)
    b["text"] = 1.25 * (b["text"] - b["text"].mean(axis=0)) + a["text"].mean(axis=0)
    report = detect_drift(a, b, rows="given")
    assert moved(report) == {"image": (), "text": ("spread",), "gap": ()}
    assert report.streams[1].spread_ratio == pytest.approx(1.25**2, rel=0.1)


def test_rows_that_turn_about_their_mean_are_named_so(rng):
    a, b = pair(rng), pair(rng)
    b["image"] = turned(b["image"])
    report = detect_drift(a, b, rows="given")
    assert moved(report) == {"image": ("shape",), "text": (), "gap": ()}
    assert report.streams[0].direction_ratio < 0.2


def test_a_small_gap_may_move_where_no_mean_moves_far(rng):
    a = {"image": stream(rng, 6000, mean=1.1), "text": stream(rng, 6000)}
    b = {"image": stream(rng, 6000, mean=1.13), "text": stream(rng, 6000, mean=0.97)}
    report = detect_drift(a, b, rows="given")
    assert moved(report) == {"image": (), "text": (), "gap": ("image",)}
    (gap,) = report.gaps
    assert gap.distance_then == pytest.approx(0.1 * DIM**0.5, rel=0.2)
    assert gap.distance_now == pytest.approx(0.16 * DIM**0.5, rel=0.2)
    assert gap.cosine > 0.9


def test_a_change_that_is_sure_but_small_is_no_alarm(rng):
    a, b = stream(rng, 20_000), stream(rng, 20_000) + 0.07 * SPREADS
    (found,) = detect_drift({"t": a}, {"t": b}, rows="given").streams
    assert found.mean_z > 6
    assert found.mean_shift < LEAST["mean"]
    assert found.moved == ()
    assert detect_drift({"t": a}, {"t": b}, rows="given", least={"mean": 0.01}).drifted


def test_a_step_within_the_rows_is_found(rng):
    b = stream(rng, 900)
    b[400:] += SPREADS
    (found,) = detect_drift({"t": stream(rng, 2000)}, {"t": b}, rows="given").streams
    assert "mean" in found.moved
    assert found.clustering < 4


def test_too_few_rows_are_not_judged(rng):
    report = detect_drift({"text": stream(rng, 500)}, {"text": stream(rng, 60) + 5})
    assert not report.drifted
    assert report.verdict == "Too few rows to judge text."
    assert not report.streams[0].judged
    assert "–" in str(report)


def test_queries_are_compared_with_documents_where_there_are_no_others(rng):
    a = pair(rng)
    report = detect_drift(a, {"text queries": stream(rng, 400) + 2 * SPREADS})
    assert report.streams[0].compared_with == "text"
    assert [(g.first, g.second) for g in report.gaps] == [("image", "text queries")]
    own = a | {"text queries": stream(rng, 400) + 2 * SPREADS}
    assert (
        detect_drift(own, {"text queries": stream(rng, 400)}).streams[0].compared_with
        == "text queries"
    )


def test_every_way_to_give_rows_finds_the_same(rng, tmp_path):
    a, b = pair(rng, 400), pair(rng, 300)
    both = [PairMoments.from_batch(*side.values()) for side in (a, b)]
    expected = detect_drift(both[0], both[1])
    both[0].save(tmp_path / "a.safetensors")
    np.savez(tmp_path / "b.npz", image=b["image"], text=b["text"])
    found = detect_drift(tmp_path / "a.safetensors", str(tmp_path / "b.npz"), independent=True)
    assert [s.mean_z for s in found.streams] == pytest.approx([s.mean_z for s in expected.streams])
    streams = streams_of(a)
    save_streams(streams, tmp_path / "s.safetensors")
    again = load_streams(tmp_path / "s.safetensors")
    assert (
        detect_drift(again, b) == detect_drift(a, b) == detect_drift(tmp_path / "s.safetensors", b)
    )
    Moments.from_batch(a["text"]).save(tmp_path / "m.safetensors")
    assert detect_drift(tmp_path / "m.safetensors", b["text"]).streams[0].name == "rows"


def test_what_cannot_be_compared_is_refused_in_a_sentence(rng, tmp_path):
    a = {"text": stream(rng, 200)}
    with pytest.raises(InputValueError, match="nothing to compare: text then, and image now"):
        detect_drift(a, {"image": stream(rng, 200)})
    with pytest.raises(InputValueError, match="same number of columns, got 5 and 12"):
        detect_drift(a, {"text": np.ones((200, 5))})
    with pytest.raises(InputValueError, match="must hold the covariance"):
        detect_drift({"text": Moments.from_batch(a["text"], detail="variance")}, a)
    with pytest.raises(InputValueError, match="rows='unit'"):
        detect_drift(streams_of(a), a, rows="given")
    with pytest.raises(InputValueError, match="alpha must be between"):
        detect_drift(a, a, alpha=0.7)
    with pytest.raises(InputValueError, match="least takes sizes of mean"):
        detect_drift(a, a, least={"size": 1})
    with pytest.raises(InputValueError, match="NaN"):
        detect_drift(a, {"text": np.full((200, DIM), np.nan)})
    save_streams(streams_of(a), tmp_path / "s.safetensors")
    data = bytearray((tmp_path / "s.safetensors").read_bytes())
    data[-20] ^= 0xFF
    (tmp_path / "s.safetensors").write_bytes(data)
    with pytest.raises(InputValueError, match="damaged"):
        detect_drift(tmp_path / "s.safetensors", a)
    with pytest.raises(InputError):
        detect_drift(tmp_path / "none.npy", a)


@pytest.mark.parametrize(
    "rows", [np.zeros((300, DIM)), np.ones((300, DIM)), np.eye(DIM)[np.arange(300) % 2]]
)
def test_rows_that_hardly_vary_give_finite_numbers(rng, rows):
    for a, b in ((rows, rows), (rows, stream(rng, 300)), (stream(rng, 300), rows)):
        report = detect_drift({"t": a}, {"t": b}, rows="given")
        json.loads(to_json(document("drift", report)))
        assert math.isfinite(report.streams[0].mean_z)


def test_a_correction_fits_the_rows_it_was_fitted_on_and_new_ones_like_them():
    digits = load_digits()
    first = digits.wording == 0
    X, Y = digits.X, digits.Y[first]
    order = np.random.default_rng(0).permutation(len(X))
    X, Y = X[order], Y[order]
    half = len(X) // 2
    a, b = {"image": X[:half], "text": Y[:half]}, {"image": X[half:], "text": Y[half:]}
    for corrector in (Calibrate(), Calibrate("mixed"), Calibrate(form="blocks"), Center(), Shift(),
                      Whiten(), Procrustes(), OrthogonalShift(explained_variance=0.5),
                      Calibrate(hubs=0.5)):  # fmt: skip
        correction = corrector.fit(a["image"], a["text"]).correction_
        same = detect_drift(a, a, correction).corrections[0]
        assert same.fits is True, corrector
        assert max(same.odds.values()) < 1.1
        new = detect_drift(a, b, correction)
        assert new.fits is not False, new.corrections[0].sentence
        assert not new.drifted


def test_what_moments_say_of_scores_is_what_the_scores_do(rng):
    n, dim = 1200, 60
    a = {name: rng.normal(size=(n, dim)) + mean for name, mean in (("image", 0.5), ("text", 0.2))}
    b = {"image": 1.05 * a["image"] + 0.1, "text": a["text"]}
    correction = Calibrate().fit(a["image"], a["text"], rows="given").correction_
    found = detect_drift(a, b, correction).corrections[0]
    queries = correction.apply(rng.normal(size=(n, dim)) + 0.2, "text", "query")
    before, scores = (
        {name: queries @ correction.apply(rows, name).T for name, rows in docs.items()}
        for docs in (a, b)
    )
    means = {name: s.mean() for name, s in scores.items()}
    spreads, then = (
        {name: float(np.sqrt(np.mean(np.var(s, axis=1)))) for name, s in one.items()}
        for one in (scores, before)
    )
    scale = math.hypot(*spreads.values()) / 2**0.5
    assert found.favoured == {"text": "image"}
    assert found.offset["text"] == pytest.approx((means["image"] - means["text"]) / scale, abs=0.05)
    ratio = spreads["image"] / spreads["text"] / (then["image"] / then["text"])
    assert found.spread_ratio["text"] == pytest.approx(ratio, rel=0.01)
    every = np.sort(np.concatenate([s.ravel() for s in scores.values()]))
    top = every[-int(len(every) * stats.norm.sf(3.5))]
    beyond = {name: np.sum(s > top) for name, s in scores.items()}
    share = beyond["image"] / sum(beyond.values())
    assert found.share_now["text"] == pytest.approx(share, abs=0.1)
    assert found.share_then["text"] == pytest.approx(0.5, abs=0.1)
    assert found.fits is False
    assert "Fit Calibrate(mode='keep') again: " in found.sentence


def test_what_was_not_corrected_is_what_a_new_fit_corrects(rng):
    a, b = pair(rng, 2000), pair(rng, 2000)
    b["text"] = 1.5 * (b["text"] - 1) + 1.3
    old = Calibrate().fit(a["image"], a["text"])
    new = Calibrate().fit(b["image"], b["text"])
    found = detect_drift(a, b, old.correction_).corrections[0]
    assert found.fits is False
    sign = 1 if found.favoured["text"] == "image" else -1
    ratios = [(c.spreads_["y", "x"] / c.spreads_["y", "y"]) ** sign for c in (old, new)]
    assert found.spread_ratio["text"] == pytest.approx(ratios[1] / ratios[0], rel=0.01)
    assert detect_drift(b, b, new.correction_).fits is True


def test_rows_as_given_and_queries_of_their_own_are_taken_as_the_correction_takes_them(rng):
    a = pair(rng, 1500)
    asked = 0.5 * stream(rng, 800)
    corrector = Calibrate().fit(a["image"], a["text"], query_rows={"text": asked}, rows="given")
    report = detect_drift(
        a | {"text queries": asked}, {"text queries": asked}, corrector.correction_
    )
    assert report.rows == "given"
    assert report.fits is True
    worse = detect_drift(a, {"image": a["image"] + 3 * SPREADS}, corrector.correction_)
    assert worse.fits is False
    assert worse.corrections[0].favoured == {"text": "image"}


def test_a_correction_that_cannot_be_judged_says_why(rng):
    a = pair(rng, 300)
    correction = Correction.identity(DIM)
    missing = detect_drift({"text": a["text"]}, {"text": a["text"]}, correction).corrections[0]
    assert missing.fits is None
    assert missing.sentence == "Correction: not judged, nothing is known of image rows."
    with pytest.raises(InputValueError, match="for rows of 5 columns"):
        detect_drift(a, a, Correction.identity(5))


def test_a_report_says_what_it_found(rng):
    a = pair(rng)
    b = {"image": a["image"], "text": a["text"] + 2 * SPREADS}
    report = detect_drift(a, b, Calibrate().fit(a["image"], a["text"]).correction_)
    assert repr(report).startswith("DriftReport(text mean")
    header, rows = report.table()
    assert header == ("", "image", "text")
    assert any(cell.endswith("*") for row in rows for cell in row)
    assert "The mean of text moved by" in str(report)
    assert "<svg" in report._repr_html_()
    said = json.loads(to_json(document("drift", report)))
    assert said["schema"] == "modgap/drift/2"
    assert said["streams"][1]["moved"] == list(report.streams[1].moved)
    pytest.importorskip("matplotlib")
    axes = report.plot()
    assert "large" in axes.get_title()
    import matplotlib.pyplot as pyplot

    pyplot.close(axes.figure)


def test_no_blocks_at_all_are_no_blocks():
    assert Blocks.none(3).then(np.zeros((0, 3))).counts.size == 0


@pytest.mark.parametrize("other", ["clip_random", "convirt", "unsplash", "turned"])
def test_published_rows_of_another_model_are_known(other):
    then = dict(zip(("image", "text"), load_published("features_clip.npy"), strict=True))
    if other == "unsplash":  # CLIP, too, but with patches of 32 pixels
        now = load_published_tensors("unsplash-clip-b32")
    elif other == "turned":
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(512, 512)))[0]
        now = {name: rows @ turn for name, rows in then.items()}
    else:
        now = dict(zip(then, load_published(f"features_{other}.npy"), strict=True))
    report = detect_drift(then, {name: now[name] for name in then})
    assert [one.another_model for one in report.streams] == ["yes", "yes"]
    assert report.sentences()[0].startswith("Rows are of another model:")


def test_published_rows_of_one_model_are_not_taken_for_another():
    names = load_published_tensors("imagenet-clip-b32")
    photos = load_published_tensors("unsplash-clip-b32")
    then = {"image": names["image"], "text": names["class_text"]}
    for now in (photos, {"image": names["image"], "text": names["class_text_other_wording"]}):
        report = detect_drift(then, {name: now[name] for name in then})
        assert report.drifted
        assert all(one.another_model == "no" for one in report.streams)
        assert "model" not in report.verdict
