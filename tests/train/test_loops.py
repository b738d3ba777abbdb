"""Every training loop of the page runs as printed, learns and logs its temperature."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from embedders import write_model  # noqa: E402
from modgap.train import ContrastiveLoss, SentenceTransformersLoss  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "training" / "loops.md"
pytestmark = pytest.mark.xdist_group("callbacks")  # the trainers take long to import
MOST_LINES = 20


def example(heading: str) -> str:
    """The Python of a section."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(
        rf"^## {heading}\n(?:(?!\n## ).)*?^```python\n(.*?)^```", text, re.S | re.M
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= MOST_LINES
    return code


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a section after the pairs that all sections share; the names it defines."""
    pytest.importorskip("PIL", reason="pillow is not installed")
    monkeypatch.chdir(tmp_path)
    pairs, *_ = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )

    def ran(heading: str) -> dict:
        names: dict = {}
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of trainers: few workers, no GPU to pin memory for
            exec(compile(pairs + example(heading), str(PAGE), "exec"), names)
        return names

    return ran


def logged(trainer, name):
    """A metric by step, as the trainer logged it."""
    return {one["step"]: one[name] for one in trainer.state.log_history if name in one}


def test_plain_torch(run, capsys):
    run("PyTorch")
    gap, recall, temperature = map(float, capsys.readouterr().out.split())
    assert recall > 0.3
    assert gap < 0.5
    assert 0 < temperature != pytest.approx(0.07)


@pytest.mark.open_clip
def test_open_clip(run, capsys):
    pytest.importorskip("open_clip", reason="open_clip is not installed")
    run("open_clip")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [step for step, *_ in lines] == ["0", "1"]
    assert all(float(temperature) > 0 for *_, temperature in lines)


def test_sentence_transformers(run, tmp_path):
    for library in ("sentence_transformers", "accelerate", "datasets"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    write_model(tmp_path / "clip-ViT-B-32", "clip")
    found = run("sentence-transformers")
    assert list(logged(found["trainer"], "gap_distance")) == [5, 10]
    temperature = logged(found["trainer"], "temperature")
    assert temperature[10] == pytest.approx(found["loss"].loss.temperature_value)
    assert temperature[5] != temperature[10]  # the trainer trains it, too


def test_lightning(run):
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    metrics = run("Lightning")["trainer"].callback_metrics
    assert float(metrics["gap/temperature"]) == pytest.approx(0.07, abs=0.02)
    assert float(metrics["gap/gap_distance"]) > 0


def test_transformers(run, tmp_path):
    for library in ("transformers", "accelerate"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    write_model(tmp_path / "openai" / "clip-vit-base-patch32", "clip")
    trainer = run("transformers")["trainer"]
    assert list(logged(trainer, "gap_distance")) == [5, 10]
    temperature = logged(trainer, "temperature")
    assert temperature[10] == pytest.approx(trainer.model.loss.temperature_value)


class Rows(torch.nn.Module):
    """Stands in for a SentenceTransformer: its features are rows already."""

    def forward(self, features):
        return {"sentence_embedding": features["rows"]}


def test_the_loss_for_sentence_transformers_is_that_of_the_rows():
    draw = np.random.default_rng(0)
    columns = [{"rows": torch.tensor(draw.normal(size=(6, 4)))} for _ in range(3)]
    loss = SentenceTransformersLoss(Rows())
    expected = ContrastiveLoss()(columns[0]["rows"], columns[1]["rows"], 1 / 0.07)
    assert loss(columns[:2]).item() == pytest.approx(expected.item())
    with pytest.raises(ValueError, match="must have two columns, which are pairs, got 3"):
        loss(columns)
