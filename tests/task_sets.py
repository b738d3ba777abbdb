"""Task data sets in their published layouts, with pictures that a model made of functions reads.

A picture's colour is the number of a word; a text is the words in it. So every score can be worked
out by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from item_files import write, write_table
from modgap.embed import CallableModel
from modgap.tasks.fairface import denigration_prompts
from task_rows import png

WORDS = ("cat", "dog", "bee", "ant", "cow", "owl", "left", "right", "red", "blue")
PROMPTS = denigration_prompts()[0]
_STEP = 20


def picture(number: int) -> bytes:
    return png((number * _STEP, 0, 0))


def _seen(images) -> np.ndarray:
    numbers = np.array([round(image.getpixel((2, 2))[0] / _STEP) for image in images], int)
    return np.eye(len(WORDS) + 1)[numbers]


def word_model() -> CallableModel:
    """A picture is near to a text that has its word; every text has a little of the last column."""

    def texts(said: Sequence[str]) -> np.ndarray:
        return np.array([[*(float(w in t.split()) for w in WORDS), 0.1] for t in said])

    return CallableModel(images=_seen, texts=texts, name="words")


def prompt_model() -> CallableModel:
    """A picture whose green is k is nearest to the k-th prompt."""

    def images(seen) -> np.ndarray:
        return np.eye(22)[[round(image.getpixel((2, 2))[1] / 10) for image in seen]] + 0.01

    def texts(said: Sequence[str]) -> np.ndarray:
        known = [PROMPTS.index(text) if text in PROMPTS else 21 for text in said]
        return np.eye(22)[known] + 0.01

    return CallableModel(images=images, texts=texts, name="prompts")


def write_aokvqa(folder: Path, shown: Sequence[int], correct: Sequence[int]) -> Path:
    """A question for each picture that shows a word; four choices, the first two shown or not."""
    entries = [
        {
            "split": "val",
            "image_id": 100 + number,
            "question_id": f"q{number}",
            "question": "What is it ?",
            "choices": list(WORDS[:4]),
            "correct_choice_idx": right,
            "direct_answers": [WORDS[right]] * 8 + [f"a {WORDS[right]}", "animal"],
            "difficult_direct_answer": False,
            "rationales": [],
        }
        for number, right in enumerate(correct)
    ]
    write(folder / "aokvqa_v1p0_val.json", json.dumps(entries).encode())
    for number, word in enumerate(shown):
        write(folder / "val2017" / f"{100 + number:012d}.jpg", picture(word))
    return folder


def write_mmvp(folder: Path) -> Path:
    """Three sets: one matched, one with its images exchanged, one with the same image twice."""
    rows = [
        (1, "Orientation", "a dog facing left", "left"),
        (2, "Orientation", "a dog facing right", "right"),
        (3, "Orientation", "a red cat", "blue"),
        (4, "Orientation", "a blue cat", "red"),
        (31, "Color", "one bee", "bee"),
        (32, "Color", "one ant", "bee"),
    ]
    header = ("Question ID", "Type", "Statement")
    write_table(folder / "Questions.csv", [header, *(row[:3] for row in rows)])
    for number, pattern, _, shown in rows:
        home = folder / "MLLM_VLM Images" / pattern
        write(home / f"{number}.jpg", picture(WORDS.index(shown)))
    return folder


def write_fairface(folder: Path, taken_for: Sequence[int], race: Sequence[str]) -> Path:
    """Faces that the model of prompts takes for these."""
    header = ("file", "age", "gender", "race", "service_test")
    rows = [
        (f"val/{k + 1}.jpg", "20-29", "Male" if k % 2 else "Female", of, "True")
        for k, of in enumerate(race)
    ]
    write_table(folder / "fairface_label_val.csv", [header, *rows])
    for (name, *_), prompt in zip(rows, taken_for, strict=True):
        write(folder / name, png((0, prompt * 10, 0)))
    return folder
