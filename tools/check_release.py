"""What must hold before a release: ``make release-check`` runs this on the files in dist.

The version is written in ``src/modgap/_version.py``; the changelog and CITATION.cff repeat it.
The wheel is installed in an empty environment, and its demo runs there. Prints both sizes.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION: str = runpy.run_path(str(ROOT / "src" / "modgap" / "_version.py"))["__version__"]


def check_words(tag: str | None) -> None:
    """The changelog, CITATION.cff and the tag name the version of the source."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (newest, date), *_ = re.findall(r"^## (\S+) — (\S+)$", changelog, flags=re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.findall(r"^version: (\S+)$", citation, flags=re.MULTILINE)
    if not newest == VERSION == cited[0]:
        sys.exit(
            f"The source is version {VERSION}, CHANGELOG.md begins with {newest} and CITATION.cff "
            f"names {cited[0]}. Write the same version in all three."
        )
    if tag is not None and (tag != f"v{VERSION}" or date == "unreleased"):
        sys.exit(
            f"The tag {tag} releases version {VERSION}, dated {date} in CHANGELOG.md. Name the tag "
            f"v{VERSION}, and write the day of the release in CHANGELOG.md."
        )


def check_wheel(wheel: Path) -> None:
    """The wheel alone, with what it requires, runs the demo."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "env")
        venv.create(home, with_pip=True)
        programs = home / ("Scripts" if sysconfig.get_platform().startswith("win") else "bin")
        before = size(home)
        pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q")
        run(*pip, wheel, folder=folder)
        installed = size(home) - before
        said = run(programs / "modgap", "--version", folder=folder)
        if said.split() != ["modgap", VERSION]:
            sys.exit(f"The wheel calls itself {said.strip()}, the source is version {VERSION}.")
        print(run(programs / "modgap", "demo", "-o", "demo", folder=folder).splitlines()[-1])
        if not Path(folder, "demo", "report.html").is_file():
            sys.exit("The demo of the wheel wrote no page.")
        print(f"wheel {wheel.stat().st_size / 1e6:.1f} MB, installed {installed / 1e6:.0f} MB")


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(*words: str | Path, folder: str) -> str:
    """What a command prints; the check ends with its words where it fails."""
    ran = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{Path(words[0]).name} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    folder, *tag = sys.argv[1:]
    check_words(tag[0] if tag and tag[0] else None)
    (wheel,) = Path(folder).glob("*.whl")
    check_wheel(wheel.resolve())
    print(f"modgap {VERSION} can be released")
