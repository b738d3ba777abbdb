"""A correction inside mteb: tasks that need no download, run by mteb itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import modgap
from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import Calibrate, Center, Correction

pytestmark = pytest.mark.integrations
mteb = pytest.importorskip("mteb", reason="mteb is not installed")

from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData  # noqa: E402
from mteb.mocks import mock_tasks  # noqa: E402
from mteb.models.abs_encoder import AbsEncoder  # noqa: E402
from mteb.models.model_meta import ModelMeta  # noqa: E402
from mteb.types import PromptType  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from datasets import Dataset  # noqa: E402
from modgap.adapters import MtebEncoder  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "mteb_report.py"
N = 40


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("mteb_report", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(example):
    return example.DigitModel()


@pytest.fixture(scope="module")
def task(example):
    return example.DigitTask(N)


@pytest.fixture(scope="module")
def rows():
    digits = modgap.load_digits()
    return digits.X[:N], digits.Y[: 5 * N : 5]


@pytest.fixture(scope="module")
def raw(model, task):
    """The model as it is, after a run."""
    encoder = MtebEncoder(model)
    return encoder, evaluated(encoder, task)


def evaluated(encoder, task, **options):
    return mteb.evaluate(encoder, task, show_progress_bar=False, **{"cache": None, **options})


def main_score(results):
    return results.task_results[0].get_score()


def test_an_encoder_without_a_correction_changes_nothing(raw, model, task, rows):
    encoder, results = raw
    assert main_score(results) == main_score(evaluated(model, task))
    assert encoder.mteb_model_meta == model.mteb_model_meta
    data = encoder.modalities(task)
    assert data.names == ("image", "text")
    for name, side in zip(data.names, rows, strict=True):
        np.testing.assert_array_equal(data.sides[name].rows(), side)
    assert [codes.tolist() for codes in data.groups] == [[*range(N)]] * 2
    assert not task.data_loaded


def test_the_report_of_a_run_has_the_numbers_of_the_library(example, model, rows, capsys):
    report = example.main(model, example.DigitTask(N, first=N), example.DigitTask(N))
    assert str(report) in capsys.readouterr().out
    (found,) = report.pairs
    images, texts = rows
    assert (found.task, found.n_rows, found.n_matches) == ("DigitsT2I", (N, N), N)
    assert found.gap == pytest.approx(modgap.measures.gap_distance(images, texts), abs=1e-6)
    assert found.cones[0] == pytest.approx(modgap.measures.cone(images).mean, abs=1e-6)
    mixed = modgap.mixed_retrieval(images, texts, queries="text")
    assert found.mixed.ndcg == pytest.approx(mixed.ndcg)
    assert found.mixed.own_excess == pytest.approx(mixed.own_excess)
    assert found.corrected.ndcg > found.mixed.ndcg + 0.5
    assert abs(found.corrected.own_excess) < 0.1
    assert "(modgap=Calibrate(mode='keep') " in report.model


@pytest.mark.parametrize("hubs", [0.0, 0.25])
def test_mteb_ranks_by_corrected_vectors_and_their_metric(hubs, raw, model, task, rows):
    digits = modgap.load_digits()
    others = digits.X[N : 2 * N], digits.Y[5 * N : 10 * N : 5]
    correction = Calibrate(hubs=hubs).fit(*others).correction_
    encoder = MtebEncoder(model, correction)
    score = main_score(evaluated(encoder, task))
    meta = encoder.mteb_model_meta
    assert (meta.embed_dim, meta.similarity_fn_name.value) == (correction.dim_out, "dot")
    asked = correction.apply(rows[1], "text", "query")
    stored = correction.apply(rows[0], "image")
    scores = encoder.similarity(asked, stored).numpy()
    np.testing.assert_allclose(scores, asked @ stored.T, atol=1e-5)
    pairwise = encoder.similarity_pairwise(asked, stored)
    np.testing.assert_allclose(pairwise, np.diag(scores), atol=1e-5)
    if not hubs:  # it keeps the ranking within a modality
        assert score == main_score(raw[1])


def test_mteb_keeps_results_of_each_correction_apart(raw, model, task, tmp_path):
    data = raw[0].modalities(task)
    cache = mteb.ResultCache(tmp_path)
    encoders = [
        MtebEncoder(model, correction)
        for correction in (
            None, Center().fit(data).correction_,
            *(Calibrate().fit(data, queries=asks).correction_ for asks in ("text", "image")),
        )
    ]  # fmt: skip
    names = {encoder.mteb_model_meta.experiment_name for encoder in encoders}
    assert len(names) == len(encoders)
    first, second = encoders[:2]
    scores = [main_score(evaluated(one, task, cache=cache)) for one in (first, second, first)]
    assert scores[0] == scores[2] == main_score(raw[1])
    fresh = MtebEncoder(model)
    evaluated(fresh, task, cache=cache)
    with pytest.raises(InputValueError, match=r"No rows of DigitsT2I were kept.*cache=None"):
        fresh.report(task)


class Numbered(AbsEncoder):
    """A row for each input by its number, whatever it is."""

    mteb_model_meta = None

    def __init__(self, rows):
        self.rows = rows

    def encode(self, inputs, **options):
        return self.rows[: len(inputs.dataset)]


def encode(encoder, columns, prompt_type):
    loader = DataLoader(Dataset.from_dict(columns), batch_size=2)
    return encoder.encode(
        loader,
        task_metadata=SimpleNamespace(name="made"),
        hf_split="test",
        hf_subset="default",
        prompt_type=prompt_type,
    )


def test_each_input_is_corrected_as_what_it_is(example, rows):
    correction = Calibrate().fit(*rows).correction_
    encoder = MtebEncoder(Numbered(rows[0]), correction, trust_rows=True)
    picture = example.picture_of(np.zeros((8, 8)))
    mixed = {"id": ["1", "2"], "text": ["", "a seven"], "image": [picture, None]}
    found = encode(encoder, mixed, PromptType.document)
    for place, name in enumerate(("image", "text")):
        expected = correction.apply(rows[0][[place]], name)
        np.testing.assert_allclose(found[[place]], expected, atol=1e-6)
    asked = encode(encoder, {"text": ["a seven"], "query": ["seven"]}, PromptType.query)
    np.testing.assert_allclose(asked, correction.apply(rows[0][:1], "text", "query"), atol=1e-6)


def test_what_the_correction_is_not_for_is_refused_before_it_is_embedded(example, rows):
    encoder = MtebEncoder(Numbered(None), Calibrate().fit(*rows).correction_)
    picture = example.picture_of(np.zeros((8, 8)))
    for columns, prompt_type, said in (
        ({"text": ["a"], "image": [picture]}, PromptType.document, r"made has image\+text inputs"),
        ({"image": [picture]}, PromptType.query, "serves text queries, not image queries"),
        ({"text": ["a"]}, None, "made does not say which inputs are queries, and Calibrate"),
        ({"label": ["a"]}, None, "inputs of made are none of image, text, audio and video: label"),
    ):
        with pytest.raises(InputValueError, match=said):
            encode(encoder, columns, prompt_type)
    center = Center().fit(*rows).correction_
    found = encode(MtebEncoder(Numbered(rows[1]), center), {"text": ["a"]}, None)
    np.testing.assert_allclose(found, center.apply(rows[1][:1], "text"), atol=1e-6)


def test_what_is_no_encoder_of_vectors_is_refused(rows, task):
    with pytest.raises(InputTypeError, match="must be an encoder of mteb, got str"):
        MtebEncoder("clip")
    with pytest.raises(InputTypeError, match="must be a Correction, got str"):
        MtebEncoder(Numbered(rows[0]), "correction.safetensors")
    several = MtebEncoder(Numbered(rows[0][:, :, None]))
    with pytest.raises(InputValueError, match=r"one vector for each of the 1 inputs of made"):
        encode(several, {"text": ["a"]}, None)
    kept = MtebEncoder(Numbered(rows[0]), Correction.identity(64), keep_rows=False)
    encode(kept, {"text": ["a"]}, None)
    with pytest.raises(InputValueError, match="No rows of DigitsT2I were kept"):
        kept.modalities(task)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # mteb's own
def test_a_model_that_embeds_images_needs_no_torchvision(tmp_path, example, task):
    from mteb.models import SentenceTransformerEncoderWrapper
    from sentence_transformers import SentenceTransformer

    from embedders import write_model

    clip = SentenceTransformer(str(write_model(tmp_path / "clip", "clip")))
    model = SentenceTransformerEncoderWrapper(clip)
    model.mteb_model_meta = model.mteb_model_meta.model_copy(
        update={"modalities": ["image", "text"]}
    )
    encoder = MtebEncoder(model)
    assert main_score(evaluated(encoder, task)) == main_score(evaluated(model, task))
    expected = clip.encode([example.picture_of(modgap.load_digits().images[1])])
    np.testing.assert_allclose(encoder.modalities(task).X[[1]], expected, atol=1e-5)


def test_a_split_that_was_not_run_is_named(raw, task):
    with pytest.raises(
        InputValueError, match=r"\(subset, split\) must be one of \('default', 'test'\)"
    ):
        raw[0].modalities(task, split="train")


class Hashed(AbsEncoder):
    """A random row for each input, which is that of its content."""

    mteb_model_meta = ModelMeta.create_empty(
        {"name": "made/hashed", "modalities": ["text", "image"]}
    )

    def encode(self, inputs, **options):
        rows = []
        for batch in inputs:
            columns = [batch[name] for name in ("image", "text") if name in batch]
            for item in zip(*columns, strict=True):
                parts = [one.encode() if isinstance(one, str) else one.tobytes() for one in item]
                rows.append(np.random.default_rng([*b"".join(parts)]).normal(size=8))
        return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        ("MockRetrievalTask", []),
        ("MockMultilingualRerankingTask", []),
        ("MockSTSTask", []),
        ("MockClassificationTask", []),
        ("MockAny2AnyRetrievalI2TTask", [("image", "text")]),
        ("MockMultiChoiceTask", [("image", "image+text")]),
        ("MockZeroShotClassificationTask", [("image", "text")]),
        ("MockMultilingualImageTextPairClassificationTask", [("image", "text")] * 2),
        ("MockAggregatedTask", []),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")  # of few rows
def test_tasks_of_every_kind_score_as_without_the_wrapper(kind, pairs):
    # A task that is loaded twice draws other images.
    task, again = (getattr(mock_tasks, kind)() for _ in range(2))
    encoder = MtebEncoder(Hashed())
    assert main_score(evaluated(encoder, task)) == main_score(evaluated(Hashed(), again))
    report = encoder.report(task)
    assert [one.names for one in report.pairs] == pairs
    _, lines = report.table()
    assert len({line[0] for line in lines}) == len(pairs)  # subsets are named


def test_modalities_of_several_tasks_meet_in_the_rows_that_these_share(example, model, task, rows):
    class Sounds(example.DigitTask):
        metadata = example.DigitTask.metadata.model_copy(
            update={"name": "DigitsA2I", "category": "a2i", "modalities": ["audio", "image"]}
        )

        def load_data(self, num_proc=None, **options):
            super().load_data()
            split = self.dataset["default"]["test"]
            sounds = [[float(scan)] for scan in self.scans]
            split["queries"] = split["queries"].remove_columns("text").add_column("audio", sounds)

    class Hears(example.DigitModel):
        mteb_model_meta = ModelMeta.create_empty({"modalities": ["audio", "image", "text"]})

        def encode(self, inputs, **options):
            if "audio" not in inputs.dataset.features:
                return super().encode(inputs, **options)
            return -rows[0][[int(place) for (place,) in inputs.dataset["audio"]]]

    encoder, tasks = MtebEncoder(Hears()), [task, Sounds(N)]
    evaluated(encoder, tasks)
    whole = encoder.report(tasks).pairs[-1]
    assert (whole.task, whole.names, whole.n_matches) == ("all tasks", ("audio", "text"), N)
    mixed = modgap.mixed_retrieval(-rows[0], rows[1], names=("audio", "text"))
    assert whole.mixed.ndcg_of("text", "audio") == pytest.approx(mixed.ndcg_of("text", "audio"))


def test_a_task_of_texts_alone_has_nothing_to_report(model, example):
    captions = modgap.load_digits().captions[: 2 * N]

    class Texts(example.DigitTask):
        metadata = example.DigitTask.metadata.model_copy(
            update={
                "name": "DigitsT2T",
                "category": "t2t",
                "modalities": ["text"],
                "type": "Retrieval",
            }
        )

        def load_data(self, num_proc=None, **options):
            corpus = Dataset.from_dict({"id": [str(i) for i in range(2 * N)], "text": captions})
            queries = corpus.select(range(3))
            relevant = {str(i): {str(i): 1} for i in range(3)}
            self.dataset = {"default": {"test": RetrievalSplitData(
                queries=queries, corpus=corpus, relevant_docs=relevant, top_ranked=None
            )}}  # fmt: skip
            self.data_loaded = True

    encoder = MtebEncoder(model)
    evaluated(encoder, Texts())
    assert encoder.report(Texts()).pairs == ()
