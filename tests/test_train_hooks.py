"""Hooks, sinks and callbacks: the figures are those of modgap's measures, wherever they go."""

from __future__ import annotations

import importlib.util
import json
import sys
import types

import numpy as np
import pytest

from conftest import make_pairs
from modgap import alignment, gap_distance, gap_orthogonality, retrieval, wasserstein_uniformity
from modgap._arrays import unit
from modgap.train.evaluation import draw_pairs, evaluate_rows
from modgap.train.sinks import JsonLines, TensorBoard, WeightsAndBiases, open_sinks

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import (  # noqa: E402
    every,
    gap_monitor,
    hugging_face_callback,
    lightning_callback,
    sentence_transformers_evaluator,
    train,
)
from modgap.train.digits import digits_data  # noqa: E402
from training import digits_config  # noqa: E402


def test_the_figures_are_those_of_the_measures(pairs):
    X, Y = pairs
    found = evaluate_rows(X, Y, pairs=20, seed=3)
    ix, iy = draw_pairs(None, len(X), 20, 3)
    U, V = unit(X), unit(Y)
    assert (found.n_images, found.n_texts, found.n_pairs) == (60, 60, 20)
    assert found.gap_distance == pytest.approx(gap_distance(U, V))
    assert found.pairs_gap_distance == pytest.approx(gap_distance(U[ix], V[iy]))
    assert found.uniformity == pytest.approx(wasserstein_uniformity(X[ix], Y[iy]))
    assert found.alignment == pytest.approx(alignment(X[ix], Y[iy]))
    assert found.orthogonality_image == pytest.approx(gap_orthogonality(U, V).x.mean_abs)
    assert found.orthogonality_text == pytest.approx(gap_orthogonality(U, V).y.mean_abs)
    assert found.norm_image == pytest.approx(np.linalg.norm(X, axis=1).mean())
    assert found.recall == retrieval(X, Y).recall()
    as_tensors = evaluate_rows(torch.from_numpy(X), torch.from_numpy(Y), pairs=20, seed=3)
    assert as_tensors.figures() == pytest.approx(found.figures())


def test_several_texts_to_an_image_are_drawn_one_each():
    X, Y = make_pairs(30)
    groups = (np.arange(30), np.repeat(np.arange(30), 4))
    ix, iy = draw_pairs(groups, 30, 25, 0)
    assert len(set(ix)) == 25
    assert np.array_equal(groups[1][iy], ix)
    assert len(set(iy % 4)) == 4
    found = evaluate_rows(X, np.repeat(Y, 4, axis=0), groups, pairs=512)
    assert (found.n_texts, found.n_pairs) == (120, 30)


@pytest.fixture(scope="module")
def digits():
    return digits_data(0)


def test_the_monitor_logs_the_figures_of_the_held_out_rows(digits, tmp_path):
    kept = []

    def keep(state):
        kept.append((state.step, state.embed(), state.temperature_value))

    config = digits_config(evaluate={"pairs": 100}, temperature={"name": "learned", "value": None})
    train(config, output=tmp_path, data=digits, hooks=[every(2, gap_monitor), every(2, keep)])
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged = [line for line in logged if "gap_distance" in line][:-1]  # the last is train's own
    assert [line["step"] for line in logged] == [0, 2, 4] == [step for step, *_ in kept]
    for line, (_, (X, Y, groups), temperature) in zip(logged, kept, strict=True):
        assert line["gap_distance"] == pytest.approx(gap_distance(unit(X), unit(Y)))
        assert line["image_retrieval_recall@1"] == pytest.approx(
            retrieval(X, Y, groups=groups).recall()["image_retrieval_recall@1"]
        )
        assert line["n_pairs"] == 100
        assert line["temperature"] == temperature
    assert logged[0]["temperature"] == pytest.approx(0.07)


def test_looking_changes_nothing(digits, tmp_path):
    def roll(state):
        torch.rand(5)
        state.embed(state.train)

    train(digits_config(), output=tmp_path / "alone", data=digits)
    train(digits_config(), output=tmp_path / "seen", data=digits, hooks=[roll])
    assert (tmp_path / "alone" / "model.safetensors").read_bytes() == (
        tmp_path / "seen" / "model.safetensors"
    ).read_bytes()


def test_json_lines_drop_what_came_after_the_checkpoint_and_half_a_line(tmp_path):
    path = tmp_path / "log.jsonl"
    sink = JsonLines(path)
    for step in (1, 2, 3):
        sink.write(step, {"loss": float("nan") if step == 1 else np.float32(0.5)})
    sink.close()
    with path.open("a") as file:
        file.write('{"step": 2, "lo')
    JsonLines(path, resume_at=2).close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 1, "loss": None}, {"step": 2, "loss": 0.5},
    ]  # fmt: skip
    JsonLines(path).close()
    assert path.read_text() == ""


class Recorder:
    """Stands for a library's object and keeps every call."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


def test_tensorboard_gets_the_numbers(tmp_path, monkeypatch):
    writer = Recorder()
    made = []
    fake = types.ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = lambda folder, purge_step: made.append((folder, purge_step)) or writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    sink = TensorBoard(tmp_path, resume_at=4)
    sink.write(6, {"gap_distance": 0.5, "name": "left out"})
    sink.close()
    assert made == [(str(tmp_path), 5)]
    assert writer.calls == [("add_scalar", ("gap_distance", 0.5, 6), {}), ("close", (), {})]


def test_weights_and_biases_gets_the_numbers(tmp_path, monkeypatch):
    run = Recorder()
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: run.calls.append(options["config"]) or run
    monkeypatch.setitem(sys.modules, "wandb", fake)
    sink = WeightsAndBiases(tmp_path, {"train": {"epochs": 3}})
    sink.write(6, {"gap_distance": 0.5})
    sink.close()
    assert run.calls == [
        {"train": {"epochs": 3}},
        ("log", ({"gap_distance": 0.5},), {"step": 6}),
        ("finish", (), {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")]
)
def test_a_sink_that_is_not_installed_says_how_to_get_it(name, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs {name}.*pip install {name}, or leave {name} out"):
        open_sinks(tmp_path, [name], {}, None)


def test_auto_uses_tensorboard_only_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sinks = open_sinks(tmp_path, ["auto"], {}, None)
    assert [type(sink).__name__ for sink in sinks] == ["JsonLines"]
    sinks[0].close()


# -- other people's loops ---------------------------------------------------------------------


class Model(torch.nn.Module):
    """Gives the rows of the fixture, and remembers in which mode it was asked."""

    def __init__(self, X, Y):
        super().__init__()
        self.rows = [torch.from_numpy(A) for A in (X, Y)]
        self.modes = []

    def embed(self):
        self.modes.append((self.training, torch.is_grad_enabled()))
        return self.rows[0], self.rows[1]

    def encode(self, inputs, batch_size):
        return self.rows[0].numpy() if inputs == ["image"] else self.rows[1].numpy()


@pytest.fixture
def model(pairs):
    return Model(*pairs)


def test_the_hugging_face_trainer_gets_the_gap(model, pairs, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sink = JsonLines(tmp_path / "log.jsonl")
    callback = hugging_face_callback(lambda m: m.embed(), every=2, sinks=[sink])
    assert isinstance(callback, transformers.TrainerCallback)
    state, control = transformers.TrainerState(), transformers.TrainerControl()
    state.is_world_process_zero = True
    handler = transformers.trainer_callback.CallbackHandler([callback], model, None, None, None)
    model.train()
    args = types.SimpleNamespace()
    for step in (1, 2, 3, 4):
        state.global_step = step
        handler.on_step_end(args, state, control)
    assert model.modes == [(False, False)] * 2
    assert model.training
    expected = evaluate_rows(*pairs).figures()
    assert [entry["step"] for entry in state.log_history] == [2, 4]
    assert state.log_history[0]["gap_distance"] == pytest.approx(expected["gap_distance"])
    metrics = {"eval_loss": 1.0}
    handler.on_evaluate(args, state, control, metrics)
    assert metrics["eval_gap_distance"] == pytest.approx(expected["gap_distance"])
    assert metrics["eval_loss"] == 1.0
    sink.close()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3


def test_the_real_hugging_face_trainer_calls_it(model, pairs, tmp_path):
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    import transformers

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x, labels=None):
            return {"loss": (self.weight * x).sum(), "logits": x}

    trainer = transformers.Trainer(
        Loss(),
        transformers.TrainingArguments(
            str(tmp_path), max_steps=4, report_to=[], use_cpu=True, per_device_train_batch_size=2,
            disable_tqdm=True, save_strategy="no",
        ),
        train_dataset=[{"x": torch.ones(2), "labels": 0}] * 8,
        callbacks=[hugging_face_callback(lambda _: model.embed(), every=2)],
    )  # fmt: skip
    trainer.train()
    assert [e["step"] for e in trainer.state.log_history if "gap_distance" in e] == [2, 4]


def test_lightning_gets_the_gap(model, pairs, monkeypatch):
    # Callback.on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx), Lightning 2.
    fake = types.ModuleType("lightning.pytorch")
    fake.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", fake)
    callback = lightning_callback(lambda m: m.embed(), every=2)
    assert isinstance(callback, fake.Callback)
    logged = []
    model.log_dict = lambda figures, rank_zero_only: logged.append(figures)
    # Two batches to a step of the optimiser: gradients are accumulated.
    for batch in range(8):
        trainer = types.SimpleNamespace(global_step=(batch + 1) // 2, is_global_zero=True)
        callback.on_train_batch_end(trainer, model, None, None, batch)
    expected = evaluate_rows(*pairs).figures()
    assert len(logged) == 3  # at steps 0, 2 and 4, once each
    assert logged[0]["gap/gap_distance"] == pytest.approx(expected["gap_distance"])


def test_sentence_transformers_gets_the_gap(model, pairs, monkeypatch):
    # SentenceEvaluator.__call__(model, output_path, epoch, steps) -> dict, sentence-transformers 3.
    fake = types.ModuleType("sentence_transformers.evaluation")
    fake.SentenceEvaluator = type("SentenceEvaluator", (), {})
    package = types.ModuleType("sentence_transformers")
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setitem(sys.modules, "sentence_transformers.evaluation", fake)
    evaluator = sentence_transformers_evaluator(["image"], ["text"], name="flickr")
    assert isinstance(evaluator, fake.SentenceEvaluator)
    metrics = evaluator(model, None, 1, 20)
    expected = evaluate_rows(*pairs).figures()
    assert metrics["flickr_gap_distance"] == pytest.approx(expected["gap_distance"])
    assert evaluator.primary_metric in metrics


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: hugging_face_callback(None), ["transformers"]),
        (lambda: lightning_callback(None), ["lightning", "lightning.pytorch", "pytorch_lightning"]),
        (
            lambda: sentence_transformers_evaluator([], []),
            ["sentence_transformers", "sentence_transformers.evaluation"],
        ),
    ],
    ids=["transformers", "lightning", "sentence-transformers"],
)
def test_a_callback_for_what_is_not_installed_says_so(make, names, monkeypatch):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"which is not installed\. Install it with: pip install"):
        make()
