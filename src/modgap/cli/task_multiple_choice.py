"""``modgap task multiple_choice``: is the text with the right answer nearest to the image?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, MetricOption, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_files import Images, data_option, numbers_of, rows_of, rows_with
from modgap.cli.task_options import (
    MODEL,
    ROWS,
    SWEEP,
    Bank,
    BatchSize,
    Column,
    Device,
    FitOn,
    ModelName,
    Names,
    Output,
    Rows,
    Split,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)

if TYPE_CHECKING:
    from modgap.embed import ChoiceRows
    from modgap.evaluation import RephrasedChoice
    from modgap.evaluation.tasks.result import Table


def _file(text: str) -> Any:
    return typer.Option(metavar="PATH", help=text, show_default=False, rich_help_panel=ROWS)


def _of(what: str) -> Any:
    return typer.Option(
        help=f"The question of each of the {what}, from 0 and in order: an array or column of that "
        "file, or a file with one per row.",
        show_default=False,
        rich_help_panel=ROWS,
    )


def multiple_choice(
    rows: Rows = None,
    text: Annotated[
        Path | None, _file("Embeddings of each question with each of its answers.")
    ] = None,
    question_of: Annotated[str | None, _of("texts")] = None,
    correct: Annotated[
        Path | None, _file("The place of the right answer of each question, from 0, one a line.")
    ] = None,
    image_of: Annotated[
        Path | None, _file("The row of the image of each question; row i when left out.")
    ] = None,
    right: Annotated[Path | None, _file("Embeddings of right answers in other words.")] = None,
    right_of: Annotated[str | None, _of("right answers")] = None,
    wrong: Annotated[Path | None, _file("Embeddings of other wrong answers.")] = None,
    wrong_of: Annotated[str | None, _of("wrong answers")] = None,
    column: Column = None,
    names: Names = "image,text",
    model: ModelName = None,
    data: Annotated[
        Path | None,
        data_option(
            "A-OKVQA: the folder with aokvqa_v1p0_val.json, and COCO 2017 beside it or in --images."
        ),
    ] = None,
    images: Images = None,
    split: Split = None,
    rephrase: Annotated[
        bool,
        typer.Option(
            "--rephrase",
            help="Answers in other words: direct answers, and wrong ones of other questions.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    wrong_answers: Annotated[
        int,
        typer.Option(
            min=1, help="Wrong answers that are embedded a question.", rich_help_panel=MODEL
        ),
    ] = 30,
    device: Device = None,
    batch_size: BatchSize = 64,
    draws: Annotated[
        int,
        typer.Option(
            min=1, help="How often answers in other words are drawn.", rich_help_panel=SWEEP
        ),
    ] = 500,
    fit_on: FitOn = None,
    bank: Bank = None,
    metric: MetricOption = "cosine",
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Choose the answer whose text is nearest to the image, and see what each correction changes.

    DATA is A-OKVQA. Texts are moved question by question, too (Chowers et al., eq. 11).

    Example: modgap task multiple_choice --model hf:openai/clip-vit-base-patch32 --data aokvqa --rephrase

    Example: modgap task multiple_choice images.npy --text texts.npy --question-of question.txt --correct correct.txt
    """  # noqa: E501 - an example is one line
    if output is not None:
        check_folder(output)
    needed = {"--text": text, "--question-of": question_of, "--correct": correct}
    of_model = {"--model": model, "--data": data, "--images": images, "--split": split,
                "--rephrase": rephrase}  # fmt: skip
    others = {"--right": right, "--right-of": right_of, "--wrong": wrong, "--wrong-of": wrong_of}
    from modgap.evaluation.tasks import (
        default_ways,
        multiple_choice_task,
        own_shift,
        rephrased_choice_task,
    )

    called = two_names(names)
    more: dict[str, Any] = {}
    reworded: tuple[Any, ...] = ()
    if rows_or_model(rows, needed, of_model):
        assert rows is not None
        assert correct is not None
        X, texts = rows_of(rows, column), rows_with(str(text), str(question_of))
        places = numbers_of(correct, "--correct")
        image = None if image_of is None else numbers_of(image_of, "--image-of")
        if any(others.values()):
            missing = [option for option, value in others.items() if value is None]
            if missing:
                raise InputValueError(f"Answers in other words need {' and '.join(missing)}, too.")
            reworded = rows_with(str(right), str(right_of)), rows_with(str(wrong), str(wrong_of))
    else:
        for option, value in {**others, "--image-of": image_of}.items():
            if value is not None:
                raise InputValueError(f"{option} is for ROWS from a file. Give their path.")
        found = _embedded(
            str(model), str(data), split, images, rephrase, wrong_answers, seed, device, batch_size
        )
        X, texts, places, image = found.X, found.texts, found.correct, found.image_of
        reworded = (found.right, found.wrong) if rephrase else ()
        more = {"model": model, "data": str(data)}
    given: dict[str, Any] = {"image_of": image, "names": called, "metric": metric}
    tables: list[Table] = []
    if reworded:
        protocol = _protocol(X, texts, places, reworded, image, draws, seed)
        more |= {"rephrasing": protocol, "gain_when_closed": protocol.gain(seed=seed)}
        tables.append(_table(protocol))
        task = rephrased_choice_task(X, texts, places, *reworded, draws=draws, seed=seed, **given)
    else:
        task = multiple_choice_task(X, texts, places, **given)
    ways = (*default_ways(task), own_shift(texts, *reworded))
    run_task(
        task, fit_on=fit_on, bank=bank, seed=seed, as_json=as_json, output=output, more=more,
        ways=ways, tables=tables,
    )  # fmt: skip


def _embedded(
    model: str,
    data: str,
    split: str | None,
    images: Path | None,
    rephrase: bool,
    wrong: int,
    seed: int,
    device: str | None,
    batch_size: int,
) -> ChoiceRows:
    from modgap.cli.show import steps
    from modgap.embed import choice_rows
    from modgap.io import open_aokvqa

    questions = open_aokvqa(data, split=split or "val", images=images)
    with steps() as step:
        found = choice_rows(
            opened(model, device), questions, rephrase=rephrase, wrong=wrong, seed=seed,
            batch_size=batch_size, progress=step,
        )  # fmt: skip
    say_skipped(found.skipped, len(questions.images))
    return found


def _protocol(
    X: Any, texts: Any, correct: Any, reworded: Any, image_of: Any, draws: int, seed: int
) -> RephrasedChoice:
    from modgap.cli.show import steps
    from modgap.evaluation import rephrased_choice

    with steps() as step:
        return rephrased_choice(
            X, texts, correct, *reworded, image_of=image_of, draws=draws, seed=seed, progress=step
        )


def _table(found: RephrasedChoice) -> Table:
    header = ("shift by question", "accuracy", "accuracy in other words")
    lines = zip(found.amounts, found.clean, found.rephrased, strict=True)
    return header, [(f"{amount:g}", f"{a:.3f}", f"{b:.3f}") for amount, a, b in lines]
