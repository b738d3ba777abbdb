"""The plan for 10⁹ vectors: bytes, passes, time and cost, computed from measured rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mixed import put
from results import load

N, D, QUERIES = 10**9, 512, 10_000
# What is assumed, not measured; the page shows these with the formulas.
CORES, MACHINES = 64, (1, 8)
NETWORK = 3e9  # bytes a second from the store to one machine
CORE_HOUR, GPU_HOUR, GB_MONTH = 0.05, 4.0, 0.02


@dataclass(frozen=True)
class Step:
    """One step: the bytes that it reads and writes, and the seconds of one core in all."""

    name: str
    read: float
    written: float
    core_seconds: float

    def hours(self, machines: int) -> float:
        """The slower of moving the bytes and computing on them, spread over the machines."""
        moving = (self.read + self.written) / NETWORK
        return max(moving, self.core_seconds / CORES) / machines / 3600

    def cost(self, machines: int) -> float:
        return self.hours(machines) * machines * CORES * CORE_HOUR


def rates() -> dict[str, float] | None:
    """What one core does in a second, by name; bytes are of the whole machine."""
    found = load("rates")
    if found is None:
        return None
    cores = found["machine"]["cores"]
    return {
        row["case"]: row["rate"] / (1 if row["of"] in ("bytes", "runs") else cores)
        for row in found["rows"]
    }


def steps(known: dict[str, float], bytes_each: int = 2) -> Iterator[Step]:
    """The way of the data: measured and fitted in one pass, corrected in another, evaluated."""
    size = float(N * D * bytes_each)
    kind = {2: "float16", 4: "float32"}[bytes_each]
    yield Step("measure and fit: moments in one pass", size, 0, N / known[f"moments-{kind}"])
    yield Step("a sample of 20,000 pairs for what is quadratic", 0, 0, 2 / known["measure"])
    yield Step("apply: correct every row", size, size, N / known["apply"])
    scores = float(N) * QUERIES
    yield Step(
        f"evaluate: the 10 nearest of {QUERIES:,} held-out queries",
        size,
        0,
        scores / known["search"],
    )


def gpu_rate() -> float | None:
    """Scores a second of exact retrieval on the GPU, both ways counted once."""
    found = load("gpu")
    rows = [] if found is None else found["rows"]
    for row in rows:
        if row["case"] == "retrieval" and "seconds" in row:
            return row["n"] ** 2 / row["seconds"]
    return None


def measured() -> str:
    found = load("rates")
    if found is None:
        return "*Not measured yet.*"
    lines = ["| what | a second | of |", "|---|--:|---|"]
    lines += [f"| {row['what']} | {rounded(row['rate'])} | {row['of']} |" for row in found["rows"]]
    on_gpu = gpu_rate()
    if on_gpu is not None:
        lines.append(f"| exact retrieval both ways on the GPU | {rounded(on_gpu)} | scores |")
    return "\n".join(lines)


def rounded(rate: float) -> str:
    """Three digits, written out.

    >>> rounded(2245123.4), rounded(0.07786)
    ('2,250,000', '0.0779')
    """
    short = f"{rate:.3g}"
    return f"{float(short):,.0f}" if rate >= 100 else short


def planned() -> str:
    known = rates()
    if known is None:
        return "*Not measured yet.*"
    one, many = MACHINES
    lines = [
        f"| step | read | written | core hours | hours, {one} machine | hours, {many} | cost |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    every = list(steps(known))
    for step in every:
        lines.append(
            f"| {step.name} | {step.read / 1e12:.2f} TB | {step.written / 1e12:.2f} TB "
            f"| {step.core_seconds / 3600:,.1f} | {step.hours(one):,.2f} | {step.hours(many):,.2f} "
            f"| ${step.cost(one):,.2f} |"
        )
    lines.append(
        f"| **all** | {sum(s.read for s in every) / 1e12:.2f} TB "
        f"| {sum(s.written for s in every) / 1e12:.2f} TB "
        f"| {sum(s.core_seconds for s in every) / 3600:,.1f} "
        f"| **{sum(s.hours(one) for s in every):,.2f}** | {sum(s.hours(many) for s in every):,.2f} "
        f"| **${sum(s.cost(one) for s in every):,.2f}** |"
    )
    return "\n".join(lines)


def on_gpu() -> str:
    """The one step that a GPU shortens."""
    rate = gpu_rate()
    if rate is None:
        return "*Not measured yet.*"
    computing, moving = N * QUERIES / rate, N * D * 2 / NETWORK
    hours = max(computing, moving) / 3600
    return (
        f"On one GPU the {N * QUERIES:.0e} scores take {computing:,.0f} s at the measured rate, "
        f"and the rows {moving:,.0f} s to arrive at {NETWORK / 1e9:.0f} GB/s: {hours:,.2f} hours, "
        f"${hours * GPU_HOUR:,.2f} at ${GPU_HOUR:.2f} an hour."
    ).replace("1e+13", "10¹³")


def assumed() -> str:
    stored = N * D * 2 / 1e9
    return "\n".join(
        [
            "| assumed | value |",
            "|---|--:|",
            f"| vectors N, columns d, bytes a number b | {N:,}, {D}, 2 |",
            f"| held-out queries q | {QUERIES:,} |",
            f"| cores of a machine c | {CORES} |",
            f"| bytes a second from the store to a machine w | {NETWORK:,.0f} |",
            f"| price of a core hour p | ${CORE_HOUR:.2f} |",
            f"| price of a GPU hour | ${GPU_HOUR:.2f} |",
            f"| price of a GB a month in the store | ${GB_MONTH:.2f} |",
            f"| so: keeping the rows a month, {stored:,.0f} GB | ${stored * GB_MONTH:,.2f} |",
        ]
    )


def page(text: str) -> str:
    """docs/evidence/plan-1e9.md with what the files say between its marks."""
    for mark, made in (
        ("rates", measured),
        ("assumed", assumed),
        ("planned", planned),
        ("on-gpu", on_gpu),
    ):
        text = put(text, mark, made())
    return text
