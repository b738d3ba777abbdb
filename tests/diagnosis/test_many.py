"""More than two modalities and fused documents: one verdict, every direction, the whole way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file

from command_line import script
from conftest import FLICKR8K, make_many
from modgap import Modalities, diagnose, fix, fuse, load_digits, mixed_retrieval
from modgap.corrections import Calibrate, Center
from modgap.evaluation import GroupBootstrap, evaluate_correction
from modgap.io import open_embeddings


def digits(queries=True):
    held = load_digits()
    texts = held.Y[held.wording == 0]
    data = Modalities.of({"image": held.X, "text": texts, "fused": fuse(held.X, texts)})
    if not queries:
        return data
    return data.with_queries({"text": held.Y[held.wording == 1]}, {"text": np.arange(len(held.X))})


def flickr8k():
    held = load_file(FLICKR8K)
    captions = held["text"].astype(np.float32).reshape(len(held["image"]), 5, -1)
    images = held["image"].astype(np.float32)
    rows = {"image": images, "text": captions[:, 0], "fused": fuse(images, captions[:, 0])}
    return Modalities.of(rows).with_queries(
        {"text": captions[:, 1]}, {"text": np.arange(len(images))}
    )


@pytest.fixture(scope="module")
def found():
    return diagnose(make_many(480), queries="text")


def test_three_modalities_get_one_verdict_on_every_direction(found):
    assert found.names == ("image", "text", "audio")
    assert found.verdict == "use"
    assert "in one index for all modalities" in found.sentence
    recalls = [name for name in found.raw.metrics if name.endswith("recall@1")]
    assert recalls == ["image_retrieval_recall@1", "audio_retrieval_recall@1"]
    tried = {trial.method.partition("(")[0] for trial in found.trials}
    assert tried == {"OriginShift", "Center", "Whiten", "Calibrate", "ExpectedWrong"}
    assert found.correction.names == found.names


def test_a_correction_is_eligible_only_if_every_direction_holds():
    """One that breaks the search for audio alone must not be recommended."""
    data = make_many(480)

    class Spoil(Center):
        """Centres, and turns audio round."""

        def _maps_of(self, sides):
            maps = {**super()._maps_of(sides)}
            turned = maps["audio", "document"]
            flip = -np.eye(turned.dim_in)
            maps["audio", "document"] = type(turned)(
                turned.dim_in, flip, offset=flip @ turned.offset, renormalise=True
            )
            return maps

    result = diagnose(data, queries="text", correctors=(Spoil(),))
    (trial,) = result.trials
    assert not trial.eligible
    assert trial.reason.startswith("audio recall@1 falls")


def test_several_askers_name_who_asks():
    result = diagnose(
        make_many(480), queries=("image", "text"), correctors=(Calibrate(form="blocks"),)
    )
    recalls = [name for name in result.raw.metrics if name.endswith("recall@1")]
    assert recalls == [
        "image_retrieval_recall@1",
        "audio_retrieval_by_text_recall@1",
        "text_retrieval_recall@1",
        "audio_retrieval_by_image_recall@1",
    ]


@pytest.mark.parametrize("load", [digits, flickr8k])
def test_fused_documents_raw_three_means_ours(load):
    """NDCG@10 rises from raw to three means to calibration, each beyond its interval."""
    data = load()
    order = np.random.default_rng(0).permutation(data.matched_groups)
    fit, held = (data.take_groups(half) for half in np.array_split(order, 2))
    corrections = [
        None,
        Center().fit(fit).correction_,
        Calibrate().fit(fit, queries="text").correction_,
    ]
    scores = [mixed_retrieval(held, correction=c, queries="text").queries[0] for c in corrections]
    bootstrap = GroupBootstrap(scores[0].group)
    for before, after in pairwise(scores):
        gain = bootstrap.ratios(after.ndcg - before.ndcg, after.group)
        assert bootstrap.interval(*gain).low > 0


def test_the_whole_way_with_fused_documents_and_queries_of_their_own(tmp_path):
    data = digits()
    result = fix(data, folder=tmp_path / "fixed", queries="text")
    (correction,) = result.corrections.values()
    assert correction.names == ("image", "text", "fused")
    assert correction.fitted_queries["text"].n == 1000
    for name in data.names:
        stored = open_embeddings(tmp_path / "fixed" / f"documents-{name}.parquet").rows()
        rows = data.sides[name].rows()
        np.testing.assert_allclose(
            stored, correction.apply(rows, name, keys=data.keys_of(name)), rtol=1e-5
        )
    done = script(tmp_path / "fixed" / "search.py", "-k", "6")
    kinds = {line.split()[1] for line in done.out.splitlines() if not line.startswith("query")}
    assert kinds <= {*data.names}
    assert len(kinds) > 1


def test_a_correction_is_evaluated_on_three_modalities():
    data = digits()
    half = np.random.default_rng(0).permutation(1000)
    fit, held = data.take_groups(half[:500]), data.take_groups(half[500:])
    correction = Calibrate().fit(fit, queries="text").correction_
    result = evaluate_correction(held, None, correction)
    assert not result.fitted_on_these_rows
    assert evaluate_correction(fit, None, correction).fitted_on_these_rows
    names = [name for name in result.raw.metrics if name.endswith("recall@1")]
    assert names == [f"{name}_retrieval_recall@1" for name in data.names]
    before, after = result.raw.metrics, result.corrected.metrics
    assert after["mixed_ndcg@10"].change.low > 0
    for name in names:  # rankings within a modality are kept
        assert after[name].value.value == before[name].value.value
