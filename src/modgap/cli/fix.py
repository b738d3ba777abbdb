"""``modgap fix``: the whole way, from embeddings to corrected documents and a search that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from modgap.cli import options
from modgap.cli.data import Data, Images, open_bank, with_documents
from modgap.cli.takes_data import takes_data
from modgap.core.checks import InputValueError, MissingExtraError

if TYPE_CHECKING:
    from modgap.io import Modalities


@takes_data(writes="folder", unless="data", needs_matches=True)
def fix(
    rows: Data | None,
    output: Path,
    queries: str | None = None,
    goal: options.Goal = "mixed",
    metric: options.Metric = "cosine",
    bank: Path | None = None,
    documents: list[str] | None = None,
    images: Images = None,
    keep_bank: bool = True,
    model: str | None = None,
    preset: str | None = None,
    data: Path | None = None,
    split: str | None = None,
    device: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    partial: Path | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Diagnose, fit the chosen correction on all rows, and write all that a search needs.

    Example: modgap fix image.npy text.npy -o fixed

    Example: modgap fix image.npy text.npy --preset clip-vit-b-32-captions -o fixed

    Example: modgap fix --model hf:openai/clip-vit-base-patch32 --data photos -o fixed
    """
    from modgap.cli.diagnose import print_diagnosis
    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, say
    from modgap.core.results import document
    from modgap.diagnosis import fix as run
    from modgap.diagnosis.fix_indexes import build_indexes, index_lines
    from modgap.reports.fix import fitted_on, where_from
    from modgap.reports.rows import with_images

    options.refuse(
        data is None and (split or device),
        "--split and --device belong to --data, which is not given.",
    )
    source = _embedded(data, model, output, split, device) if data is not None else rows
    assert source is not None  # one of the two is given
    pictures = data if "image" in source.names else None
    source = with_images(with_documents(source, documents), images or pictures)
    source = source if partial is None else source.with_partial(partial)
    say(f"modgap: {source.where()}")
    with steps() as step, tidy_when_terminated():
        result = run(
            source, None, output, queries=queries, goal=goal,
            metric=metric, bank=open_bank(bank), keep_bank=keep_bank, model=model, preset=preset,
            trust_pairs=trust_pairs, group_duplicates=group_duplicates, seed=seed, progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("fix", result))
    else:
        for diagnosis in result.diagnoses.values():
            print_diagnosis(diagnosis, every=False)
        for asking, correction in result.corrections.items():
            out.print(str(correction), markup=False)
            out.print(f"  fitted on  {fitted_on(correction)} rows")
            out.print(f"[dim]{where_from(correction, result.diagnoses.get(asking))}[/dim]\n")
        if result.next_steps:
            out.print("[bold]What to do next[/bold]")
        for line in result.next_steps:
            out.print(f"  {line}", markup=False, soft_wrap=True)
    for path in result.files:
        say(f"wrote {path}")
    if data is None or not result.corrections:
        return
    try:
        with steps() as step:
            built = build_indexes(source, result.corrections, output, step)
    except MissingExtraError as missing:
        say(f"modgap: no index of all documents: {missing}")
        return
    for line in index_lines(built):
        say(line)


def _embedded(
    data: Path, model: str | None, output: Path, split: str | None, device: str | None
) -> Modalities:
    """Images and captions, embedded beside the output; a run that was stopped goes on."""
    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.diagnosis.fix_indexes import beside
    from modgap.diagnosis.fixing import check_replaceable
    from modgap.embed import embed
    from modgap.embed.folder import check_captioned
    from modgap.io import open_pair

    if model is None:
        raise InputValueError(
            "--data needs --model, the model that embeds, such as hf:openai/clip-vit-base-patch32."
        )
    check_replaceable(output)
    check_captioned(data, split)
    with steps(rate=True) as step, tidy_when_terminated():
        done = embed(model, data, beside(output, "-rows"), split=split, device=device,
                     progress=step)  # fmt: skip
    if done.skipped:
        say(f"modgap: {done.skipped_sentence()}")
    return open_pair(done.folder)
