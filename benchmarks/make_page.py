"""Make the tables and pictures of benchmarks.md and plan-1e9.md from benchmarks/results.

    python benchmarks/make_page.py

Every number between the marks of the two pages comes from a file there; nothing is typed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import growth_figures
import plan
from growth import exponent
from mixed import put
from results import load, said

DOCS = Path(__file__).parents[1] / "docs"
EVIDENCE = DOCS / "evidence"
# From the page to its pictures.
PICTURES = "../pictures/"
NOT_YET = "*Not measured yet.*"
COMMANDS = {
    "bare": "python benchmarks/run.py --only bare --save",
    "before": "python benchmarks/run.py --only measure diagnose --at c0d6369 --save",
    "peers": "python benchmarks/run.py --only peers --save",
    "growth": "python benchmarks/growth.py --save",
    "streaming": "make bench-streaming SAVE=--save",
    "gpu": "make bench-gpu",
    "rates": "python benchmarks/rates.py --save",
}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> str:
    """Markdown; the first columns are words, the others numbers."""
    heads = list(heads)
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * words + "--:|" * (len(heads) - words)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def number(value: float | None, digits: int = 3) -> str:
    """So many digits that matter, never as a power of ten."""
    if value is None:
        return "–"
    whole = max(0, digits - 1 - _magnitude(value))
    return f"{value:,.{min(whole, 6)}f}"


def _magnitude(value: float) -> int:
    return int(f"{abs(value):e}".split("e")[1]) if value else 0


def megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} MB"


def bold(row: dict, text: str) -> str:
    return f"**{text}**" + (" (beyond)" if row.get("beyond") else "")


def machines() -> str:
    """Where and when each file was measured."""
    lines = []
    for name, command in COMMANDS.items():
        found = load(name)
        if found is None:
            lines.append((f"`{command}`", "–", "–", "not measured yet"))
        else:
            place = said(found["machine"])
            lines.append((f"`{command}`", found["date"], f"`{found['commit']}`", place))
    return table(("command", "date", "commit", "machine"), lines, words=4)


def bare(rows: list[dict]) -> str:
    heads = ("what", "against", "seconds", "yardstick", "ratio", "at most", "memory", "at most")
    return table(
        heads,
        (
            (
                row["what"],
                row["against"],
                number(row["seconds"]),
                number(row["yardstick_s"]),
                bold(row, f"{row['ratio']:.2f}"),
                number(row["limit"]),
                megabytes(row["megabytes"]),
                megabytes(row["megabytes_limit"]),
            )
            for row in measured(rows)
        ),
        words=2,
    )


def peers(rows: list[dict]) -> str:
    heads = (
        "what", "instead of", "seconds", "theirs", "times as fast", "memory", "theirs",
        "largest difference",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                row["what"],
                row["against"],
                number(row["seconds"]),
                number(row["yardstick_s"]),
                bold(row, number(1 / row["ratio"])),
                megabytes(row["megabytes"]),
                megabytes(row["yardstick_megabytes"]),
                f"{row['difference']:.1g}",
            )
            for row in measured(rows)
        ),
        words=2,
    )


def measured(rows: list[dict]) -> list[dict]:
    """The rows that have times; a case without room for its yardstick has none."""
    return [row for row in rows if not row.get("failed")]


def before(rows: list[dict]) -> str:
    """The cases of an earlier commit beside those of now, each in units of its own products."""
    now = {row["case"]: row for row in (load("bare") or {"rows": []})["rows"]}
    return table(
        (
            "what",
            "seconds before",
            "seconds now",
            "products before",
            "products now",
            "times as fast",
        ),
        (
            (
                row["what"],
                number(row["seconds"]),
                number(now[row["case"]]["seconds"]),
                number(row["ratio"]),
                number(now[row["case"]]["ratio"]),
                f"**{number(row['ratio'] / now[row['case']]['ratio'])}**",
            )
            for row in measured(rows)
            if row["case"] in now
        ),
    )


def growth(rows: list[dict]) -> str:
    """Seconds and memory at the largest point of each curve, and the exponents."""
    lines = []
    for of, by in dict.fromkeys((row["of"], row.get("by", "modgap")) for row in rows):
        curve = [row for row in rows if (row["of"], row.get("by", "modgap")) == (of, by)]
        by_rows, by_columns = ([row for row in curve if row["vary"] == vary] for vary in ("n", "d"))
        largest = max(by_rows, key=lambda row: row["n"])
        lines.append(
            (
                of,
                by,
                f"{largest['n']:,}",
                number(largest["seconds"]),
                megabytes(largest["megabytes"]),
                number(exponent(by_rows, "n")),
                number(exponent(by_rows, "n", "megabytes")),
                number(exponent(by_columns, "d")),
            )
        )
    heads = (
        "what", "by", "largest n", "seconds", "memory", "seconds as n to the",
        "memory as n to the", "seconds as d to the",
    )  # fmt: skip
    return table(heads, lines, words=2)


def streaming(rows: list[dict]) -> str:
    heads = (
        "what", "rows", "seconds", "rate", "the disk's", "in memory", "share of the slower",
        "at least", "memory", "at most",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                row["what"],
                f"{row['gigabytes']:.1f} GB {row['dtype']}",
                number(row["seconds"]),
                *(f"{number(row[rate])} MB/s" for rate in ("rate", "disk_rate", "memory_rate")),
                bold(row, f"{row['share']:.2f}"),
                number(row["least_share"], 1),
                megabytes(row["megabytes"]),
                megabytes(row["megabytes_limit"]),
            )
            for row in rows
        ),
        words=2,
    )


def gpu_rates(rows: list[dict]) -> str:
    return table(
        ("bare product", "TFLOP/s"),
        ((row["what"], number(row["tflops"])) for row in rows if row["case"] == "product"),
    )


def gpu(rows: list[dict]) -> str:
    kept = [row for row in measured(rows) if row.get("yardstick_s")]
    heads = (
        "what", "against", "seconds", "yardstick", "ratio", "share of the rate", "at least",
        "memory",
    )  # fmt: skip
    return table(
        heads,
        (
            (
                row["what"],
                row["against"],
                number(row["seconds"]),
                number(row["yardstick_s"]),
                f"{row['ratio']:.2f}",
                bold(row, f"{row['share']:.2f}") if row.get("share") else "–",
                number(row.get("least_share")),
                megabytes(row["megabytes"]),
            )
            for row in kept
        ),
        words=2,
    )


def gpu_equal(rows: list[dict]) -> str:
    return table(
        ("on the GPU against NumPy", "difference", "at most"),
        (
            (row["what"], bold(row, f"{row['difference']:.2g}"), f"{row['difference_limit']:g}")
            for row in rows
            if "difference" in row
        ),
    )


def gpu_growth(rows: list[dict]) -> str:
    """As on the processor; which of n and d a point varies is told by what it keeps."""
    kept = [row for row in rows if row["case"] == "growth"]
    if not kept:
        return NOT_YET
    pictures = (shown(f"benchmarks-gpu-{vary}", f"GPU: growth with {vary}") for vary in ("n", "d"))
    return "\n\n".join([growth(growth_figures.both_ways(kept)), *pictures])


def shown(name: str, words: str) -> str:
    """A picture that is there for light and for dark pages."""
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{PICTURES}{name}-dark.svg">'
    return (
        f'<picture>\n  {dark}\n  <img src="{PICTURES}{name}-light.svg" alt="{words}">\n</picture>'
    )


def growth_pictures(_: list[dict]) -> str:
    said = {"n": "With the rows, at 512 columns:", "d": "With the columns, at 5,000 rows:"}
    alt = "Seconds and peak memory on log–log axes against"
    names = {"n": f"{alt} the number of rows", "d": f"{alt} the number of columns"}
    return "\n\n".join(f"{said[v]}\n\n{shown(f'benchmarks-{v}', names[v])}" for v in said)


# Mark → file and what is made of its rows.
TABLES = {
    "bare": ("bare", bare),
    "before": ("before", before),
    "peers": ("peers", peers),
    "growth": ("growth", growth),
    "growth-pictures": ("growth", growth_pictures),
    "streaming": ("streaming", streaming),
    "gpu-rates": ("gpu", gpu_rates),
    "gpu": ("gpu", gpu),
    "gpu-equal": ("gpu", gpu_equal),
    "gpu-growth": ("gpu", gpu_growth),
}


def page(text: str) -> str:
    """docs/evidence/benchmarks.md with what the files say between its marks."""
    text = put(text, "machines", machines())
    for mark, (name, made) in TABLES.items():
        found = load(name)
        text = put(text, mark, NOT_YET if found is None else made(found["rows"]))
    return text


def main() -> None:
    for path, made in ((EVIDENCE / "benchmarks.md", page), (EVIDENCE / "plan-1e9.md", plan.page)):
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")
    growth_figures.draw(DOCS / "pictures")


if __name__ == "__main__":
    main()
