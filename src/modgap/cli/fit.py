"""``modgap fit``: learn one correction and keep it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from modgap.cli import options
from modgap.cli.data import Data, open_bank
from modgap.cli.kept_inputs import check_outputs
from modgap.cli.named import by_name
from modgap.cli.outputs import check_file
from modgap.cli.takes_data import takes_data

if TYPE_CHECKING:
    from modgap.io import Embeddings


@takes_data(writes="file", adds=("extend", "refit"))
def fit(
    data: Data,
    method: str | None = None,
    output: Path | None = None,
    extend: Path | None = None,
    refit: Path | None = None,
    parameter: list[str] | None = None,
    queries: str | None = None,
    metric: options.Metric = "cosine",
    bank: Path | None = None,
    model: str | None = None,
    partial: Path | None = None,
    engine: str = "local",
) -> None:
    """Fit one correction to both modalities and write it as a small file.

    With --queries both, one for each query modality: correction-text.safetensors beside
    correction-image.safetensors, unless one serves both. With --bank, or --set hubs=0.5, documents
    that come up for everything are marked down; modgap diagnose says whether that helps.

    With --extend, a correction gets a map for one more modality; those that are there stay as they
    are, and so do documents that were corrected. With --refit, expected wrong results are fitted
    again to documents as they are now; the maps and the bank of queries stay.

    Example: modgap fit image.npy text.npy -o correction.safetensors

    Example: modgap fit --extend correction.safetensors audio=audio.npy -o extended.safetensors
    """
    if output is None:
        default = "extended" if extend else "refitted" if refit else "correction"
        output = Path(f"{default}.safetensors")
        check_file(output)
    if (changed := extend or refit) is not None:
        own = {
            "method": method, "set": parameter, "queries": queries, "bank": bank, "model": model,
            "partial": partial, "engine": None if engine == "local" else engine,
            "metric": None if metric == "cosine" else metric,
        }  # fmt: skip
        how = "extend" if extend else "refit"
        for option, value in own.items():
            options.refuse(value, f"--{option} belongs to a fit; --{how} keeps what was fitted.")
        options.refuse(extend and refit, "Give --extend or --refit, one of them.")
        _change(cast("Mapping[str, Embeddings]", data), changed, output, how)
        return
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.corrections import Correction, row_length, save_corrections
    from modgap.corrections.next_steps import fit_lines
    from modgap.corrections.registry import corrector_of_words, fit_each
    from modgap.engines import spread

    options.refuse_here_only(engine, partial=partial)
    data = data if partial is None else data.with_partial(partial)
    words = by_name(parameter, "--set", "NAME=VALUE, such as amount=0.3")
    corrector = corrector_of_words(method, words, has_bank=bank is not None)
    data = spread(data, engine)
    with steps() as step:
        made = fit_each(
            corrector, data, queries, bank=open_bank(bank), rows=row_length(metric), model=model,
            progress=step,
        )  # fmt: skip
    written = {str(path): Correction.load(path) for path in save_corrections(made, output)}
    say("\n".join(fit_lines(written, str(output.parent), sides=data.sides)))


def _change(rows: Mapping[str, Embeddings], path: Path, output: Path, how: str) -> None:
    """Extend a correction, or those of a folder, or fit their backgrounds again; write them."""
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.corrections import (
        Correction,
        demands,
        extend,
        load_corrections,
        refit_background,
        save_corrections,
    )
    from modgap.corrections.extending import change_each
    from modgap.corrections.next_steps import extension_lines

    check_outputs({"output": output, how: path})
    change = extend if how == "extend" else refit_background
    found = load_corrections(path)
    with steps() as step:
        made = change_each(change, found, rows, progress=step)
    for file in save_corrections(made, output):
        correction = Correction.load(file)
        say(f"wrote {file}")
        more = extension_lines(str(file), correction, rows) if how == "extend" else []
        say("\n".join([*demands(correction), *more]))
