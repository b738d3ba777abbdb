"""The benchmarks' own pages, yardsticks and fits: what they print is what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import growth
import growth_figures
import make_page
import plan
from results import FOLDER, beyond, load

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "made"), [("benchmarks.md", make_page.page), ("plan-1e9.md", plan.page)]
)
def test_the_page_says_what_the_files_of_results_say(page, made):
    text = (DOCS / "evidence" / page).read_text(encoding="utf-8")
    assert made(text) == text


def test_every_picture_of_the_page_is_there_for_light_and_dark():
    text = (DOCS / "evidence" / "benchmarks.md").read_text(encoding="utf-8")
    shown = {part.split('"')[0] for part in text.split("benchmarks-")[1:] if ".svg" in part}
    for name in shown:
        root = ET.fromstring((DOCS / "pictures" / f"benchmarks-{name}").read_text(encoding="utf-8"))
        assert root.tag.endswith("svg")


def test_every_file_of_results_says_where_when_and_what():
    for path in FOLDER.glob("*.json"):
        found = load(path.stem)
        assert found["rows"], path.name
        assert found["machine"]["cores"] > 0
        assert "/" not in found["machine"]["processor"]
        assert found["date"] >= "2026-11-16"


def test_a_row_is_beyond_its_limit_in_each_way():
    inside = {"ratio": 1.0, "limit": 1.2, "megabytes": 10.0, "megabytes_limit": 20}
    assert not beyond(inside)
    assert beyond({**inside, "ratio": 1.3})
    assert beyond({**inside, "megabytes": 21.0})
    assert beyond({"share": 0.4, "least_share": 0.5})
    assert beyond({"seconds": 1.1, "seconds_limit": 1.0})
    assert beyond({"difference": float("nan"), "difference_limit": 0.1})
    assert not beyond({"difference": 0, "difference_limit": 0})
    assert beyond({"failed": True})


def test_the_exponent_of_a_power_is_the_power():
    rows = [{"n": n, "seconds": 3e-9 * n**2 if n >= 5000 else 1.0} for n in growth.SIZES]
    assert growth.exponent(rows, "n") == pytest.approx(2.0)
    assert growth.exponent(rows[:2], "n") is None


def test_a_point_on_both_curves_of_a_gpu_is_drawn_in_both():
    grid = [(100, 512), (200, 512), (400, 512), (200, 64), (200, 128)]
    rows = [{"of": "cone", "n": n, "d": d} for n, d in grid]
    found = [(row["vary"], row["n"], row["d"]) for row in growth_figures.both_ways(rows)]
    assert found == [
        ("d", 200, 64), ("d", 200, 128), ("d", 200, 512),
        ("n", 100, 512), ("n", 200, 512), ("n", 400, 512),
    ]  # fmt: skip


def test_twice_the_machines_take_half_the_time_and_cost_the_same():
    known = dict.fromkeys(("moments-float16", "measure", "apply", "search"), 1e5)
    for step in plan.steps(known):
        assert step.hours(2) == pytest.approx(step.hours(1) / 2)
        assert step.cost(2) == pytest.approx(step.cost(1))


def peer_cases():
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("faiss", reason="faiss is not installed")
    import peer_cases

    return peer_cases.CASES


def test_what_people_use_instead_finds_the_same_numbers():
    for name, made in peer_cases().items():
        case = made(0.02)
        assert case.apart(case.ours(), case.bare()) <= case.tolerance, name


def test_the_gpu_benchmark_runs_on_a_processor_too():
    pytest.importorskip("torch", reason="torch is not installed")
    import gpu

    bench = gpu.Bench("cpu", scale=0.002, rounds=1, case_seconds=5.0)
    names = ("product", "cone", "retrieval", "robustness", "peers")
    rows = [row for name in names for row in gpu.rows_of(name, bench)]
    assert not any(row.get("failed") for row in rows)
    assert all(row["seconds"] > 0 for row in rows)
    shares = [row["share"] for row in rows if "share" in row]
    assert len(shares) == 3
    assert np.all(np.isfinite(shares))
