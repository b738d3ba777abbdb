"""``modgap task`` for questions, sets of pairs, faces and what is generated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import modgap, succeed
from item_files import write
from modgap.tasks import (
    conformity_test,
    denigration,
    denigration_task,
    multiple_choice_task,
    pair_matching_task,
    rephrased_choice,
    rephrased_choice_task,
)
from task_rows import planted_questions
from task_sets import (
    PROMPTS,
    picture,
    prompt_model,
    word_model,
    write_aokvqa,
    write_fairface,
    write_mmvp,
)

N = 24


@pytest.fixture
def questions(tmp_path):
    X, texts, correct, right, wrong = planted_questions(n=N)
    np.save(tmp_path / "image.npy", X)
    for name, rows in (("text", texts), ("right", right), ("wrong", wrong)):
        np.save(tmp_path / f"{name}.npy", rows.reshape(-1, rows.shape[2]))
        np.save(tmp_path / f"{name}_of.npy", np.repeat(np.arange(N), rows.shape[1]))
    (tmp_path / "correct.txt").write_text("\n".join(map(str, correct)))
    return tmp_path


def choices(files, *more, task="multiple_choice"):
    return modgap("task", task, files / "image.npy", "--text", files / "text.npy",
                  "--question-of", files / "text_of.npy", "--correct", files / "correct.txt",
                  *more)  # fmt: skip


def reworded(files):
    return ("--right", files / "right.npy", "--right-of", files / "right_of.npy", "--wrong",
            files / "wrong.npy", "--wrong-of", files / "wrong_of.npy")  # fmt: skip


def test_multiple_choice_finds_what_the_function_finds(questions):
    X, texts, correct, *_ = planted_questions(n=N)
    ran = choices(questions, "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["raw"]["value"]["value"] == multiple_choice_task(X, texts, correct).score().mean
    assert any(point["way"] == "shift by question" for point in ran.json["points"])
    assert "shift by question" in choices(questions, task="multiple-choice").out


def test_other_words_are_swept_and_shown_as_the_paper_does(questions):
    ran = choices(questions, *reworded(questions), "--draws", 30, "--json")
    assert ran.status == 0
    X, texts, correct, right, wrong = planted_questions(n=N)
    expected = rephrased_choice(rephrased_choice_task(X, texts, correct, right, wrong, draws=30))
    assert ran.json["rephrasing"] == expected.to_dict()
    assert ran.json["gain_when_closed"] == expected.gain().to_dict()
    assert ran.json["task"] == "rephrased_choice"
    at_zero = expected.rephrased[list(expected.amounts).index(0.0)]
    assert ran.json["raw"]["value"]["value"] == pytest.approx(at_zero)
    told = choices(questions, *reworded(questions), "--draws", 30)
    assert "accuracy in other words" in told.out


def test_questions_of_aokvqa_with_a_model(tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: word_model())
    write_aokvqa(tmp_path, [0, 1, 2, 3, 0, 1], [0, 1, 2, 0, 1, 1])
    words = ("task", "multiple_choice", "--model", "hf:any", "--data", tmp_path, "--json")
    ran = succeed(*words)
    assert ran.json["raw"]["value"]["value"] == pytest.approx(4 / 6)
    ran = succeed(*words, "--rephrase", "--wrong-answers", 4, "--draws", 10)
    assert ran.json["rephrasing"]["clean"] == pytest.approx([4 / 6] * 9)


def test_pair_matching_from_rows_and_from_a_model(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 8))
    Y = X + rng.normal(size=(40, 8))
    patterns = np.repeat(["colour", "count"], 20)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    (tmp_path / "patterns.txt").write_text("\n".join(patterns))
    rows = ("task", "pair_matching", tmp_path / "x.npy", "--text", tmp_path / "y.npy", "--json")
    ran = modgap(*rows, "--patterns", tmp_path / "patterns.txt")
    expected = pair_matching_task(X, Y, patterns).score()
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["raw"]["value"]["value"] == pytest.approx(expected.mean)
    assert ran.json["raw"]["parts"] == pytest.approx(expected.parts)
    assert ran.json["names"] == ["text", "image"]
    assert ran.json["published"][0]["where"] == "Yaras et al. 2024, table 1"
    by_image = modgap(*rows, "--asking", "image")
    hits = pair_matching_task(X, Y, asking="image").score().outcomes
    assert by_image.json["raw"]["value"]["value"] == pytest.approx(hits.mean())
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: word_model())
    data = write_mmvp(tmp_path / "mmvp")
    ran = succeed("task", "pair_matching", "--model", "hf:any", "--data", data, "--json")
    assert ran.json["raw"]["parts"] == {"Color": 0.0, "Orientation": 0.5}


def test_denigration_from_rows_and_from_a_model(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, texts = rng.normal(size=(70, 24)), rng.normal(size=(21, 24))
    race = np.repeat([*"abcdefg"], 10)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "prompts.npy", texts)
    (tmp_path / "race.txt").write_text("\n".join(race))
    rows = ("task", "denigration", tmp_path / "x.npy", "--text", tmp_path / "prompts.npy",
            "--groups", tmp_path / "race.txt")  # fmt: skip
    ran = modgap(*rows, "--json", "--harm", "crime")
    expected = denigration(denigration_task(X, texts, race))
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["shares"] == expected.to_dict()
    crime = expected.overall["crime"].value
    assert ran.json["raw"]["value"]["value"] == pytest.approx(crime)
    assert len(ran.json["published"]) == 28
    assert "non-human" in modgap(*rows).out
    assert modgap("task", "denigration", "--prompts").out.splitlines() == PROMPTS
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: prompt_model())
    thief = PROMPTS.index("a photo of a thief")
    data = write_fairface(tmp_path / "faces", [0, 0, thief, 0], ["White"] * 2 + ["Indian"] * 2)
    ran = succeed("task", "denigration", "--model", "hf:any", "--data", data, "--json")
    assert ran.json["raw"]["parts"] == {"Indian": 0.5, "White": 0.0}


@pytest.fixture
def made(tmp_path):
    rng = np.random.default_rng(1)
    centre = np.eye(12)[0]
    for name, spread in (("made", 0.2), ("real", 0.4), ("other", 0.4)):
        rows = centre * (-1 if name == "other" else 1) + spread * rng.normal(size=(80, 12))
        np.save(tmp_path / f"{name}.npy", rows)
    return tmp_path


def test_conformity_tests_generated_rows_against_real_ones(made):
    words = ("task", "conformity", made / "made.npy", "--real", made / "real.npy")
    expected = conformity_test(np.load(made / "made.npy"), np.load(made / "real.npy"))
    ran = modgap(*words, "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["task"] == "conformity"
    assert ran.json["difference"] == expected.difference.to_dict()
    told = modgap(*words)
    assert expected.sentence in told.out
    assert "more common than real ones" in told.out


def test_conformity_is_swept_where_the_other_modality_is_given(made):
    pytest.importorskip("matplotlib")
    ran = succeed("task", "conformity", made / "made.npy", "--real", made / "real.npy", "--others",
                 made / "other.npy", "-o", made / "out", "--json")  # fmt: skip
    assert ran.json["raw"]["value"]["value"] > 0.5
    assert ran.json["conformity"]["p_value"] < 0.01
    assert sorted(path.name for path in (made / "out").iterdir()) == [
        "conformity.json", "conformity.png", "conformity_rows.png",
    ]  # fmt: skip
    succeed("task", "conformity", made / "made.npy", "--real", made / "real.npy", "-o",
                   made / "alone")  # fmt: skip
    assert json.loads((made / "alone" / "conformity.json").read_text())["n_real"] == 80
    assert (made / "alone" / "conformity_rows.png").read_bytes().startswith(b"\x89PNG")


def test_generated_pictures_are_paired_with_photographs_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("modgap.embed.open_model", lambda name, device: word_model())
    for k, shown in enumerate((0, 1, 2, 3, 4)):
        write(tmp_path / "real" / f"{k}.png", picture(shown))
        write(tmp_path / "made" / f"{k}.png", picture(0))
    write(tmp_path / "made" / "2.png", b"no picture")
    words = ("task", "conformity", "--model", "hf:any", "--data", tmp_path / "made", "--real",
             tmp_path / "real", "--json")  # fmt: skip
    ran = succeed(*words, "--paired")
    assert "1 of 10 items cannot be used: 2.png of" in ran.err
    assert ran.json["test"] == "sign permutation"
    # Four pairs; three made ones have cosine 1 to one of the four others, each real one to none.
    assert ran.json["difference"]["value"] == pytest.approx(3 / 4 * 1 / 4)
    assert modgap(*words).json["test"] == "permutation"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["multiple_choice", "{f}/image.npy", "--text", "x"], "need --question-of and --correct"),
        (["multiple_choice", "--model", "a:b", "--data", "x", "--right", "y"], "--right is for"),
        (["multiple_choice", "{f}/image.npy", "--text", "{f}/text.npy", "--question-of",
          "{f}/text_of.npy", "--correct", "{f}/none.txt"], "--correct must be a file"),
        (["multiple_choice", "{f}/image.npy", "--text", "{f}/text.npy", "--question-of",
          "{f}/text_of.npy", "--correct", "{f}/correct.txt", "--right", "{f}/right.npy"],
         "need --right-of and --wrong and --wrong-of, too"),
        (["multiple_choice", "--model", "hf:x", "--data", "{f}"], "must hold aokvqa_v1p0_val.json"),
        (["pair_matching", "{f}/image.npy"], "need --text, too"),
        (["pair_matching", "--model", "hf:x", "--data", "{f}"], "must hold Questions.csv"),
        (["denigration", "{f}/image.npy", "--text", "x"], "need --groups, too"),
        (["denigration", "--model", "hf:x", "--data", "{f}"], "must hold fairface_label_val.csv"),
        (["conformity", "{f}/image.npy"], "--real is missing"),
        (["conformity", "{f}/image.npy", "--real", "{f}/text_of.npy"], "text_of.npy"),
        (["pair_matching", "--model", "hff:x", "--data", "{f}/mmvp"], "Did you mean 'hf'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(questions, words, said):
    write_mmvp(questions / "mmvp")
    ran = modgap("task", *(word.replace("{f}", str(questions)) for word in words))
    assert ran.status == 2
    assert ran.out == ""
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
