"""A-OKVQA: questions about photographs of COCO, four answers to choose from, and their rows.

Published with Schwenk et al. 2022, *A-OKVQA: A Benchmark for Visual Question Answering using World
Knowledge* (arXiv 2206.01718). Its folder holds aokvqa_v1p0_train.json, _val.json and _test.json,
and the photographs are those of COCO 2017, val2017/000000123456.jpg for instance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_count
from modgap.core.results import Brief
from modgap.io._contents import reading
from modgap.io.images import ImageFolder
from modgap.io.items import Item, Items
from modgap.tasks.command import EncodeTexts, TaskInputs
from modgap.tasks.files import images_home, the_file

# Wrong answers that are embedded for each question; draws are from these.
WRONG = 30


@dataclass(frozen=True, eq=False)
class AOKVQA(Brief):
    """Questions with a photograph and answers to choose from.

    ``correct`` (n,) is the place of the right answer among the ``choices`` of a question, and
    ``image_of`` (n,) the row of its photograph in ``images``: questions can share one.
    ``direct_answers`` are right answers in free words, ten of them mostly and often the same.
    """

    source: str
    ids: tuple[str, ...]
    questions: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    correct: np.ndarray
    image_of: np.ndarray
    images: Items
    direct_answers: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.questions)

    def inputs(
        self,
        X: np.ndarray,
        kept: Sequence[int],
        encode: EncodeTexts,
        *,
        rephrase: bool = False,
        wrong_answers: int = WRONG,
        seed: int = 0,
    ) -> TaskInputs:
        """What ``multiple_choice_task`` takes; with ``rephrase``, ``rephrased_choice_task``.

        A text is the question, a space and an answer (Chowers et al., F.2). In other words, right
        texts have the direct answers, each once, and wrong ones answers to other questions, choices
        and direct ones, that are not among the right answers: ``wrong_answers`` of them a question,
        drawn with ``seed``. Questions without direct answers are left out then.
        """
        n_wrong = check_count(wrong_answers, "wrong_answers")
        place = {image: row for row, image in enumerate(kept)}
        asked = [i for i, image in enumerate(self.image_of.tolist()) if image in place]
        if rephrase:
            asked = [i for i in asked if self.direct_answers[i]]
        if not asked:
            raise InputValueError(f"No question of {self.source} has direct answers and an image.")
        answers = {"texts": [self.choices[i] for i in asked]}
        if rephrase:
            answers["right"] = [tuple(dict.fromkeys(self.direct_answers[i])) for i in asked]
            answers["wrong"] = self._wrong_answers(asked, n_wrong, seed)
        rows = {name: self.embedded(asked, own, encode) for name, own in answers.items()}
        used, image_of = np.unique([place[self.image_of[i]] for i in asked], return_inverse=True)
        inputs = {"X": X[used], "correct": self.correct[asked], "image_of": image_of, **rows}
        return TaskInputs(inputs, items=tuple(self.ids[i] for i in asked))

    def embedded(
        self, asked: Sequence[int], answers: Sequence[Sequence[str]], encode: EncodeTexts
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of each question with each of its answers, and the place of the question in asked.

        A text is the question, a space and an answer, as Ghosal et al. join them.
        """
        own = zip(asked, answers, strict=True)
        texts = [f"{self.questions[i]} {answer}" for i, said in own for answer in said]
        return encode(texts), np.repeat(np.arange(len(asked)), [len(said) for said in answers])

    def _wrong_answers(self, asked: Sequence[int], n: int, seed: int) -> list[tuple[str, ...]]:
        """For each question as many answers to all questions, none of them right."""
        every = zip(self.choices, self.direct_answers, strict=True)
        bank = list(dict.fromkeys(answer for both in every for own in both for answer in own))
        rng = np.random.default_rng(seed)
        found = []
        for i in asked:
            right = {self.choices[i][self.correct[i]].lower()}
            right |= {answer.lower() for answer in self.direct_answers[i]}
            rivals = len(self.choices[i]) - 1
            drawn = (bank[k] for k in rng.permutation(len(bank)))
            own = (answer for answer in drawn if answer.lower() not in right)
            found.append(tuple(islice(own, max(n, rivals))))
            if len(found[-1]) < rivals:
                raise InputValueError(
                    f"{self.source} has too few answers to other questions to draw wrong ones from."
                )
        return found


def open_aokvqa(
    path: str | os.PathLike[str],
    *,
    split: str = "val",
    images: str | os.PathLike[str] | None = None,
) -> AOKVQA:
    """Read A-OKVQA as it is published.

    Parameters
    ----------
    path : path
        The folder with aokvqa_v1p0_val.json and so on, or one such file.
    split : str
        "val" or "train"; the answers of "test" are not published.
    images : path, optional
        COCO's folder, which holds val2017 and so on, or one of these. By default it is looked for
        beside the questions, as coco, images or by itself.
    """
    given = Path(path)
    named = given.is_file() and given.suffix == ".json"
    file = given if named else the_file(given, f"aokvqa_v1p0_{split}.json", "A-OKVQA")
    entries = _entries(file)
    names = [f"{entry['image_id']:012d}.jpg" for entry in entries]
    distinct = list(dict.fromkeys(names))
    own = split if f"_{split}." in file.name else file.stem.rpartition("_")[2]
    folders = list(dict.fromkeys(f"{one}2017" for one in (own, "val", "train", "test")))
    here = file.parent
    roots = [here / "coco", here / "images", here, here.parent / "coco", here.parent]
    near = [root / one for root in roots for one in folders] + roots[:2]
    folder = ImageFolder(images_home(images, near, distinct[0], "The photographs of COCO 2017"))
    rows = {name: row for row, name in enumerate(distinct)}
    return AOKVQA(
        str(file),
        tuple(str(entry["question_id"]) for entry in entries),
        tuple(entry["question"].strip() for entry in entries),
        tuple(tuple(choice.strip() for choice in entry["choices"]) for entry in entries),
        np.array([entry["correct_choice_idx"] for entry in entries]),
        np.array([rows[name] for name in names]),
        Items(str(file), [Item(name, (), None, folder.reader(name, file)) for name in distinct]),
        tuple(
            tuple(answer.strip() for answer in entry.get("direct_answers") or ())
            for entry in entries
        ),
    )


def _entries(path: Path) -> list[Mapping[str, Any]]:
    with reading(path, "JSON", ValueError, RecursionError):
        entries = json.loads(path.read_bytes())
    if not isinstance(entries, list) or not entries:
        raise InputValueError(f"{path} must be a list of questions, as A-OKVQA publishes them.")
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        where = f"{path}, question {number}"
        if not isinstance(entry, Mapping):
            raise InputValueError(f"{where}: must be an object, got {type(entry).__name__}.")
        _check(entry, where)
        name = str(entry["question_id"])
        if name in seen:
            raise InputValueError(f"{where}: question_id {name!r} is there already.")
        seen.add(name)
    return entries


def _check(entry: Mapping[str, Any], where: str) -> None:
    for name, kind in {"question_id": (str, int), "question": str, "image_id": int}.items():
        value = entry.get(name)
        if isinstance(value, bool) or not isinstance(value, kind) or value == "":  # type: ignore[arg-type]
            raise InputValueError(f"{where}: {name} is missing, or {value!r}.")
    if not 0 <= entry["image_id"] < 10**12:
        raise InputValueError(f"{where}: image_id must have 12 digits, got {entry['image_id']}.")
    choices = entry.get("choices")
    texts = isinstance(choices, list) and all(isinstance(c, str) and c.strip() for c in choices)
    if not isinstance(choices, list) or not texts or len(choices) < 2:
        raise InputValueError(f"{where}: choices must be two texts or more, got {choices!r}.")
    said = entry.get("direct_answers") or []
    if not isinstance(said, list) or not all(isinstance(one, str) and one.strip() for one in said):
        raise InputValueError(f"{where}: direct_answers must be texts, got {said!r}.")
    correct = entry.get("correct_choice_idx")
    if correct is None:
        raise InputValueError(
            f"{where}: has no correct_choice_idx. The answers of the test split are not "
            "published: take val."
        )
    if isinstance(correct, bool) or not isinstance(correct, int) or not 0 <= correct < len(choices):
        raise InputValueError(
            f"{where}: correct_choice_idx must be below {len(choices)}, got {correct!r}."
        )
