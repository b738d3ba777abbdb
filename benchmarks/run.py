"""Time every case in a process of its own; each row is printed, and put on file, as it is measured.

    python benchmarks/run.py [--only cone faiss] [--scale 0.2] [--rounds 5] [--save]

Ours and its yardstick run in turns after a warm-up; the ratio is of the best of each. Memory is
the peak of anonymous memory during our run above that after the inputs were loaded, so mapped
file pages do not count. ``--save`` puts the rows into benchmarks/results, from which
``python benchmarks/make_page.py`` makes benchmarks.md. ``--at COMMIT`` measures the code of
another commit, and puts the rows into a file of that name. ``--processor`` counts the processor's
seconds instead of the clock's, where other work runs beside it; set OMP_NUM_THREADS=1 with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import FOLDER, HERE, Record, beyond, said
from timing import best_seconds, peak_megabytes, seconds

GROUPS = {
    "bare": [
        "measure", "diagnose", "duplicates", "cone", "retrieval", "robustness", "moments",
        "calibrate", "search", "hub-search", "hubness", "expected-wrong", "expected-wrong-faiss",
        "expected-wrong-million", "bank", "equal-ranks", "equal-search",
    ],
    "peers": [
        "notebook", "peer-cone", "peer-uniformity", "peer-recall", "peer-loss", "peer-landscape",
        "peer-separability", "peer-divergence", "peer-sweep", "faiss", "faiss-all",
        "neighbours",
    ],
}  # fmt: skip
NAMES = [name for names in GROUPS.values() for name in names]
HEAD = "| what | against | seconds | yardstick | ratio | limit | memory | yardstick's | limit |"


def free_gigabytes() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) / 2**20
    raise RuntimeError("MemAvailable is not reported on this system")


def run_case(name: str, options: argparse.Namespace) -> dict:
    """One case: memory, then times in turns, and whether both found the same numbers."""
    if name in GROUPS["bare"]:
        from cases import CASES
    else:
        from peer_cases import CASES

    rounds, budget = options.rounds, options.case_seconds
    clock = time.process_time if options.processor else time.perf_counter
    case = CASES[name](options.scale)
    row = {"case": name, "what": case.what, "against": case.yardstick, "limit": case.limit}
    if free_gigabytes() < case.room:
        return {**row, "failed": True, "why": f"needs {case.room:.0f} GB of free memory"}
    found: dict[str, object] = {}
    row |= {
        "megabytes": peak_megabytes(lambda: found.update(ours=case.ours())),
        "megabytes_limit": case.megabytes,
    }
    runs = {"seconds": case.ours, "yardstick_s": case.bare}
    if case.once:
        row["seconds"] = best_seconds({"ours": case.ours}, rounds, budget, clock)["ours"]
        row["yardstick_megabytes"] = peak_megabytes(
            lambda: row.update(yardstick_s=seconds(lambda: found.update(theirs=case.bare())))
        )
    else:
        megabytes = peak_megabytes(lambda: found.update(theirs=case.bare()))
        row |= best_seconds(runs, rounds, budget, clock)
        if case.weighed:
            row["yardstick_megabytes"] = megabytes
    if case.apart is not None:
        row |= {
            "difference": case.apart(found["ours"], found["theirs"]),
            "difference_limit": case.tolerance,
        }
    return {**row, "ratio": row["seconds"] / row["yardstick_s"]}


def line(row: dict) -> str:
    """A row as a line of a table."""
    if row.get("failed"):
        return f"| {row['what']} | {row['against']} | {row['why']} |||||||"

    def megabytes(key: str) -> str:
        return f"{row[key]:,.0f} MB" if row.get(key) is not None else "–"

    limit = f"{row['limit']:.2f}" if row["limit"] else "–"
    return (
        f"| {row['what']} | {row['against']} | {row['seconds']:.2f} | {row['yardstick_s']:.2f} "
        f"| **{row['ratio']:.2f}** | {limit} | {megabytes('megabytes')} "
        f"| {megabytes('yardstick_megabytes')} | {megabytes('megabytes_limit')} |"
    )


def measured(name: str, options: argparse.Namespace, source: Path) -> dict:
    """The row of a case, from a process of its own."""
    command = [sys.executable, __file__, "--child", "--only", name, "--scale", str(options.scale)]
    command += ["--rounds", str(options.rounds), "--case-seconds", str(options.case_seconds)]
    command += ["--processor"] if options.processor else []
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=here)
    if done.returncode:
        why = f"ended with status {done.returncode}"
        return {"case": name, "what": name, "against": "–", "failed": True, "why": why}
    return json.loads(done.stdout.splitlines()[-1])


def code_of(commit: str, folder: str) -> Path:
    """The sources of another commit."""
    packed = subprocess.run(
        ["git", "-C", str(HERE.parent), "archive", commit, "src"], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", folder], check=True, input=packed.stdout)
    return Path(folder) / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*GROUPS, *NAMES], nargs="+", metavar="CASE")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the cases")
    parser.add_argument("--rounds", "--repeats", type=int, default=5)
    parser.add_argument("--case-seconds", type=float, default=20.0, help="for the rounds of a case")
    parser.add_argument("--processor", action="store_true", help="count the processor's seconds")
    parser.add_argument("--save", action="store_true", help="put the rows into benchmarks/results")
    parser.add_argument("--at", metavar="COMMIT", help="measure the code of another commit")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        row = run_case(options.only[0], options)
        print(json.dumps(row))
        return
    if options.save and not options.at and not {*(options.only or GROUPS)} <= {*GROUPS}:
        parser.error("--save takes whole groups: --only bare, --only peers, or all of them")
    wanted = [part for one in options.only or GROUPS for part in GROUPS.get(one, [one])]
    records = {}
    for group, names in GROUPS.items():
        file = FOLDER / f"{'before' if options.at else group}.json" if options.save else None
        if set(names) & set(wanted):
            records[group] = Record("python benchmarks/run.py", file, options.at)
    print(said(next(iter(records.values())).contents["machine"]))
    print(f"\n{HEAD}\n|---|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        source = code_of(options.at, folder) if options.at else HERE.parent / "src"
        for name in wanted:
            row = measured(name, options, source)
            row["beyond"] = beyond(row)
            group = next(group for group, names in GROUPS.items() if name in names)
            records[group].add(row)
            print(line(row), flush=True)
    over = [row["what"] for record in records.values() for row in record.rows if row["beyond"]]
    if over and options.scale == 1.0 and not options.at:
        sys.exit(f"beyond the limit: {'; '.join(over)}")


if __name__ == "__main__":
    main()
