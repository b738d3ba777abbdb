"""The log–log pictures of docs/evidence/benchmarks.md, each for a light and for a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from results import load

UNITS = {"seconds": "seconds", "megabytes": "peak memory, MB"}
AXES = {"n": "rows n, 512 columns", "d": "columns d"}
LOOKS = {
    "light": {"ink": "#1f2328", "grid": "#d0d7de", "lines": ("#0969da", "#bc4c00", "#57606a")},
    "dark": {"ink": "#e6edf3", "grid": "#30363d", "lines": ("#58a6ff", "#f0883e", "#8b949e")},
}
MARKERS = ("o", "s", "^")


def both_ways(rows: Sequence[dict]) -> list[dict]:
    """Rows of a GPU's growth, each under what it varies; where both curves meet, under both."""
    middle = max({row["n"] for row in rows}, key=lambda n: sum(row["n"] == n for row in rows))
    usual = max({row["d"] for row in rows}, key=lambda d: sum(row["d"] == d for row in rows))
    found = [{**row, "vary": "n"} for row in rows if row["d"] == usual]
    found += [{**row, "vary": "d"} for row in rows if row["n"] == middle]
    return sorted(found, key=lambda row: (row["of"], row["vary"], row["n"], row["d"]))


def draw(folder: Path) -> None:
    """Every picture whose file is there."""
    measured = load("growth")
    if measured is not None:
        for vary in AXES:
            rows = [row for row in measured["rows"] if row["vary"] == vary]
            picture(folder / f"benchmarks-{vary}", rows, vary)
    on_gpu = [row for row in (load("gpu") or {"rows": []})["rows"] if row["case"] == "growth"]
    if on_gpu:
        for vary in AXES:
            rows = [row for row in both_ways(on_gpu) if row["vary"] == vary]
            picture(folder / f"benchmarks-gpu-{vary}", rows, vary)


def picture(path: Path, rows: Sequence[dict], vary: str) -> None:
    """Seconds above memory, a column of panels for each quantity that others compute too."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    product = [row for row in rows if row["of"] == "product"]
    makers = {of: {row.get("by") for row in rows if row["of"] == of} for of in named(rows)}
    several = [of for of, by in makers.items() if len(by) > 1]
    names = several or list(makers)
    for look, colours in LOOKS.items():
        with mpl.rc_context({**settings(colours), "svg.hashsalt": path.name}):
            figure = Figure(figsize=(2.5 * len(names), 4.8), layout="constrained")
            axes = figure.subplots(2, len(names), squeeze=False, sharex=True, sharey="row")
            for place, name in enumerate(names):
                of = [row for row in rows if row["of"] == name]
                for top, what in enumerate(UNITS):
                    panel(axes[top][place], of, product, vary, what, colours["lines"])
                axes[0][place].set_title(name)
                axes[1][place].set_xlabel(AXES[vary])
                axes[0][place].legend(frameon=False, loc="lower right")
            for top, said in enumerate(UNITS.values()):
                axes[top][0].set_ylabel(said)
            kept = {"Date": None, "Creator": None}
            figure.savefig(f"{path}-{look}.svg", transparent=True, metadata=kept)


def named(rows: Sequence[dict]) -> list[str]:
    return [of for of in dict.fromkeys(row["of"] for row in rows) if of != "product"]


def panel(
    ax, rows: Sequence[dict], product: Sequence[dict], vary: str, what: str, colours: Sequence[str]
) -> None:
    """One quantity: ours, theirs, and of seconds the bare product."""
    makers = list(dict.fromkeys(row.get("by", "modgap") for row in rows))
    for place, by in enumerate(makers):
        curve = [row for row in rows if row.get("by", "modgap") == by and row[what] > 0]
        x, y = [row[vary] for row in curve], [row[what] for row in curve]
        ax.plot(x, y, marker=MARKERS[place], color=colours[place], label=by, markersize=4)
    if what == "seconds" and product:
        x, y = [row[vary] for row in product], [row[what] for row in product]
        ax.plot(x, y, "--", color=colours[2], label="the bare product", linewidth=1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.grid(True, linewidth=0.5)


def settings(colours: dict) -> dict:
    ink = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"),
        colours["ink"],
    )
    sizes = {"font.size": 8, "legend.fontsize": 6.5}
    bare = {"axes.facecolor": "none", "svg.fonttype": "none"}
    return {**ink, **sizes, **bare, "grid.color": colours["grid"]}
