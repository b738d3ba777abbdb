"""``modgap report``: one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path

from modgap.cli.data import Data, Images
from modgap.cli.options import AskingModality, Goal, Metric, refuse
from modgap.cli.takes_data import takes_data


@takes_data(writes="file")
def report(
    data: Data,
    output: Path = Path("report.html"),
    images: Images = None,
    title: str | None = None,
    queries: AskingModality = None,
    goal: Goal = "mixed",
    umap: bool = False,
    metric: Metric = "cosine",
    model: str | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Write one self-contained page: the verdict, an interactive view of the gap, all measures.

    Example: modgap report image.npy text.npy -o report.html
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, say
    from modgap.reports import report as run
    from modgap.reports.rows import with_images

    refuse(
        output.suffix.lower() not in (".html", ".htm"),
        f"The page is an .html file, got -o {output}. Choose a name that ends in .html.",
    )
    with steps() as step:
        result = run(
            with_images(data, images), queries=queries, goal=goal, metric=metric, model=model,
            title=title, umap=umap, seed=seed, progress=step,
        )  # fmt: skip
        step("writing the page", 0, 1)
        result.save(output)
    if as_json:
        print_json(result)
    else:
        out.print(str(result), markup=False)
    say(f"wrote {output}")
