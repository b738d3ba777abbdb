"""``modgap task conformity``: are generated images or captions more common than real ones?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Seed
from modgap.cli.outputs import check_folder
from modgap.cli.task_files import data_option, rows_of
from modgap.cli.task_options import (
    BatchSize,
    Column,
    Device,
    FitOn,
    ModelName,
    Names,
    Output,
    Rows,
    opened,
    rows_or_model,
    run_task,
    say_skipped,
    two_names,
)

if TYPE_CHECKING:
    from modgap.evaluation import ConformityTest
    from modgap.evaluation.tasks.result import Table


def _path(text: str) -> Any:
    return typer.Option(metavar="PATH", help=text, show_default=False)


def conformity(
    rows: Rows = None,
    real: Annotated[
        Path | None, _path("The real ones: embeddings, or with --model items to embed.")
    ] = None,
    reference: Annotated[
        Path | None,
        _path("What both are compared with, in the same form; the real ones when left out."),
    ] = None,
    others: Annotated[
        Path | None,
        _path(
            "Embeddings of the other modality, captions for images: the comparison is then swept "
            "over corrections of the gap, too."
        ),
    ] = None,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Generated and real ones belong together: row by row, or by file name.",
        ),
    ] = False,
    column: Column = None,
    names: Names = "image,text",
    model: ModelName = None,
    data: Annotated[Path | None, data_option("Generated images or texts.")] = None,
    device: Device = None,
    batch_size: BatchSize = 64,
    resamples: Annotated[
        int, typer.Option(min=100, help="Permutations of the test, and resamples.")
    ] = 1_000,
    fit_on: FitOn = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Test whether generated rows have another mean conformity than real ones (Levi & Gilboa, 7.1).

    ROWS, or DATA with a model, are the generated ones: images, or captions as texts.

    Example: modgap task conformity generated.npy --real photos.npy

    Example: modgap task conformity --model hf:openai/clip-vit-base-patch32 --data made --real photos --paired
    """  # noqa: E501 - an example is one line
    if output is not None:
        check_folder(output)
    if real is None:
        raise InputValueError("--real is missing: what are the generated ones compared with?")
    from modgap.evaluation import conformity_test
    from modgap.evaluation.tasks import conformity_task

    called = two_names(names)
    more: dict[str, Any] = {}
    groups: Any = None
    if rows_or_model(rows, {}, {"--model": model, "--data": data}):
        made, found, beside = (
            None if path is None else rows_of(path, column) for path in (rows, real, reference)
        )
    else:
        opened_model = opened(str(model), device)
        sides = [_embedded(opened_model, path, batch_size) for path in (data, real, reference)]
        (made, first), (found, second), (beside, _) = sides
        groups = (first, second) if paired else None
        more = {"model": model, "data": str(data), "real": str(real)}
    result = conformity_test(
        made, found, beside, paired=paired and groups is None, groups=groups, resamples=resamples,
        seed=seed,
    )  # fmt: skip
    if others is None:
        _finish(result, more, seed, as_json=as_json, output=output)
        return
    task = conformity_task(made, found, rows_of(others), reference=beside, names=called, seed=seed)
    if output is not None:
        _draw(result, output)
    run_task(
        task, fit_on=fit_on, bank=None, seed=seed, as_json=as_json, output=output,
        more={**more, "conformity": result}, tables=[_table(result)],
    )  # fmt: skip


def _embedded(model: Any, path: Path | None, batch_size: int) -> tuple[Any, list[str]]:
    """The rows of items, and the name of each without its folder and ending."""
    if path is None:
        return None, []
    from modgap.cli.show import steps
    from modgap.embed.task_sets import all_rows
    from modgap.io import open_items

    items = open_items(path)
    with steps() as step:
        found, kept, skipped = all_rows(model, items, batch_size=batch_size, progress=step)
    say_skipped(skipped, len(items))
    return found, [PurePath(items.names[row]).stem for row in kept]


def _table(found: ConformityTest) -> Table:
    lines: Sequence[tuple[str, int | None, Any]] = (
        ("generated", found.n_generated, found.generated),
        ("real", found.n_real, found.real),
        ("difference", None, found.difference),
    )
    header = ("rows", "number", "mean conformity", "p")
    return header, [
        (
            name,
            "" if n is None else f"{n:,}",
            f"{value.value:.4f} [{value.low:.4f}, {value.high:.4f}]",
            f"{found.p_value:.2g}" if n is None else "",
        )
        for name, n, value in lines
    ]


def _finish(
    found: ConformityTest, more: dict[str, Any], seed: int, *, as_json: bool, output: Path | None
) -> None:
    from modgap._files import write_text
    from modgap._results import document, to_json
    from modgap.cli.show import out, print_json, print_table, say

    written = document("task", found, seed=seed, task="conformity", **more)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_text(output / "conformity.json", to_json(written) + "\n")
        say(f"wrote {output / 'conformity.json'}")
        _draw(found, output)
    if as_json:
        print_json(written)
        return
    print_table(*_table(found))
    out.print(f"\n{found.sentence}", markup=False, soft_wrap=True)


def _draw(found: ConformityTest, folder: Path) -> None:
    """The two distributions, where matplotlib is installed."""
    from modgap._files import atomic_path
    from modgap._validate import MissingExtraError
    from modgap.cli.show import say

    folder.mkdir(parents=True, exist_ok=True)
    try:
        from modgap.plot import histograms, panels

        figure, (axes,) = panels(1, size=(5.2, 3.8))
        histograms(*found.histogram(), xlabel="conformity", ax=axes)
    except MissingExtraError as missing:
        say(f"modgap: no figure: {missing}")
        return
    with atomic_path(folder / "conformity_rows.png") as path:
        figure.savefig(path, dpi=150)
    say(f"wrote {folder / 'conformity_rows.png'}")
