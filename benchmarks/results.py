"""What the benchmarks measured, as files: the machine, the versions, the commit, and a row a case.

A record is written again after every row, so that a run that is stopped keeps what it has.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "torch")


def machine() -> dict:
    """Where a run took place."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_available()
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(gigabytes),
        "system": platform.system(),
        "python": platform.python_version(),
        "gpu": torch.cuda.get_device_name() if on_gpu else None,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit that is measured, with a + where files differ from it; None outside of git."""
    described = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(described, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def said(place: dict) -> str:
    """One line about a machine."""
    gpu = f"one {place['gpu']}, " if place["gpu"] else ""
    packages = ", ".join(f"{name} {found}" for name, found in place["packages"].items())
    return (
        f"{gpu}{place['cores']} cores of {place['processor']}, {place['memory_gib']} GiB, "
        f"{place['system']}, Python {place['python']}, {packages}"
    )


class Record:
    """The rows of one run; written to a file after each, where one is given."""

    def __init__(self, command: str, path: Path | None = None, at: str | None = None) -> None:
        self.path = path
        self.contents: dict = {
            "command": command,
            "date": str(date.today()),
            "commit": at or commit(),
            "machine": machine(),
            "rows": [],
        }

    @property
    def rows(self) -> list[dict]:
        return self.contents["rows"]

    def add(self, row: dict) -> None:
        """One more row, on file at once."""
        self.rows.append(row)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self.contents, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", encoding="utf-8")


def load(name: str) -> dict | None:
    """A record of the folder of results, None where nobody has measured it yet."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def beyond(row: dict) -> bool:
    """Whether a row is past one of its limits."""
    least, most, room = row.get("least_share"), row.get("limit"), row.get("megabytes_limit")
    return bool(
        row.get("failed")
        or (most and row["ratio"] > most)
        or (least and row["share"] < least)
        or (room and row["megabytes"] > room)
        or (row.get("seconds_limit") and row["seconds"] > row["seconds_limit"])
        or ("difference" in row and not row["difference"] <= row["difference_limit"])
    )
