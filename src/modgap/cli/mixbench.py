"""``modgap mixbench``: mixed retrieval on MixBench, published values beside."""

from __future__ import annotations

from pathlib import Path


def mixbench(
    folder: Path,
    weight: float = 0.5,
    sweep: bool = False,
    model: str | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Evaluate one index of texts, images and image-text documents on MixBench.

    Example: modgap mixbench MixBench25
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, print_table
    from modgap.core.results import document
    from modgap.reproduce.mixbench import evaluate_mixbench

    others = [tenth / 10 for tenth in range(11)] if sweep else []
    with steps() as step:
        result = evaluate_mixbench(
            folder, weight=weight, sweep=others, model=model, seed=seed, progress=step
        )
    if as_json:
        print_json(document("mixbench", result, seed=seed))
        return
    for heading, (header, rows) in result.tables().items():
        out.print(f"[bold]{heading}[/bold]")
        print_table(header, rows, stack_heads=True)
        out.print()
    for note in result.notes():
        out.print(note, style="dim", markup=False, soft_wrap=True)
