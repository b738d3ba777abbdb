"""``modgap embed``: pictures, sounds and texts to rows."""

from __future__ import annotations

from pathlib import Path


def embed(
    model: str,
    data: Path,
    output: Path,
    split: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | None = None,
    device: str | None = None,
    precision: str = "auto",
    batch_size: int = 64,
    workers: int | None = None,
    random: int | None = None,
    normalise: bool = False,
    dtype: str = "float32",
    shard_items: int = 10_000,
    engine: str = "local",
    as_json: bool = False,
) -> None:
    """Embed images or sounds with their captions into a folder that all commands read.

    Run the same command again after an interruption: it resumes.

    Example: modgap embed hf:openai/clip-vit-base-patch32 photos -o rows
    """
    from modgap.cli.outputs import check_folder, tidy_when_terminated
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, say
    from modgap.core.results import document
    from modgap.corrections.next_steps import embedded_commands
    from modgap.embed import embed as run

    check_folder(output)
    with steps(rate=True) as step, tidy_when_terminated():
        result = run(
            model, data, output, split=split, format=format, images=images, device=device,
            precision=precision, batch_size=batch_size, workers=workers, random=random,
            normalise=normalise, dtype=dtype, shard_items=shard_items, engine=engine,
            progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("embed", result))
    else:
        for line in result.lines():
            out.print(line, markup=False)
    say(f"wrote {output}")
    for note in result.notes():
        say(f"modgap: {note}")
    if not as_json:
        pictures, labels = str(images or data), str(data) if result.has_labels else None
        for command in embedded_commands(str(output), [*result.rows], model, pictures, labels):
            say(f"next: {command}")
