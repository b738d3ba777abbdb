"""Time modgap on a GPU against the float32 products it cannot do without.

    python benchmarks/gpu.py [--only cone] [--scale 0.1] [--device cuda] [--json FILE]

Products are in float32, TF32 off. The rate is the best of the bare products of the first case;
a share is the time that the products of a case take at that rate, over ours. The best of several
runs counts, after a warm-up. A case that would take longer than ``--case-seconds`` at its full size
is measured at a smaller one, and says so. Memory is the card's, above the inputs. Needs torch and
what modgap itself needs, nothing else; fails beyond a limit at the full scale on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modgap.arrays import like
from modgap.evaluation import Gaussian, retrieval, robustness
from modgap.measures import cone, loss_terms, measure, uniformity
from results import Record, beyond, said
from timing import best_seconds, peak_gpu_megabytes, peak_megabytes, seconds

BLOCK = 16_384
AMOUNTS = np.linspace(-1, 1, 21)
SIZES = (12_500, 25_000, 50_000, 100_000, 200_000, 400_000)
DIMENSIONS = (64, 128, 256, 512, 1024, 2048)


@dataclass
class Bench:
    """What the cases share: the device, how much smaller than meant, and the rate once known."""

    device: str
    scale: float
    rounds: int
    case_seconds: float
    rate: float | None = None

    def size(self, n: int) -> int:
        return max(64, round(n * self.scale))

    def rows(self, n: int, d: int, seed: int) -> torch.Tensor:
        generator = torch.Generator(device=self.device).manual_seed(seed)
        made = torch.randn(n, d, generator=generator, device=self.device)
        return torch.nn.functional.normalize(made + 0.5, dim=1)

    def pairs(self, n: int, d: int = 512) -> tuple[torch.Tensor, torch.Tensor]:
        X = self.rows(n, d, 0)
        made = X + 0.5 * self.rows(n, d, 1)
        return X, torch.nn.functional.normalize(made, dim=1)

    def peak(self, run: Callable[[], object]) -> float:
        return peak_gpu_megabytes(run) if self.device == "cuda" else peak_megabytes(run)

    def affordable(self, n: int, prepare: Callable[[int], Callable[[], object]]) -> int:
        """n, or less where a run on an eighth says that n × n would take too long."""
        few = max(64, n // 8)
        run = prepare(few)
        run()
        expected = seconds(run) * (n / few) ** 2
        # A warm-up and two runs at the least.
        allowed = self.case_seconds / 3
        return n if expected <= allowed else max(64, round(n * (allowed / expected) ** 0.5))

    def time(self, ours: Callable[[], object], bare: Callable[[], object] | None = None) -> dict:
        """Seconds and memory of ours, and the seconds of its yardstick, in turns."""
        start = time.perf_counter()
        megabytes = self.peak(ours)
        runs = {"seconds": ours}
        if bare is not None:
            bare()
            runs["yardstick_s"] = bare
        left = self.case_seconds - (time.perf_counter() - start)
        found = best_seconds(runs, self.rounds, left)
        if bare is not None:
            found["ratio"] = found["seconds"] / found["yardstick_s"]
        return {**found, "megabytes": megabytes}

    def share(self, flops: float, took: float) -> dict:
        """The share of the product rate, where that was measured."""
        if self.rate is None:
            return {}
        return {"tflops": flops / took / 1e12, "share": flops / took / self.rate}


def blocked_product(A: torch.Tensor, B: torch.Tensor, half: bool = False) -> None:
    """A Bᵀ block by block, none of it kept; of A Aᵀ the blocks on and above the diagonal."""
    for i in range(0, len(A), BLOCK):
        for j in range(i if half else 0, len(B), BLOCK):
            A[i : i + BLOCK] @ B[j : j + BLOCK].T


def product_case(bench: Bench) -> Iterator[dict]:
    """The rate of bare products, by the shape of the block."""
    for n, m in ((4_096, 4_096), (8_192, 8_192), (16_384, 16_384), (10_000, 1_000)):
        n, m = bench.size(n), bench.size(m)
        A, B = bench.rows(n, 512, 0), bench.rows(m, 512, 1)
        flops = 2.0 * n * m * 512
        # Many in a row: one alone is over in less than its launch takes.
        times = max(1, round(bench.scale * 2e12 / flops))

        def products(A=A, B=B, times=times) -> None:
            out = torch.empty(len(A), len(B), device=A.device)
            for _ in range(times):
                torch.matmul(A, B.T, out=out)

        products()
        took = best_seconds({"products": products}, bench.rounds, bench.case_seconds)["products"]
        rate = flops * times / took
        bench.rate = max(rate, bench.rate or 0.0)
        row = {"what": f"product, {n:,} × {m:,} × 512, float32", "n": n, "m": m, "d": 512}
        yield {**row, "seconds": took / times, "tflops": rate / 1e12}


def quadratic(
    bench: Bench,
    name: str,
    n: int,
    ours: Callable[..., object],
    *,
    half: bool,
    one_side: bool,
    least_share: float,
) -> dict:
    """A measure of n × n cosines against its bare product, both in turns."""

    def prepare(n: int) -> Callable[[], object]:
        given = bench.pairs(n)[: 1 if one_side else 2]
        return lambda: ours(*given)

    n = bench.affordable(n, prepare)
    given = bench.pairs(n)[: 1 if one_side else 2]
    bare = "its half product" if half else "its product"
    row = {"what": f"{name}, {n:,} × 512", "against": f"{bare}, in blocks of {BLOCK:,}", "n": n}
    found = bench.time(
        lambda: ours(*given), lambda: blocked_product(given[0], given[-1], half=half)
    )
    flops = (1.0 if half else 2.0) * n * n * 512
    shares = bench.share(flops, found["seconds"])
    return {**row, "d": 512, **found, **shares, "least_share": least_share if shares else None}


def cone_case(bench: Bench) -> Iterator[dict]:
    n = bench.size(200_000)
    yield quadratic(bench, "cone", n, cone, half=True, one_side=True, least_share=0.5)


def retrieval_case(bench: Bench) -> Iterator[dict]:
    n = bench.size(200_000)
    name = "exact retrieval both ways"
    yield quadratic(bench, name, n, retrieval, half=False, one_side=False, least_share=0.5)


def robustness_case(bench: Bench) -> Iterator[dict]:
    draws, n, m = max(2, round(100 * bench.scale)), bench.size(10_000), bench.size(1_000)
    Q, C = bench.rows(n, 512, 0), bench.rows(m, 512, 1)

    def products() -> None:
        for _ in range(draws):
            Q @ C.T

    found = bench.time(
        lambda: robustness(Q, C, Gaussian(0.1), draws=draws, amounts=AMOUNTS), products
    )
    shares = bench.share(2.0 * n * m * 512 * draws, found["seconds"])
    what = f"robustness, {draws} draws × 21 amounts, {n:,} × {m:,} × 512"
    row = {"what": what, "against": f"its {draws} products", "n": n, "m": m, "d": 512}
    yield {**row, **found, **shares, "least_share": 0.25 if shares else None}


def measure_case(bench: Bench) -> Iterator[dict]:
    n = bench.size(20_000)
    X, Y = bench.pairs(n)

    def products() -> None:
        for A, B in ((X, Y), (X, X), (Y, Y)):
            blocked_product(A, B)

    found = bench.time(lambda: measure(X, Y), products)
    row = {"what": f"measure, {n:,} pairs × 512", "against": "its three products", "n": n}
    yield {**row, "d": 512, **found, "seconds_limit": 1.0}


def full_matrix_uniformity(X: torch.Tensor) -> float:
    """Wang and Isola 2020, sec. 4.2: every distance at once, then the mean of the potentials."""
    return float(torch.pdist(X).square().mul(-2).exp().mean().log())


def full_matrix_recall(X: torch.Tensor, Y: torch.Tensor) -> float:
    """Recall@5 of the rows of X among those of Y from the matrix of all scores, both ways."""
    scores = X @ Y.T
    own = torch.arange(len(X), device=X.device)[:, None]
    found = [(part.topk(5, dim=1).indices == own).any(dim=1) for part in (scores, scores.T)]
    return float(torch.stack(found).float().mean())


def peers_case(bench: Bench) -> Iterator[dict]:
    """The same on the card with full matrices, which is what people write."""
    n = bench.size(30_000)
    X, Y = bench.pairs(n)
    for name, ours, theirs, against in (
        ("uniformity", lambda: uniformity(X), lambda: full_matrix_uniformity(X), "torch.pdist"),
        (
            "recall both ways",
            lambda: retrieval(X, Y),
            lambda: full_matrix_recall(X, Y),
            "all scores, then topk",
        ),
    ):
        found = bench.time(ours, theirs)
        row = {"what": f"{name}, {n:,} × 512", "against": f"{against}, on the same device"}
        yield {**row, "n": n, "d": 512, **found, "yardstick_megabytes": bench.peak(theirs)}


def growth_case(bench: Bench) -> Iterator[dict]:
    """Seconds by n at d = 512, and by d at 50,000 rows."""
    measures = {"cone": (cone, 1), "retrieval": (retrieval, 2), "loss": (loss_terms, 2)}
    for name, (ours, sides) in measures.items():
        spent, last = 0.0, 0.0
        grid = [(bench.size(n), 512) for n in SIZES]
        grid += [(bench.size(50_000), d) for d in DIMENSIONS if d != 512]
        for n, d in grid:
            if spent + 2 * 4 * last > bench.case_seconds and (n, d) in grid[: len(SIZES)]:
                continue
            given = bench.pairs(n, d)[:sides]
            run = lambda ours=ours, given=given: ours(*given)  # noqa: E731
            start = time.perf_counter()
            megabytes = bench.peak(run)
            last = best_seconds({"ours": run}, 1)["ours"]
            spent += time.perf_counter() - start
            what = f"growth of {name}, {n:,} × {d:,}"
            yield {
                "what": what,
                "of": name,
                "n": n,
                "d": d,
                "seconds": last,
                "megabytes": megabytes,
            }


class NumpyNoise:
    """Normal noise of NumPy on any device, which draws other numbers itself."""

    def perturb(self, candidates: Any, rng: np.random.Generator) -> Any:
        drawn = 0.1 * rng.standard_normal(tuple(candidates.shape), dtype=np.float32)
        return candidates + like(drawn, candidates)


def equal_case(bench: Bench) -> Iterator[dict]:
    """Results on the device beside those of NumPy on the processor, on fewer rows."""
    X, Y = bench.pairs(4_000)
    here = X.cpu().numpy(), Y.cpu().numpy()
    ranks = [(found.ranks_x, found.ranks_y) for found in (retrieval(X, Y), retrieval(*here))]
    changed = sum(int(np.sum(a != b)) for a, b in zip(*ranks, strict=True))
    yield different("ranks that differ, 4,000 × 4,000", changed, 0)
    shares = [
        robustness(Q, C, NumpyNoise(), draws=5, amounts=AMOUNTS).kept
        for Q, C in ((X, Y[:1000]), (here[0], here[1][:1000]))
    ]
    changed, of = int(np.sum(shares[0] != shares[1])), shares[0].size
    # Two candidates may be as near to a query as rounding can tell.
    yield different(f"neighbours kept that differ, of {of:,}", changed, of // 10_000)
    found = [dict(numbers(measure(*given, seed=0).to_dict())) for given in ((X, Y), here)]
    quartiles = ("cone.q1", "cone.median", "cone.q3")
    for name, limit, keys in (
        ("measure", 1e-5, [key for key in found[1] if not key.endswith(quartiles)]),
        ("its quartiles", 1e-4, [key for key in found[1] if key.endswith(quartiles)]),
    ):
        worst = max(keys, key=lambda key: apart(found[0].get(key), found[1][key]))
        what = f"{len(keys)} numbers of {name}, 4,000 pairs: largest difference ({worst})"
        yield different(what, apart(found[0].get(worst), found[1][worst]), limit)


def different(what: str, difference: float, limit: float) -> dict:
    return {"what": what, "difference": difference, "difference_limit": limit}


def numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a nested result, under its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from numbers(item, f"{path}[{place}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def apart(a: float | None, b: float) -> float:
    """Difference of two numbers, relative to the second where that is above 1."""
    return float("inf") if a is None else abs(a - b) / max(1.0, abs(b))


CASES = {
    "product": product_case,
    "cone": cone_case,
    "retrieval": retrieval_case,
    "robustness": robustness_case,
    "measure": measure_case,
    "equal": equal_case,
    "peers": peers_case,
    "growth": growth_case,
}


def printed(row: dict) -> str:
    """One line about a row."""
    parts = [row["what"]]
    if "difference" in row:
        parts.append(f"{row['difference']:.3g}")
    if "seconds" in row:
        parts.append(f"{row['seconds']:.4g} s")
    if row.get("yardstick_s"):
        parts.append(f"{row['ratio']:.2f} × {row['against']} ({row['yardstick_s']:.4g} s)")
    if row.get("tflops"):
        parts.append(f"{row['tflops']:.1f} TFLOP/s")
    if row.get("share"):
        least = f" (at least {row['least_share']})" if row.get("least_share") else ""
        parts.append(f"{row['share']:.2f} of the rate{least}")
    if "megabytes" in row:
        parts.append(f"{row['megabytes']:,.0f} MB")
    return " · ".join(parts) + (" · BEYOND ITS LIMIT" if row.get("beyond") else "")


def rows_of(name: str, bench: Bench) -> Iterator[dict]:
    """The rows of a case; one that fails says so in a row, and the next case has its turn."""
    try:
        yield from CASES[name](bench)
    except Exception as error:
        traceback.print_exc()
        yield {"what": f"{name} failed: {type(error).__name__}", "failed": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES, nargs="+")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case-seconds", type=float, default=25.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="write the rows to this file as they come")
    parser.add_argument("--commit", help="what is measured, in a copy that git does not know")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(options.device, options.scale, options.rounds, options.case_seconds)
    record = Record("make bench-gpu", options.json, options.commit)
    print(said(record.contents["machine"]), flush=True)
    began = time.perf_counter()
    for name in options.only or CASES:
        for row in rows_of(name, bench):
            row = {"case": name, **row}
            row["beyond"] = beyond(row)
            record.add(row)
            print(printed(row), flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()
    print(f"{time.perf_counter() - began:.0f} s in all", flush=True)
    over = [row["what"] for row in record.rows if row["beyond"]]
    if over and options.scale == 1.0 and options.device == "cuda":
        sys.exit(f"beyond the limit: {'; '.join(over)}")


if __name__ == "__main__":
    main()
