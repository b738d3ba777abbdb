"""MixBench evaluated: its method reproduced, ours beside it, at the command line too."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from command_line import modgap
from mixbench_files import DIM, judge, make_subset, torch
from modgap.evaluation import ndcg
from modgap.reproduce.mixbench import MixBench, evaluate_mixbench, methods, open_mixbench
from modgap.reproduce.mixbench.methods import OURS, PUBLISHED, searches
from modgap.reproduce.mixbench.scores import ndcg_of_found

Means = dict[str, list[float]]


def unit(row: Any) -> list[float]:
    length = sum(float(x) ** 2 for x in row) ** 0.5
    return [float(x) / length for x in row]


def fused(parts: dict[str, list[float]], weight: float) -> list[float]:
    """The one part there is, or the weighted sum of both."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    both = zip(parts["text"], parts["image"], strict=True)
    return [weight * t + (1 - weight) * i for t, i in both]


def slow_ndcg(folder: Path, weight: float, means: Means | str | None) -> float:
    """NDCG@10 from the files, loop by loop: raw without means, GR-CLIP's with them."""
    shown = {
        d["corpus_id"]: [part for part in ("text", "image") if d[part]]
        for d in map(json.loads, (folder / "mixed_corpus.jsonl").read_text().splitlines())
    }
    sides: dict[str, dict[str, dict[str, list[float]]]] = {"query": {}, "document": {}}
    for side, key, file in (("query", "query_id", "query"), ("document", "corpus_id", "corpus")):
        for saved in torch.load(folder / f"{file}_embeddings.pt", weights_only=True):
            parts = shown[saved[key]] if side == "document" else ("text", "image")
            sides[side][saved[key]] = {
                part: unit(saved[f"{part}_embedding"].tolist())
                for part in parts
                if saved[f"{part}_embedding"] is not None
            }
    if means == "own":
        means = {}
        for side, items in sides.items():
            for part in ("text", "image"):
                rows = [parts[part] for parts in items.values() if part in parts]
                if rows:
                    means[f"{side}_{part}"] = [sum(c) / len(rows) for c in zip(*rows, strict=True)]
    ready: dict[str, dict[str, list[float]]] = {"query": {}, "document": {}}
    for side, items in sides.items():
        for name, parts in items.items():
            row = fused(parts, weight)
            if isinstance(means, dict):
                mean = fused({part: means[f"{side}_{part}"] for part in parts}, weight)
                row = [x - m for x, m in zip(row, mean, strict=True)]
            ready[side][name] = unit(row)
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, score = line.split("\t")
        relevant.setdefault(query, {})[document] = int(score)
    values = []
    for query, q in ready["query"].items():
        scores = {
            name: sum(a * b for a, b in zip(q, d, strict=True))
            for name, d in ready["document"].items()
        }
        best = sorted(scores, key=lambda name: -scores[name])[:10]
        gains = [relevant[query].get(name, 0) for name in best]
        values.append(ndcg_score([gains], [[scores[name] for name in best]], k=10))
    return float(np.mean(values))


@pytest.mark.parametrize("weight", [0.5, 0.2])
@pytest.mark.parametrize("asks", ["text", "fused"])
def test_its_method_is_that_of_the_slow_reference(tmp_path: Path, asks: str, weight: float) -> None:
    folder = make_subset(tmp_path / "OVEN", asks=asks)
    found = evaluate_mixbench(folder, weight=weight).subsets[0].methods
    assert found["raw"].ndcg.value == pytest.approx(slow_ndcg(folder, weight, None), abs=1e-6)
    assert found["gr_clip"].ndcg.value == pytest.approx(slow_ndcg(folder, weight, "own"), abs=1e-6)
    assert found["raw"].ndcg.value < found["gr_clip"].ndcg.value < 1


def test_ndcg_of_documents_in_a_known_order_is_that_by_hand(tmp_path: Path) -> None:
    """Documents at 0, 5, … 55 degrees, queries just below 0: document i is in place i + 1."""
    folder = make_subset(tmp_path / "MSCOCO", n=12)
    degrees = {"corpus": 5.0 * np.arange(12), "query": -0.1 * np.arange(1, 13)}
    for what, angles in degrees.items():
        (folder / f"{what}_embeddings.pt").unlink()
        rows = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
        np.save(folder / f"{what}_embeddings.npy", (1 + angles[:, None] ** 2) * rows)
    raw = evaluate_mixbench(folder).subsets[0].methods["raw"]
    by_hand = [1, 0.63093, 0.5, 0.43068, 0.38685, 0.35621, 1 / 3, 0.31546, 0.30103, 0.28906, 0, 0]
    assert raw.ndcg.value == pytest.approx(sum(by_hand) / 12, abs=1e-5)
    judge(folder, "q0\t3\t1", header="")  # places 1 and 4, of at best 1 and 2
    both = evaluate_mixbench(folder).subsets[0].methods["raw"].ndcg_of_all.value
    by_hand[0] = (1 + 0.43068) / (1 + 0.63093)
    assert both == pytest.approx(sum(by_hand) / 12, abs=1e-5)


def test_rows_of_texts_with_their_images_are_taken_as_the_model_gave_them(tmp_path: Path) -> None:
    folder = make_subset(tmp_path / "MSCOCO")
    path = folder / "corpus_embeddings.pt"
    before = evaluate_mixbench(folder)
    entries = torch.load(path, weights_only=True)
    for entry in entries:
        parts = {part: unit(entry[f"{part}_embedding"].tolist()) for part in ("text", "image")}
        entry["vlm_mixed_embedding"] = 7 * torch.tensor(fused(parts, 0.5))
    torch.save(entries, path)
    after = evaluate_mixbench(folder, weight=0.9)
    old, new = (result.subsets[0].methods for result in (before, after))
    assert new["raw"].ndcg.value == pytest.approx(old["raw"].ndcg.value, abs=1e-9)
    assert new["gr_clip"].ndcg.value > new["raw"].ndcg.value
    assert any("mean of such rows, which is not in its paper" in note for note in after.notes())
    means = methods.own_means(open_mixbench(folder).subsets[0])
    rows = [unit(entry["vlm_mixed_embedding"].tolist()) for entry in entries[2::3]]
    np.testing.assert_allclose(means["document_fused"], np.mean(rows, axis=0), atol=1e-7)


def test_means_from_elsewhere_are_the_ones_subtracted(tmp_path: Path) -> None:
    folder = make_subset(tmp_path / "MSCOCO")
    names = ("query_text", "document_text", "document_image")
    rng = np.random.default_rng(3)
    means = {name: (0.1 * rng.normal(size=DIM)).tolist() for name in names}
    result = evaluate_mixbench(folder, means=means)
    slow = slow_ndcg(folder, 0.5, means)
    assert result.subsets[0].methods["gr_clip"].ndcg.value == pytest.approx(slow, abs=1e-6)
    assert any("the means that were given" in note for note in result.notes())


def test_several_relevant_documents_tell_both_definitions_apart(tmp_path: Path) -> None:
    folder = make_subset(tmp_path / "MSCOCO")
    for i in range(60):
        for other in range(i % 4):
            judge(folder, f"q{i}\t{(i + 7 * (other + 1)) % 60}\t{other + 1}", header="")
    result = evaluate_mixbench(folder)
    found = result.subsets[0].methods["gr_clip"]
    assert found.ndcg.value == pytest.approx(slow_ndcg(folder, 0.5, "own"), abs=1e-6)
    assert found.ndcg_of_all.value < found.ndcg.value
    assert result.definitions_differ
    assert "NDCG@10, over all relevant documents" in result.tables()


def test_ndcg_over_what_was_found_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, size=(200, 10)) * rng.integers(0, 2, size=(200, 10))
    scores = -np.sort(-rng.integers(0, 6, size=(200, 10)), axis=1).astype(float)  # with ties
    expected = [ndcg_score([g], [s], k=10) for g, s in zip(grades, scores, strict=True)]
    np.testing.assert_allclose(ndcg_of_found(grades, scores), expected, atol=1e-12)


def test_with_one_relevant_document_both_definitions_are_one() -> None:
    relevant = np.eye(11, 10)  # found in every place, and missed
    scores = np.tile(np.arange(10.0, 0, -1), (11, 1))
    np.testing.assert_allclose(
        ndcg_of_found(relevant, scores), ndcg(relevant > 0, np.ones(11, int)), atol=1e-15
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_subset(tmp_path / "MSCOCO", n=12)


@pytest.fixture
def bench(tmp_path: Path) -> MixBench:
    for seed, name in enumerate(("MSCOCO", "OVEN")):
        asks = "fused" if name == "OVEN" else "text"
        make_subset(tmp_path / name, seed=seed, asks=asks, bank=40, mixed=name == "OVEN")
    return open_mixbench(tmp_path)


def test_no_method_looks_at_the_qrels(bench: MixBench) -> None:
    for subset in bench.subsets:
        blind = searches(replace(subset, qrels=None))  # type: ignore[arg-type]
        assert list(blind) == ["raw", "gr_clip", *OURS]
        for method, seen in searches(subset).items():
            np.testing.assert_array_equal(seen.queries, blind[method].queries)
            for kind, rows in seen.documents.items():
                np.testing.assert_array_equal(rows, blind[method].documents[kind])


def test_calibration_takes_three_kinds_and_the_queries_apart(bench: MixBench) -> None:
    """Scores of the wrong documents have mean 0 and spread 1 in every kind, over all queries."""
    subset = bench.subsets[0]
    found = searches(subset)["calibrated"]
    assert set(found.documents) == {"image", "text", "fused"}
    for rows in found.documents.values():
        scores = found.queries @ rows.T
        np.testing.assert_allclose(scores.mean(axis=1), 0, atol=1e-5)
        assert float(np.mean(scores**2)) ** 0.5 == pytest.approx(1, abs=1e-3)


def test_hubs_are_one_more_column_and_need_a_bank(bench: MixBench) -> None:
    subset = bench.subsets[1]
    found = searches(subset)["hubs"]
    assert found.queries.shape[1] == DIM + 1
    assert "hubs" not in searches(replace(subset, bank=None))
    some = MixBench((bench.subsets[0], replace(subset, bank=None)))
    result = evaluate_mixbench(some)
    assert "hubs" in result.subsets[0].methods
    assert "hubs" not in result.mean
    assert any(note.startswith("Without hubs") for note in result.notes())


def test_the_mean_and_the_gains_are_over_the_subsets(bench: MixBench) -> None:
    result = evaluate_mixbench(bench, sweep=(0.5, 1.0), seed=4)
    for method, mean in result.mean.items():
        parts = [one.methods[method] for one in result.subsets]
        assert mean.ndcg.value == pytest.approx(np.mean([part.ndcg.value for part in parts]))
        assert result.sweep["0.5"][method] == pytest.approx(mean.ndcg.value)
        if mean.over_gr_clip is not None:
            gain = mean.ndcg.value - result.mean["gr_clip"].ndcg.value
            assert mean.over_gr_clip.value == pytest.approx(gain)
            assert mean.over_gr_clip.low <= gain <= mean.over_gr_clip.high
    assert result.sweep["1"]["raw"] != result.sweep["0.5"]["raw"]
    assert result.published == {}
    beside = evaluate_mixbench(bench, model="CLIP-L/14").published
    assert beside["raw"] == {"MSCOCO": 0.426, "OVEN": 0.389, "mean": 0.4075}
    assert [*evaluate_mixbench(bench, model="VLM2Vec-Qwen2VL-7B").published] == ["raw"]


def test_the_published_values_are_those_of_the_abstract() -> None:
    """Up to 26 percentage points over the same model, 4 over generative models, on average."""
    mean = {
        (model, method): np.mean(row)
        for model, rows in PUBLISHED.items()
        for method, row in rows.items()
    }
    gains = [mean[model, "gr_clip"] - mean[model, "raw"] for model, m in mean if m == "gr_clip"]
    best = max(value for (_, method), value in mean.items() if method == "gr_clip")
    assert round(100 * max(gains)) == 26
    assert round(100 * (best - mean["VLM2Vec-Qwen2VL-7B", "raw"])) == 4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"weight": 1.5}, "weight must be between 0 and 1, got 1.5"),
        ({"sweep": [0.5, -1]}, "weight must be between 0 and 1, got -1"),
        ({"model": "CLIP-L14"}, "model must be one of .* Did you mean 'CLIP-L/14'"),
        ({"means": {"query_text": np.ones(DIM)}}, "means must give the mean 'document_text'"),
        (
            {"means": {name: [1.0] for name in ("query_text", "document_text", "document_image")}},
            f"must have the {DIM} columns of the rows, got 1",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_said(
    folder: Path, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        evaluate_mixbench(folder, **given)


def test_documents_of_one_kind_are_refused(folder: Path) -> None:
    (found,) = open_mixbench(folder).subsets
    texts = replace(found.documents, kinds=np.full(12, "text"), text=found.queries.text)
    one = replace(found, documents=texts)
    with pytest.raises(ValueError, match="MSCOCO must have documents of two kinds at least"):
        evaluate_mixbench(MixBench((one,)))


def test_the_command_prints_the_metrics_of_the_library(bench: MixBench, tmp_path: Path) -> None:
    result = evaluate_mixbench(bench)
    ran = modgap("mixbench", tmp_path, "--model", "CLIP-L/14")
    assert (ran.status, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    values = [f"{score.ndcg.value:.3f}" for score in result.mean.values()]
    assert ["mean", *values, "0.407", "0.560"] in lines
    for words in ("own rows, not of training splits", "MSCOCO: no mixed_corpus.jsonl", "CLIP-L/14"):
        assert words in ran.out


def test_the_command_prints_json_and_sweeps(bench: MixBench, tmp_path: Path) -> None:
    ran = modgap("mixbench", tmp_path / "OVEN", "--json", "--sweep", "--seed", 3)
    assert ran.status == 0
    assert (ran.json["schema"].split("/")[1], ran.json["seed"]) == ("mixbench", 3)
    (one,) = ran.json["subsets"]
    assert one["documents"] == {"image": 20, "text": 20, "fused": 20}
    assert list(ran.json["sweep"]) == [f"{i / 10:g}" for i in range(11)]
    swept = ran.json["sweep"]["0.5"]["gr_clip"]
    assert swept == pytest.approx(one["methods"]["gr_clip"]["ndcg"]["value"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Missing argument 'DIR'"),
        (("x", "--weight", "2"), "Invalid value for '--weight'"),
        (("nowhere",), "nowhere must be the folder of MixBench"),
    ],
)
def test_the_command_refuses_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    ran = modgap("mixbench", *words)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1


PAGE = (Path(__file__).parents[2] / "docs" / "evidence" / "mixbench.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_subset(tmp_path / "MixBench25" / "MSCOCO")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    exec(compile(code, "mixbench.md", "exec"), {})
    assert capsys.readouterr().out.startswith("raw 0.")


def test_the_page_has_the_published_values() -> None:
    for model, rows in PUBLISHED.items():
        for method, row in rows.items():
            name = f"{model}, GR-CLIP" if method == "gr_clip" else model
            assert f"| {name} | {' | '.join(f'{v:.3f}' for v in row)} |" in PAGE
