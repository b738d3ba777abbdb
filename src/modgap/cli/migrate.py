"""``modgap migrate``: queries of a new model among documents of an old one, and moving these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from modgap.cli import options
from modgap.cli.named import groups_by_name, set_of_rows, two_names

if TYPE_CHECKING:
    from modgap.io import Modalities


def migrate(
    old: str,
    new: str,
    output: Path | None = None,
    correction: Path | None = None,
    new_correction: Path | None = None,
    queries: options.AskingModality = None,
    keep: float = 0.8,
    sample: int = 10_000,
    model: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    as_json: bool = False,
    names: str = "image,text",
    groups: str | None = None,
    unpaired: bool = False,
) -> None:
    """Say whether queries of a new model may search the documents of an old one, and move these.

    A sample of rows that both models embedded is enough. Where a linear map keeps enough of the
    recall, the folder gets a correction with which new queries search the old index at once, one
    for the index of new documents, and what merges the results of both while documents move.

    Example: modgap migrate old-image.npy,old-text.npy new-image.npy,new-text.npy -o moving
    """
    from modgap.cli.diagnose import print_verdict
    from modgap.cli.outputs import check_folder
    from modgap.cli.progress import steps
    from modgap.cli.show import print_json, print_table, say
    from modgap.core.results import document
    from modgap.corrections.files import load_correction
    from modgap.corrections.next_steps import migration_lines
    from modgap.diagnosis.migration import migrate as run

    if output is not None:
        check_folder(output)
    asking = None if queries is None else [queries]
    known = None if correction is None else load_correction(correction, asking)
    fresh = None if new_correction is None else load_correction(new_correction, asking)
    paired = False if unpaired else None
    with steps() as step:
        found = run(
            _opened(old, names, groups, paired), _opened(new, names, None, False), known,
            new_correction=fresh, queries=queries, keep=keep, sample=sample,
            model=model, trust_pairs=trust_pairs, group_duplicates=group_duplicates, seed=seed,
            progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("migrate", found))
    else:
        print_verdict(found.verdict, found.sentence)
        print_table(*found.table())
    if output is None:
        return
    for file in found.save(output):
        say(f"wrote {file}")
    if found.correction is not None:
        for line in migration_lines(str(output), found.names, found.query_modality):
            say(line)


def _opened(given: str, names: str, groups: str | None, paired: bool | None) -> Modalities:
    """The modalities of a set of rows."""
    from modgap.io import open_modalities, open_pair

    paths = set_of_rows(given)
    if isinstance(paths, dict):
        labels = groups_by_name(groups, tuple(paths))
        return open_modalities(paths, groups=labels, paired=paired)
    called = two_names(names)
    labels = groups_by_name(groups, called)
    return open_pair(*paths, names=called, groups=labels, paired=paired)
