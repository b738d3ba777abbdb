"""Hooks and loggers: the metrics are those of modgap's measures, wherever they go."""

from __future__ import annotations

import importlib.util
import json
import sys
import types

import numpy as np
import pytest

from conftest import make_pairs
from modgap import gap_distance, retrieval
from modgap.arrays import unit
from modgap.measures import alignment, gap_orthogonality, wasserstein_uniformity
from modgap.train.loggers import JsonLinesLogger, WandbLogger, open_loggers
from modgap.train.metrics import draw_pairs, evaluate_rows

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import at_end, every, gap_monitor, train  # noqa: E402
from training import digits_config, same_weights  # noqa: E402


def test_the_metrics_are_those_of_the_measures(pairs):
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
    assert as_tensors.flat() == pytest.approx(found.flat())


def test_several_texts_to_an_image_are_drawn_one_each():
    X, Y = make_pairs(30)
    groups = (np.arange(30), np.repeat(np.arange(30), 4))
    ix, iy = draw_pairs(groups, 30, 25, 0)
    assert len(set(ix)) == 25
    assert np.array_equal(groups[1][iy], ix)
    assert len(set(iy % 4)) == 4
    found = evaluate_rows(X, np.repeat(Y, 4, axis=0), groups, pairs=512)
    assert (found.n_texts, found.n_pairs) == (120, 30)


def test_the_monitor_logs_the_metrics_of_the_held_out_rows(digits, tmp_path):
    kept = []

    def keep(state):
        kept.append((state.step, state.held_out, state.temperature_value))

    config = digits_config(evaluate={"pairs": 30}, temperature={"name": "learned", "value": None})
    train(config, output=tmp_path, data=digits, hooks=[every(2, gap_monitor), every(2, keep)])
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged = [line for line in logged if "gap_distance" in line][:-1]  # the last is train's own
    assert [line["step"] for line in logged] == [0, 2, 4] == [step for step, *_ in kept]
    for line, (_, (X, Y, groups), temperature) in zip(logged, kept, strict=True):
        assert line["gap_distance"] == pytest.approx(gap_distance(unit(X), unit(Y)))
        assert line["image_retrieval_recall@1"] == pytest.approx(
            retrieval(X, Y, groups=groups).recall()["image_retrieval_recall@1"]
        )
        assert line["n_pairs"] == 30
        assert line["temperature"] == temperature
    assert logged[0]["temperature"] == pytest.approx(0.07)


def test_looking_changes_nothing(digits, tmp_path):
    def roll(state):
        torch.rand(5)
        state.embed(state.data.train)

    train(digits_config(), output=tmp_path / "alone", data=digits)
    train(digits_config(), output=tmp_path / "seen", data=digits, hooks=[roll])
    assert same_weights(tmp_path / "alone", tmp_path / "seen")


def test_a_hook_at_the_end_runs_once_when_the_model_is_saved(digits, tmp_path):
    seen = []

    def look(state):
        seen.append((state.step, (state.output / "model.safetensors").is_file()))
        return {"looked": True}

    train(digits_config(), output=tmp_path, data=digits, hooks=[at_end(look)])
    assert seen == [(4, True)]
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["looked"]
    # A run that was killed after its last checkpoint still gets what is written at the end.
    (tmp_path / "result.json").unlink()
    train(digits_config(), output=tmp_path, data=digits, hooks=[at_end(look)], resume=True)
    assert seen == [(4, True)] * 2


def test_a_run_that_was_killed_at_its_end_logs_no_line_twice(digits, tmp_path):
    config = digits_config(evaluate={"every": 0})
    train(config, output=tmp_path, data=digits, hooks=[at_end(lambda state: {"looked": True})])
    log = (tmp_path / "log.jsonl").read_text()
    (tmp_path / "result.json").unlink()
    again = [at_end(lambda state: {"looked": True}), at_end(lambda state: {"new": True})]
    train(config, output=tmp_path, data=digits, hooks=again, resume=True)
    assert (tmp_path / "log.jsonl").read_text() == log + '{"step": 4, "new": true}\n'


def test_json_lines_drop_what_came_after_the_checkpoint_and_half_a_line(tmp_path):
    path = tmp_path / "log.jsonl"
    logger = JsonLinesLogger(path)
    for step in (1, 2, 3):
        logger.log(step, {"loss": float("nan") if step == 1 else np.float32(0.5)})
    logger.close()
    with path.open("ab") as file:
        file.write(b'{"step": 2, "lo\xff')
    JsonLinesLogger(path, resume_at=2).close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 1, "loss": None}, {"step": 2, "loss": 0.5},
    ]  # fmt: skip
    JsonLinesLogger(path).close()
    assert path.read_text() == ""


class Recorder:
    """Stands for a library's object and keeps every call."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


def test_weights_and_biases_gets_the_numbers(tmp_path, monkeypatch):
    run = Recorder()
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: run.calls.append(options["config"]) or run
    monkeypatch.setitem(sys.modules, "wandb", fake)
    logger = WandbLogger(tmp_path, {"train": {"epochs": 3}})
    logger.log(6, {"gap_distance": 0.5})
    logger.close()
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
    with pytest.raises(ImportError, match=f"needs {name}.*pip install {name}$"):
        open_loggers(tmp_path, [name], {}, None)


def test_auto_uses_tensorboard_only_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    loggers = open_loggers(tmp_path, ["auto"], {}, None)
    assert [type(logger).__name__ for logger in loggers] == ["JsonLinesLogger"]
    loggers[0].close()
