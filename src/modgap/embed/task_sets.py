"""From a model and a task's own data set to the rows that the task takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from modgap._results import Brief, Progress, silent
from modgap._validate import InputValueError, check_count, did_you_mean
from modgap.embed.item_batches import item_rows
from modgap.embed.model import BATCH, Model
from modgap.evaluation.denigration import GROUPS, SEXES, denigration_prompts
from modgap.io import Items
from modgap.io.aokvqa import AOKVQA
from modgap.io.fairface import FairFace
from modgap.io.mmvp import MMVP

# Rows of texts and the question of each.
QuestionTexts = tuple[np.ndarray, np.ndarray]
# Tong et al. put this before each statement of MMVP-VLM.
PHOTO_OF = "a photo of "
# Wrong answers that are embedded for each question; draws are from these.
WRONG = 30


@dataclass(frozen=True, eq=False)
class ChoiceRows(Brief):
    """Questions with their answers, as ``multiple_choice`` and ``rephrased_choice`` take them.

    ``questions`` are the ids of those whose image could be read. ``right`` and ``wrong`` are None
    where no other wordings were asked for.
    """

    X: np.ndarray
    texts: QuestionTexts
    correct: np.ndarray
    image_of: np.ndarray
    questions: tuple[str, ...]
    right: QuestionTexts | None = None
    wrong: QuestionTexts | None = None
    skipped: Mapping[str, str] = field(default_factory=dict, repr=False)


def choice_rows(
    model: Model,
    data: AOKVQA,
    *,
    rephrase: bool = False,
    wrong: int = WRONG,
    seed: int = 0,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ChoiceRows:
    """Embed A-OKVQA: the photographs, and each question with each of its answers.

    A text is the question, a space and an answer (Chowers et al., F.2). In other words, right texts
    have the direct answers, each once, and wrong ones answers to other questions, choices and
    direct ones, that are not among the right answers.

    Parameters
    ----------
    model : Model
        What embeds both.
    data : AOKVQA
        What ``modgap.io.open_aokvqa`` gives.
    rephrase : bool
        Embed other wordings, too. Questions without direct answers are left out then.
    wrong : int
        How many wrong answers to draw for each question.
    seed : int
        Seed of the wrong answers.
    batch_size, workers, progress
        As for ``item_rows``.
    """
    say = progress or silent
    n_wrong = check_count(wrong, "wrong")
    X, kept_images, skipped = item_rows(
        model, data.images, batch_size=batch_size, workers=workers, progress=progress
    )
    place = {image: row for row, image in enumerate(kept_images)}
    kept = [i for i in range(len(data)) if int(data.image_of[i]) in place]
    if rephrase:
        kept = [i for i in kept if data.direct_answers[i]]
    if not kept:
        raise InputValueError(f"No question of {data.source} has direct answers and an image.")
    say("embedding texts", 0, 0)
    texts = _question_texts(model, data, kept, [data.choices[i] for i in kept], batch_size)
    others: dict[str, QuestionTexts] = {}
    if rephrase:
        said = {
            "right": [tuple(dict.fromkeys(data.direct_answers[i])) for i in kept],
            "wrong": _wrong_answers(data, kept, n_wrong, seed),
        }
        for name, answers in said.items():
            say(f"embedding {name} answers", 0, 0)
            others[name] = _question_texts(model, data, kept, answers, batch_size)
    used, image_of = np.unique([place[int(data.image_of[i])] for i in kept], return_inverse=True)
    return ChoiceRows(
        X=X[used],
        texts=texts,
        correct=data.correct[kept],
        image_of=image_of,
        questions=tuple(data.ids[i] for i in kept),
        skipped=skipped,
        **others,
    )


def _question_texts(
    model: Model, data: AOKVQA, kept: Sequence[int], answers: Sequence[Sequence[str]], batch: int
) -> QuestionTexts:
    texts = [f"{data.questions[i]} {a}" for i, own in zip(kept, answers, strict=True) for a in own]
    question_of = np.repeat(np.arange(len(kept)), [len(own) for own in answers])
    return model.encode_texts(texts, batch_size=batch), question_of


def _wrong_answers(data: AOKVQA, kept: Sequence[int], n: int, seed: int) -> list[tuple[str, ...]]:
    """For each question as many answers from the whole bank, none of them right."""
    bank = list(
        dict.fromkeys(
            answer
            for i in range(len(data))
            for answer in (*data.choices[i], *data.direct_answers[i])
        )
    )
    rng = np.random.default_rng(seed)
    found = []
    for i in kept:
        right = {data.choices[i][data.correct[i]].lower()}
        right |= {answer.lower() for answer in data.direct_answers[i]}
        needed = max(n, len(data.choices[i]) - 1)
        drawn = (bank[k] for k in rng.permutation(len(bank)))
        own = list(islice((answer for answer in drawn if answer.lower() not in right), needed))
        if len(own) < len(data.choices[i]) - 1:
            raise InputValueError(
                f"{data.source} has too few answers to other questions to draw wrong ones from."
            )
        found.append(tuple(own))
    return found


@dataclass(frozen=True, eq=False)
class MatchingRows(Brief):
    """Images and statements, row by row, as ``pair_matching`` takes them."""

    X: np.ndarray
    Y: np.ndarray
    patterns: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict, repr=False)


def matching_rows(
    model: Model,
    data: MMVP,
    *,
    prefix: str = PHOTO_OF,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> MatchingRows:
    """Embed MMVP-VLM: the images, and each statement behind ``prefix``.

    A set with an image that cannot be read is left out.

    Parameters
    ----------
    model : Model
        What embeds both.
    data : MMVP
        What ``modgap.io.open_mmvp`` gives.
    prefix : str
        What stands before each statement; the published evaluation has "a photo of ".
    batch_size, workers, progress
        As for ``item_rows``.
    """
    X, read, skipped = item_rows(
        model, data.images, batch_size=batch_size, workers=workers, progress=progress
    )
    place = {image: row for row, image in enumerate(read)}
    kept = [int(row) for pair in data.pairs if all(int(r) in place for r in pair) for row in pair]
    if not kept:
        raise InputValueError(f"No set of {data.source} has two images that can be read.")
    texts = [f"{prefix}{data.statements[row]}" for row in kept]
    return MatchingRows(
        X=X[[place[row] for row in kept]],
        Y=model.encode_texts(texts, batch_size=batch_size),
        patterns=tuple(data.patterns[row] for row in kept),
        skipped=skipped,
    )


@dataclass(frozen=True, eq=False)
class FaceRows(Brief):
    """Faces and the 21 prompts, as ``denigration`` takes them.

    ``groups`` has the age, gender and race of each face; ``own`` the row of its own prompt.
    """

    X: np.ndarray
    texts: np.ndarray
    kinds: tuple[str, ...]
    groups: Mapping[str, np.ndarray]
    own: np.ndarray
    skipped: Mapping[str, str] = field(default_factory=dict, repr=False)


def face_rows(
    model: Model,
    data: FairFace,
    *,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FaceRows:
    """Embed FairFace and the prompts of Liang et al., fig. 11.

    Parameters
    ----------
    model : Model
        What embeds both.
    data : FairFace
        What ``modgap.io.open_fairface`` gives.
    batch_size, workers, progress
        As for ``item_rows``.
    """
    own = np.array([_own_prompt(r, g) for r, g in zip(data.race, data.gender, strict=True)])
    texts, kinds = denigration_prompts()
    X, kept, skipped = item_rows(
        model, data.images, batch_size=batch_size, workers=workers, progress=progress
    )
    columns = {"race": data.race, "gender": data.gender, "age": data.age}
    return FaceRows(
        X=X,
        texts=model.encode_texts(texts, batch_size=batch_size),
        kinds=tuple(kinds),
        groups={name: np.array(values)[kept] for name, values in columns.items()},
        own=own[kept],
        skipped=skipped,
    )


def _own_prompt(race: str, gender: str) -> int:
    """The row of the prompt for a face, by the words of FairFace's table."""
    group = race.lower().replace("_", " ").removesuffix(" hispanic")
    sexes = {"male": 0, "female": 1}
    for value, known in ((group, GROUPS), (gender.lower(), tuple(sexes))):
        if value not in known:
            raise InputValueError(
                f"FairFace knows no {value!r}: it has {', '.join(known)}."
                f"{did_you_mean(value, known)}"
            )
    return len(SEXES) * GROUPS.index(group) + sexes[gender.lower()]


def all_rows(
    model: Model,
    items: Items,
    *,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[np.ndarray, list[int], dict[str, str]]:
    """Rows of images, sounds or texts, the items that they are of, and why others have none."""
    if items.kind != "text":
        return item_rows(model, items, batch_size=batch_size, workers=workers, progress=progress)
    kept = [row for row in range(len(items)) if items.captions(row)]
    texts = [items.captions(row)[0] for row in kept]
    return model.encode_texts(texts, batch_size=batch_size), kept, {}
