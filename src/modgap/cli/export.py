"""``modgap export``: what a service needs to merge result lists, without modgap."""

from __future__ import annotations

from pathlib import Path


def export(
    correction: Path,
    to: str,
    output: Path,
    queries: str | None = None,
) -> None:
    """Write a correction as one function that merges the result lists of several modalities.

    json has the numbers alone; typescript, sql (PostgreSQL), duckdb and numpy the function, too. It
    needs no modgap, and gives the order and the scores of modgap.

    Example: modgap export correction.safetensors --to typescript -o merge.ts
    """
    from modgap.cli.outputs import check_file
    from modgap.cli.show import say
    from modgap.core.files import write_text
    from modgap.corrections.files import load_correction
    from modgap.exports import export_correction, merge_numbers

    check_file(output)
    asking = None if queries is None else [queries]
    found = load_correction(correction, asking)
    write_text(output, export_correction(found, to, queries))  # type: ignore[arg-type]
    numbers = merge_numbers(found, queries)
    say(f"wrote {output}: {numbers['kind'].replace('_', ' ')}, for {numbers['queries']} queries")
    say(f"  scores     {numbers['scores']}")
