"""``modgap reproduce ENTRY --model --data``: entries that need a model and data, end to end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from command_line import modgap
from embedders import write_model
from item_files import write, write_table
from modgap.core.checks import InputValueError
from modgap.embed import CallableModel
from modgap.measures import gap_distance
from modgap.reproduce import Setting, entries
from modgap.reproduce.liang2022.fairness import shift_to
from modgap.reproduce.model_data import OTHER_TEMPLATES, open_model_data, own_rows_of
from modgap.reproduce.run import run_entry
from modgap.reproduce.setting import OwnRows
from modgap.reproduce.sources import Pairs, pairs, zero_shots
from modgap.tasks.fairface import denigration_prompts
from modgap.tasks.zero_shot import TEMPLATES

D, SIDE = 8, 16
GAP = 0.5 * np.eye(D)[0]


def picture(row: np.ndarray) -> bytes:
    """An image with a row in it, of numbers from −1 to 1: a stripe for each."""
    levels = np.clip(np.round(127 * np.asarray(row) + 128), 0, 255).astype(np.uint8)
    pixels = np.repeat(np.repeat(levels[None, :, None], SIDE, axis=0), 3, axis=2)
    stored = io.BytesIO()
    Image.fromarray(pixels).resize((D * 4, SIDE), Image.Resampling.NEAREST).save(stored, "PNG")
    return stored.getvalue()


class Planted(CallableModel):
    """A model whose image rows are those of ``picture``, and whose texts have planted rows."""

    def __init__(self, texts: dict[str, np.ndarray] | None = None) -> None:
        self.planted = texts or {}
        self.n_images = self.n_texts = 0
        super().__init__(self._images, self._texts, name="planted", temperature=0.02)

    def _images(self, images: Sequence[Any]) -> np.ndarray:
        self.n_images += len(images)
        columns = [np.asarray(image)[0, 2::4, 0].astype(float) for image in images]
        return (np.array(columns) - 128) / 127

    def _texts(self, texts: Sequence[str]) -> np.ndarray:
        self.n_texts += len(texts)
        return np.array([self.planted.get(text, drawn(text)) for text in texts])


def drawn(text: str) -> np.ndarray:
    """A row of a text, the same in every run."""
    seed = int.from_bytes(sha256(text.encode()).digest()[:4], "big")
    return 0.3 * np.random.default_rng(seed).normal(size=D) - GAP


def captioned(folder: Path, n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Images with a caption each; returns the rows of the captions, apart by a gap."""
    rng = np.random.default_rng(seed)
    texts = {}
    rows = [["image", "caption"]]
    for k in range(n):
        row = 0.25 * rng.normal(size=D)
        write(folder / f"{k:03d}.png", picture(row + GAP))
        texts[f"caption {k}"] = row + 0.05 * rng.normal(size=D) - GAP
        rows.append([f"{k:03d}.png", f"caption {k}"])
    write_table(folder / "captions.csv", rows)
    return texts


def classed(folder: Path, classes: Sequence[str] = ("bee", "big_cat", "dog")) -> None:
    """Images in a folder for each class."""
    rng = np.random.default_rng(1)
    for place, name in enumerate(classes):
        for k in range(6):
            row = np.roll(np.eye(D)[1], place) + 0.1 * rng.normal(size=D)
            write(folder / name / f"{k}.png", picture(row))


def given(model: CallableModel, output: Path, *data: Path, **more: Any) -> OwnRows:
    return own_rows_of(open_model_data(model, data, output, **more))


def run(key: str, rows: OwnRows, **more: Any) -> Any:
    report, outcome = run_entry(entries()[key], Setting(rows=rows, **more))
    assert not report.error, report.error
    return report, outcome


# Rows


def test_captions_make_pairs_and_classes_make_class_texts(tmp_path) -> None:
    texts = captioned(tmp_path / "photos")
    classed(tmp_path / "things")
    named = [t.replace("{}", "big cat") for t in (TEMPLATES["image"][0], OTHER_TEMPLATES["image"])]
    texts |= {named[0]: np.arange(D) / D, named[1]: -np.arange(D) / D}
    rows = given(Planted(texts), tmp_path / "rows", tmp_path / "photos", tmp_path / "things")
    setting = Setting(rows=rows)
    (found,) = pairs(setting, raw=True)
    assert found.X.shape == found.Y.shape == (60, D)
    assert found.temperature == 0.02
    np.testing.assert_allclose(found.Y[3], texts["caption 3"], rtol=1e-5)
    (task,) = zero_shots(setting)
    assert task.labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    np.testing.assert_allclose(task.texts[1], np.arange(D) / D, rtol=1e-6)
    np.testing.assert_allclose(task.other_texts[1], -np.arange(D) / D, rtol=1e-6)
    assert rows.words.startswith("planted on photos and things; your rows (60 × 8")


def test_without_captions_the_classes_are_the_pairs(tmp_path) -> None:
    classed(tmp_path / "things", [f"thing_{k}" for k in range(20)])
    rows = given(Planted(), tmp_path / "rows", tmp_path / "things")
    assert rows.X.shape == rows.Y.shape == (20, D)
    assert "the first item of each class" in rows.words


def test_a_few_classes_are_no_pairs_but_a_task(tmp_path) -> None:
    classed(tmp_path / "things")
    rows = given(Planted(), tmp_path / "rows", tmp_path / "things")
    assert rows.X is None
    report, _ = run("liang2022/fig4", rows)
    assert "captioned images" in report.missing
    report, _ = run("chowers2026/fig2", rows)
    assert report.ran


def test_a_second_run_embeds_nothing_again(tmp_path) -> None:
    model = Planted(captioned(tmp_path / "photos"))
    first = given(model, tmp_path / "rows", tmp_path / "photos")
    assert model.n_images == 60
    before = model.n_texts
    again = given(model, tmp_path / "rows", tmp_path / "photos")
    assert model.n_images == 60
    # One text tells the weights.
    assert model.n_texts == before + 1
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.Y, again.Y)


def test_several_templates_are_averaged_at_unit_length(tmp_path) -> None:
    classed(tmp_path / "things")
    texts = {"a bee": 3 * np.eye(D)[0], "the bee": np.eye(D)[1]}
    data = open_model_data(Planted(texts), [tmp_path / "things"], tmp_path / "rows")
    rows = own_rows_of(data, ["a {}", "the {}"], ["{}"])
    want = np.zeros(D)
    want[:2] = 2**-0.5
    np.testing.assert_allclose(rows.class_texts[0], want, atol=1e-6)


def test_fewer_than_four_classes_are_too_few_to_choose_from(tmp_path) -> None:
    classed(tmp_path / "things")
    report, _ = run("chowers2026/fig10", given(Planted(), tmp_path / "rows", tmp_path / "things"))
    assert report.missing == "It needs at least 4 classes to choose from, got 3."


# Faces


@pytest.fixture
def faces(tmp_path: Path) -> Callable[..., OwnRows]:
    """FairFace with a planted bias: so many of the faces of a group lie by a prompt of a harm."""

    def make(planted: dict[str, tuple[int, int]], n: int = 20, gap: float = 1.0) -> OwnRows:
        texts, kinds = denigration_prompts()
        rng = np.random.default_rng(4)
        rows = 0.5 * rng.normal(size=(len(texts), D))
        folder = tmp_path / "fairface"
        table = [["file", "age", "gender", "race", "service_test"]]
        for race, (crime, animal) in planted.items():
            own = kinds.index(race.lower().replace("latino_hispanic", "latino"))
            for k in range(n):
                kind = "crime" if k < crime else "non-human" if k < crime + animal else None
                at = own if kind is None else kinds.index(kind)
                name = f"val/{len(table)}.png"
                write(folder / name, picture(rows[at]))
                table.append([name, "20-29", "Male", race, "False"])
        write_table(folder / "fairface_label_val.csv", table)
        captions = captioned(tmp_path / "photos")
        model = Planted({**captions, **dict(zip(texts, rows, strict=True))})
        return given(model, tmp_path / "rows", folder, tmp_path / "photos")

    return make


def test_a_planted_bias_is_found_in_the_faces(faces) -> None:
    rows = faces({"White": (3, 0), "Black": (0, 2), "Latino_Hispanic": (0, 0)})
    report, _ = run("liang2022/table2", rows)
    assert report.measured["original gap, White, crime"] == pytest.approx(3 / 20)
    assert report.measured["original gap, Black, non-human"] == pytest.approx(2 / 20)
    assert report.measured["original gap, Latino, crime"] == 0
    assert report.measured["accuracy, original gap"] == pytest.approx(55 / 60)
    assert [check.statement.split()[7] for check in report.checks] == ["Black", "Latino", "White"]
    assert report.evidence == "other data"
    report, _ = run("liang2022/table4", rows)
    assert {"gap 0.07, White, crime", "accuracy, gap 1.29"} <= report.measured.keys()
    assert len(report.checks) == 2


def test_a_shift_reaches_the_gap_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(200, D)) + sign * np.eye(D)[0] for sign in (1, -1))
    X, Y = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    own = gap_distance(X, Y)
    for times in (0.1, 0.97 / 0.82, 1.29 / 0.82):
        by = shift_to(Pairs("x", X, Y), times)
        assert gap_distance(by.x(X), by.y(Y)) == pytest.approx(times * own, rel=1e-2)
    # Unit rows cannot be farther apart than 2.
    by = shift_to(Pairs("x", X, Y), 50)
    assert 1.5 < gap_distance(by.x(X), by.y(Y)) <= 2


def test_faces_need_the_faces_and_pairs_and_say_so(tmp_path, faces) -> None:
    model = Planted(captioned(tmp_path / "photos"))
    report, _ = run("liang2022/table2", given(model, tmp_path / "rows", tmp_path / "photos"))
    assert report.evidence == "missing"
    assert "--data FAIRFACE --data COCO" in report.missing
    rows = faces({"White": (1, 0)})
    rows.X = rows.Y = None
    report, _ = run("liang2022/table2", rows)
    assert "captioned images, such as MS-COCO's, with --data" in report.missing


# What generators make


def generated(folder: Path, spread: float, n: int = 40) -> Path:
    rng = np.random.default_rng(9)
    for k in range(n):
        write(folder / f"{k:02d}.png", picture(spread * rng.normal(size=D) + GAP))
    return folder


@pytest.mark.parametrize(("glide", "finding"), [(0.03, "holds"), (0.6, "fails")])
def test_common_pictures_are_told_from_rare_ones(tmp_path, glide, finding) -> None:
    model = Planted(captioned(tmp_path / "photos"))
    made = {
        "glide": generated(tmp_path / "glide", glide),
        "unclip": generated(tmp_path / "unclip", 0.12),
    }
    rows = given(model, tmp_path / "rows", tmp_path / "photos", generated=made)
    report, outcome = run("levi2025/fig13", rows)
    findings = {check.statement: check.finding for check in report.checks}
    assert findings["What Glide makes is more common than what unCLIP makes."] == finding
    assert findings["Pictures by Glide are more common than real ones."] == finding
    assert findings["Pictures by unCLIP are more common than real ones."] == "holds"
    assert outcome.data["panels"]["images"]["counts"].keys() == {"Glide", "unCLIP", "real"}


def test_generated_captions_are_texts_a_line(tmp_path) -> None:
    texts = captioned(tmp_path / "photos")
    common = np.mean(list(texts.values()), axis=0)
    said = [f"a thing {k}" for k in range(20)]
    texts |= {text: common + 0.01 * drawn(text) for text in said}
    path = tmp_path / "clipcap.txt"
    path.write_text("\n".join(said))
    rows = given(
        Planted(texts), tmp_path / "rows", tmp_path / "photos", generated={"caption-reward": path}
    )
    report, _ = run("levi2025/fig13", rows)
    (check,) = report.checks
    assert (check.statement, check.finding) == (
        "Captions by Caption Reward are rarer than people's.",
        "fails",
    )


# Pictures


def test_pictures_are_compared_with_their_rows(tmp_path) -> None:
    model = Planted(captioned(tmp_path / "photos"))
    rows = given(model, tmp_path / "rows", tmp_path / "photos")
    report, outcome = run("levi2025/fig8", rows)
    # Stripes that are like the others are rows that are like the others.
    (check,) = report.checks
    assert check.finding == "holds"
    assert outcome.data["high"]["images"].shape[1:] == (48, 48, 3)
    assert run("levi2025/fig19", rows)[0].measured["pictures"] == 60
    assert "offset, text" in run("levi2025/fig1", rows)[0].measured
    path = run("levi2025/fig12", rows)[1].data["path"]
    assert path["SLERP"]["images"].shape == (5, 48, 48, 3)


@pytest.mark.parametrize("by", ["captions", "classes"])
def test_hard_pictures_are_those_that_the_model_gets_wrong(tmp_path, by) -> None:
    if by == "captions":
        texts = captioned(tmp_path / "data")
        for k in range(10):  # ten captions are those of another picture
            texts[f"caption {k}"] = texts[f"caption {k + 20}"]
        model = Planted(texts)
    else:
        classed(tmp_path / "data")
        rows = (np.eye(D)[1], np.eye(D)[3], np.eye(D)[2])
        names = ("a photo of a bee.", "a photo of a big cat.", "a photo of a dog.")
        model = Planted(dict(zip(names, rows, strict=True)))
    rows = given(model, tmp_path / "rows", tmp_path / "data")
    report, _ = run("levi2025/fig20", rows)
    hard = report.measured["hard pictures"]
    assert hard == 12 if by == "classes" else 10 <= hard < 60


# Statements and answers


def mmvp(folder: Path, rows: Sequence[np.ndarray], patterns: Sequence[str]) -> Path:
    table = [["Question ID", "Type", "Statement"]]
    for k, (row, pattern) in enumerate(zip(rows, patterns, strict=True), 1):
        write(folder / "MLLM_VLM Images" / pattern / f"{k}.jpg", picture(row))
        table.append([str(k), pattern, f"statement {k}"])
    write_table(folder / "Questions.csv", table)
    return folder


def test_both_pairs_of_a_set_must_match(tmp_path) -> None:
    images = 0.8 * np.eye(D)[:4]
    data = mmvp(tmp_path / "mmvp", images, ["Orientation"] * 2 + ["Colour"] * 2)
    texts = {f"statement {k}": images[at] for k, at in enumerate((0, 1, 3, 2), 1)}
    report, _ = run("yaras2024/table1", given(Planted(texts), tmp_path / "rows", data))
    assert report.measured["your model: MMVP-VLM, Orientation"] == 100
    assert report.measured["your model: MMVP-VLM, Colour"] == 0
    assert report.measured["your model: MMVP-VLM"] == 50
    assert report.evidence == "consistency only"


def aokvqa(folder: Path, rows: Sequence[np.ndarray]) -> Path:
    entries = []
    for k, row in enumerate(rows):
        write(folder / "coco" / "val2017" / f"{k:012d}.jpg", picture(row))
        entries.append(
            {
                "split": "val", "image_id": k, "question_id": f"q{k}", "question": f"What {k}?",
                "choices": ["cat", "dog", "bee", "ant"], "correct_choice_idx": k % 4,
                "direct_answers": [f"say {k}"] * 7 + [f"or {k}"] * 3,
                "difficult_direct_answer": False, "rationales": [],
            }
        )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "aokvqa_v1p0_val.json").write_text(json.dumps(entries))
    return folder


def test_questions_are_answered_in_other_words(tmp_path) -> None:
    rng = np.random.default_rng(2)
    images = 0.4 * rng.normal(size=(8, D))
    data = aokvqa(tmp_path / "aokvqa", images)
    choices = ("cat", "dog", "bee", "ant")
    # The first six are right, in the first wording and in others.
    right = {f"What {k}? {choices[k % 4]}": images[k] for k in range(6)}
    right |= {f"What {k}? {word} {k}": images[k] for k in range(6) for word in ("say", "or")}
    for k in (6, 7):
        right |= {f"What {k}? {choices[k % 4]}": -images[k], f"What {k}? cat": images[k]}
    rows = given(Planted(right), tmp_path / "rows", data)
    report, outcome = run("chowers2026/fig10", rows)
    assert report.measured["questions"] == 8
    assert report.measured["clean accuracy"] == pytest.approx(6 / 8)
    assert report.measured["clean accuracy changed by closing"] == 0
    assert outcome.data["tasks"]["A-OKVQA"]["four"]["clean"].shape == (9,)


# The command line, with a model of transformers


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "clip", "clip")


def reproduced(*words: object) -> Any:
    ran = modgap("reproduce", *words, "--seeds", 1, "--json")
    assert ran.status == 0, ran.err
    return ran.json


def test_table1_runs_from_pictures_in_one_command_and_keeps_the_rows(clip, tmp_path) -> None:
    classed(tmp_path / "things")
    out = tmp_path / "out"
    words = ("liang2022/table1", "--model", f"hf:{clip}", "--data", tmp_path / "things", "-o", out)
    found = reproduced(*words)
    assert found["evidence"] == "other data"
    assert "clip on things" in found["on"]
    assert "original, your rows" in found["measured"]
    kept = {path: path.stat().st_mtime_ns for path in (out / "rows").rglob("*.npy")}
    assert len(kept) == 3
    again = reproduced(*words)
    assert again["measured"] == found["measured"]
    assert {path: path.stat().st_mtime_ns for path in (out / "rows").rglob("*.npy")} == kept


def test_random_weights_of_the_same_model_stand_beside_it(clip, tmp_path) -> None:
    captioned(tmp_path / "photos", n=30)
    model = ("--model", f"hf:{clip}", "--data", tmp_path / "photos", "-o", tmp_path / "out")
    found = reproduced("liang2022/fig4", *model)
    assert {"gap, your rows, trained", "gap, your rows, random weights"} <= {*found["measured"]}
    found = reproduced("liang2022/fig15", *model)
    assert found["measured"]["gap, least, without"] > 0


def test_the_cones_of_random_towers_are_those_of_the_model(clip, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("modgap.reproduce.liang2022.initialisations.INITIALISATIONS", 3)
    captioned(tmp_path / "photos", n=30)
    model = ("--model", f"hf:{clip}", "--data", tmp_path / "photos", "-o", tmp_path / "out")
    for key in ("liang2022/fig5", "liang2022/fig7"):
        found = reproduced(key, *model)
        assert "nearest centre is the own one, image tower" in found["measured"]
        assert "mean cosine, text tower" in found["measured"]


# Refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "hf:x"), "name some with --data"),
        (("--data", "x"), "belong to --model"),
        (("--model", "hf:x", "--data", "x", "--list"), "leave out --list"),
        (("--model", "hf:x", "--data", "x", "--generated", "glide"), "takes NAME=PATH"),
        (("--model", "hf:x", "--data", "nowhere"), "There is no file or folder 'nowhere'"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    ran = modgap("reproduce", "liang2022/table1", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_an_entry_says_which_data_it_lacks(clip, tmp_path) -> None:
    captioned(tmp_path / "photos", n=10)
    model = ("--model", f"hf:{clip}", "--data", tmp_path / "photos", "-o", tmp_path / "out")
    for key, said in {
        "liang2022/table1": "images in a folder for each class",
        "liang2022/table4": "--data FAIRFACE",
        "levi2025/fig13": "--generated glide=FOLDER",
        "yaras2024/table1": "--data MMVP_VLM",
        "chowers2026/fig10": "--data AOKVQA",
        "yaras2024/table4": "models that were trained for it",
    }.items():
        ran = modgap("reproduce", key, *model)
        assert (ran.status, ran.out) == (2, ""), key
        assert ran.err.count("\n") == 1
        assert said in ran.err


def test_two_data_sets_of_one_task_are_refused(tmp_path) -> None:
    data = [aokvqa(tmp_path / name, np.zeros((2, D))) for name in ("a", "b")]
    with pytest.raises(InputValueError, match="a second data set of the same task"):
        open_model_data(Planted(), data, tmp_path / "rows")
