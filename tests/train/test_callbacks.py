"""The gap in other people's loops and dashboards: real trainers, tiny models, a few steps."""

from __future__ import annotations

import csv
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from embedders import write_model
from modgap import gap_distance
from modgap.arrays import unit
from modgap.train.loggers import JsonLinesLogger, TensorBoardLogger
from modgap.train.metrics import evaluate_rows

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from modgap.train import (  # noqa: E402
    ContrastiveLoss,
    hugging_face_callback,
    lightning_callback,
    sentence_transformers_evaluator,
)
from modgap.train.towers.build import make_two_tower  # noqa: E402
from modgap.train.towers.config import EOS_TOKEN_ID  # noqa: E402

pytestmark = pytest.mark.xdist_group("callbacks")  # the trainers take long to import
N = 20  # pairs to train on, and as many held out


@pytest.fixture
def trains():
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning.pytorch", reason="lightning is not installed")


@pytest.fixture
def dashboard():
    """Reads back what TensorBoard would show: a tag's values by step."""
    package = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(package, reason="tensorboard is not installed")

    def read(folder: Path) -> dict[str, dict[int, float]]:
        found: dict[str, dict[int, float]] = {}
        for events in sorted({path.parent for path in folder.rglob("events.out.tfevents.*")}):
            run = reader.EventAccumulator(str(events)).Reload()
            for tag in run.Tags()["scalars"]:
                found.setdefault(tag, {}).update({e.step: e.value for e in run.Scalars(tag)})
        return found

    return read


def make_batch(seed):
    """Noise for images, and captions of random tokens."""
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 40, (N, 8), generator=draw)
    tokens[:, -1] = EOS_TOKEN_ID
    return torch.randn(N, 3, 32, 32, generator=draw), tokens


class Clip(torch.nn.Module):
    """The smallest CLIP of modgap with its loss, as transformers' Trainer wants a model."""

    def __init__(self):
        super().__init__()
        self.towers = make_two_tower({"name": "clip-tiny", "text": {"vocab_size": 40}})
        self.loss = ContrastiveLoss()

    def forward(self, pixels, tokens):
        X, Y = self.towers(pixels, tokens)
        unit_rows = [torch.nn.functional.normalize(rows, dim=1) for rows in (X, Y)]
        return {"loss": self.loss(*unit_rows, logit_scale=10.0)}


class Embed:
    """Rows of held-out pairs; keeps their gap and in which mode the model was asked."""

    def __init__(self):
        self.batch, self.gaps, self.modes = make_batch(1), [], set()

    def __call__(self, model):
        torch.rand(3)  # as a DataLoader does
        X, Y = getattr(model, "clip", model).towers(*self.batch)
        self.gaps.append(gap_distance(unit(X.double()), unit(Y.double())))
        self.modes.add((model.training, torch.is_grad_enabled()))
        return X, Y


# -- Hugging Face -------------------------------------------------------------------------------


def make_trainer(folder, **options):
    """A Trainer for six steps that logs its loss every two and evaluates every three."""
    rows = zip(*make_batch(0), strict=True)
    data = [{"pixels": pixels, "tokens": tokens} for pixels, tokens in rows]
    settings = {
        "max_steps": 6, "logging_steps": 2, "eval_strategy": "steps", "eval_steps": 3,
        "save_strategy": "no", "per_device_train_batch_size": 8, "learning_rate": 1e-3,
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "label_names": ["tokens"],
    }  # fmt: skip
    callbacks = options.pop("callbacks", None)
    arguments = transformers.TrainingArguments(str(folder), **{**settings, **options})
    return transformers.Trainer(
        Clip(), arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks
    )


def by_step(history, name):
    return {entry["step"]: entry[name] for entry in history if name in entry}


def test_the_gap_is_on_the_dashboard_of_the_hugging_face_trainer(trains, dashboard, tmp_path):
    embed = Embed()
    logger = JsonLinesLogger(tmp_path / "log.jsonl")
    trainer = make_trainer(
        tmp_path / "run", report_to=["tensorboard"], save_strategy="steps", save_steps=3,
        load_best_model_at_end=True, metric_for_best_model="eval_gap_distance",
        greater_is_better=False,
    )  # fmt: skip
    trainer.add_callback(hugging_face_callback(embed, trainer=trainer, every=2, loggers=[logger]))
    trainer.train()
    assert embed.modes == {(False, False)}
    order = [(2, "train"), (3, "eval"), (4, "train"), (6, "train"), (6, "eval")]
    expected = dict(zip(order, embed.gaps, strict=True))
    steps = {s: gap for (s, kind), gap in expected.items() if kind == "train"}
    evaluations = {s: gap for (s, kind), gap in expected.items() if kind == "eval"}
    assert len(set(embed.gaps)) == 4  # it moves, and the two looks at step 6 see the same

    history = trainer.state.log_history
    assert by_step(history, "gap_distance") == pytest.approx(steps, abs=1e-6)
    assert by_step(history, "eval_gap_distance") == pytest.approx(evaluations, abs=1e-6)
    assert list(by_step(history, "loss")) == [2, 4, 6]
    assert trainer.state.best_metric == pytest.approx(min(evaluations.values()), abs=1e-6)

    shown = dashboard(tmp_path / "run")
    assert shown["train/gap_distance"] == pytest.approx(steps, abs=1e-6)
    assert shown["eval/gap_distance"] == pytest.approx(evaluations, abs=1e-6)
    assert list(shown["train/uniformity"]) == list(shown["train/loss"]) == [2, 4, 6]
    assert list(shown["eval/image_retrieval_recall@1"]) == [3, 6]

    logger.close()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [step for step, _ in order]


def test_an_evaluation_of_the_hugging_face_trainer_returns_the_gap(trains, tmp_path):
    embed = Embed()
    trainer = make_trainer(tmp_path)
    trainer.add_callback(hugging_face_callback(embed, trainer=trainer))
    assert trainer.evaluate()["eval_gap_distance"] == pytest.approx(embed.gaps[-1], abs=1e-6)


def test_without_its_trainer_the_callback_fills_the_log_history(trains, tmp_path):
    embed = Embed()
    trainer = make_trainer(tmp_path, callbacks=[hugging_face_callback(embed, every=2)])
    trainer.train()
    gap = by_step(trainer.state.log_history, "gap_distance")
    assert list(gap) == list(by_step(trainer.state.log_history, "loss")) == [2, 4, 6]
    assert gap[6] == pytest.approx(embed.gaps[-1], abs=1e-6)
    assert list(by_step(trainer.state.log_history, "eval_gap_distance")) == [3, 6]


def test_without_its_trainer_the_callback_says_that_dashboards_lack_the_gap(
    trains, dashboard, tmp_path
):
    callback = hugging_face_callback(Embed(), every=2)
    trainer = make_trainer(
        tmp_path, report_to=["tensorboard"], callbacks=[callback], max_steps=1, eval_strategy="no"
    )
    with pytest.warns(UserWarning, match=r"not in what it reports to \(tensorboard\).*trainer="):
        trainer.train()


def test_looking_does_not_change_what_the_trainer_learns(trains, tmp_path):
    weights = []
    for looks in (False, True):
        trainer = make_trainer(tmp_path, eval_strategy="no")
        if looks:
            embed = Embed()
            trainer.add_callback(hugging_face_callback(embed, trainer=trainer, every=1))
        trainer.train()
        # What a step of the training would draw next is the same, too.
        weights.append([*trainer.model.parameters(), torch.rand(3)])
    assert len(embed.gaps) == 6
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


# -- Lightning ----------------------------------------------------------------------------------


def fit(lightning, folder, callbacks, *, frozen=False, resume=None, **options):
    """Two epochs of 10 batches, two to a step: 10 steps, logged every third to a CSV file."""

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.clip = Clip()
            self.modes, self.asked = [], []
            if frozen:
                self.clip.towers.image.eval().requires_grad_(False)

        def train(self, mode=True):
            self.asked.append(mode)
            return super().train(mode)

        def training_step(self, batch, number):
            self.modes.append((self.clip.towers.image.training, self.clip.towers.text.training))
            loss = self.clip(*batch)["loss"]
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    logger = lightning.loggers.CSVLogger(folder, name="", version="csv")
    options = {"max_epochs": 2, "logger": logger, "enable_checkpointing": False, **options}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, accumulate_grad_batches=2, log_every_n_steps=3,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=callbacks, **options,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*make_batch(0)), batch_size=2
    )
    module = Module()
    with warnings.catch_warnings():
        # Lightning 2.6 asks torch 2.13 in a way that torch has given up.
        mine = r"lightning\.pytorch\.utilities\._pytree"
        warnings.filterwarnings("ignore", r"`isinstance\(treespec", FutureWarning, mine)
        # Where there are more than two cores it advises to load twenty rows in several processes.
        warnings.filterwarnings("ignore", "The 'train_dataloader' does not have many workers")
        trainer.fit(module, loader, ckpt_path=resume)
    return trainer, module


def columns(folder):
    """What Lightning's CSV file has: a column's values by step."""
    found: dict[str, dict[int, float]] = {}
    with (folder / "csv" / "metrics.csv").open() as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value and name not in ("step", "epoch"):
                    assert int(row["step"]) not in found.setdefault(name, {})
                    found[name][int(row["step"])] = float(value)
    return found


def test_lightnings_loggers_and_checkpoints_get_the_gap_at_its_steps(
    lightning, dashboard, tmp_path
):
    embed, logger = Embed(), JsonLinesLogger(tmp_path / "log.jsonl")
    best = lightning.callbacks.ModelCheckpoint(
        tmp_path / "best", monitor="gap/gap_distance", every_n_train_steps=5
    )
    loggers = [
        lightning.loggers.CSVLogger(tmp_path, name="", version="csv"),
        lightning.loggers.TensorBoardLogger(tmp_path / "board"),
    ]
    callbacks = [lightning_callback(embed, every=5, loggers=[logger]), best]
    trainer, _ = fit(lightning, tmp_path, callbacks, logger=loggers, enable_checkpointing=True)
    logger.close()
    assert embed.modes == {(False, False)}
    assert trainer.global_step == 10
    expected = dict(zip([5, 10], embed.gaps, strict=True))
    assert expected[5] != expected[10]
    written = columns(tmp_path)
    assert written["gap/gap_distance"] == pytest.approx(expected, abs=1e-6)
    assert list(written["gap/image_retrieval_recall@1"]) == [5, 10]
    assert list(written["loss"]) == [2, 5, 8]  # Lightning counts from 0
    shown = dashboard(tmp_path / "board")
    assert shown["gap/gap_distance"] == pytest.approx(expected, abs=1e-6)
    assert float(trainer.callback_metrics["gap/gap_distance"]) == pytest.approx(embed.gaps[-1])
    assert float(best.best_model_score) == pytest.approx(min(embed.gaps))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10]


def test_a_resumed_run_of_lightning_is_measured_at_the_same_steps(lightning, tmp_path):
    fit(lightning, tmp_path, [], max_epochs=1)[0].save_checkpoint(tmp_path / "half.ckpt")
    embed = Embed()
    callback = lightning_callback(embed, every=5)
    fit(lightning, tmp_path / "rest", [callback], resume=tmp_path / "half.ckpt")
    assert list(columns(tmp_path / "rest")["gap/gap_distance"]) == [10]


# Lightning asks whether it is meant: it is.
@pytest.mark.filterwarnings("ignore:Found .* in eval mode at the start of training")
def test_looking_leaves_a_frozen_tower_in_evaluation_mode(lightning, tmp_path):
    embed = Embed()
    _, module = fit(lightning, tmp_path, [lightning_callback(embed, every=2)], frozen=True)
    assert len(embed.gaps) == 5
    assert set(module.modes) == {(False, True)}
    assert module.asked == [False, True] * 5  # layers may have work to do then


def test_a_metric_that_is_no_number_is_not_logged(lightning, tmp_path):
    def same(module):
        X, _ = module.clip.towers(*make_batch(1))
        return X, X

    fit(lightning, tmp_path, [lightning_callback(same, every=5)])
    written = columns(tmp_path)
    assert written["gap/gap_distance"] == {5: 0, 10: 0}
    assert "gap/orthogonality_image" not in written  # there is no direction of the gap


# -- sentence-transformers ----------------------------------------------------------------------


@pytest.fixture
def sentence_transformer(tmp_path):
    """A tiny CLIP of random weights."""
    reason = "sentence-transformers is not installed"
    library = pytest.importorskip("sentence_transformers", reason=reason)
    folder = write_model(tmp_path / "clip", "clip")
    return library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.fixture
def captioned():
    images = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (8, 20, 20, 3), dtype=np.uint8)
    return [images.fromarray(one) for one in pixels], [f"noise {k}" for k in range(8)]


def test_a_sentence_transformer_is_evaluated(sentence_transformer, captioned, tmp_path):
    images, texts = captioned
    logger = JsonLinesLogger(tmp_path / "log.jsonl")
    evaluator = sentence_transformers_evaluator(images, texts, name="noise", loggers=[logger])
    sentence_transformer.train()
    found = evaluator(sentence_transformer, None, 1, 20)
    logger.close()
    assert sentence_transformer.training
    rows = [sentence_transformer.encode(side) for side in captioned]
    expected = evaluate_rows(*rows).flat()
    assert found == pytest.approx({f"noise_{name}": value for name, value in expected.items()})
    assert found["noise_gap_distance"] > 0.1
    assert evaluator.primary_metric in found
    assert json.loads((tmp_path / "log.jsonl").read_text())["step"] == 20


def test_the_trainer_of_sentence_transformers_logs_the_gap(
    sentence_transformer, captioned, trains, dashboard, tmp_path
):
    datasets = pytest.importorskip("datasets", reason="this trainer needs datasets")
    import sentence_transformers as library
    from sentence_transformers.sentence_transformer import losses

    images, texts = captioned
    trainer = library.SentenceTransformerTrainer(
        sentence_transformer,
        library.SentenceTransformerTrainingArguments(
            str(tmp_path / "run"), max_steps=4, logging_steps=2, eval_strategy="steps",
            eval_steps=2, save_strategy="no", per_device_train_batch_size=4, learning_rate=1e-2,
            report_to=["tensorboard"], use_cpu=True, disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_dict({"image": images, "text": texts}),
        loss=losses.MultipleNegativesRankingLoss(sentence_transformer),
        evaluator=sentence_transformers_evaluator(images, texts, name="noise"),
    )  # fmt: skip

    def embed(model):
        return model.encode(images), model.encode(texts)

    # Both ways at once: what is evaluated every two steps, the callback sees as well.
    trainer.add_callback(hugging_face_callback(embed, trainer=trainer, every=2))
    trainer.train()
    gap = by_step(trainer.state.log_history, "eval_noise_gap_distance")
    assert list(gap) == [2, 4]
    assert gap[2] != gap[4]
    for name in ("gap_distance", "eval_gap_distance"):
        assert by_step(trainer.state.log_history, name) == pytest.approx(gap)
    shown = dashboard(tmp_path / "run")
    assert shown["eval/noise_gap_distance"] == pytest.approx(gap)
    assert shown["train/gap_distance"] == pytest.approx(gap)


# -- TensorBoard, and what is missing -----------------------------------------------------------


def test_tensorboard_shows_the_metrics_and_hides_what_came_after_the_checkpoint(
    dashboard, tmp_path
):
    logger = TensorBoardLogger(tmp_path)
    for step in (2, 4, 6):
        logger.log(step, {"gap_distance": step / 8, "n_pairs": 512, "name": "left out"})
    logger.close()
    assert dashboard(tmp_path) == {
        "gap_distance": {2: 0.25, 4: 0.5, 6: 0.75},
        "n_pairs": {2: 512, 4: 512, 6: 512},
    }
    resumed = TensorBoardLogger(tmp_path, resume_at=4)
    resumed.log(8, {"gap_distance": 1.0, "alignment": float("nan")})
    resumed.close()
    assert dashboard(tmp_path) == {
        "gap_distance": {2: 0.25, 4: 0.5, 8: 1.0},
        "n_pairs": {2: 512, 4: 512},
    }


@pytest.mark.parametrize(
    ("make", "package", "modules"),
    [
        (lambda: hugging_face_callback(None), "transformers", ["transformers"]),
        (lambda: lightning_callback(None), "lightning", ["lightning.pytorch", "pytorch_lightning"]),
        (
            lambda: sentence_transformers_evaluator([], []),
            "sentence-transformers",
            [
                "sentence_transformers.sentence_transformer.evaluation",
                "sentence_transformers.evaluation",
            ],
        ),
    ],
    ids=["transformers", "lightning", "sentence-transformers"],
)
def test_a_callback_for_what_is_not_installed_says_so(make, package, modules, monkeypatch):
    for name in {part for module in modules for part in (module, module.partition(".")[0])}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError,
        match=rf"needs {package}, which is not installed\. Install it with: pip install {package}$",
    ):
        make()
