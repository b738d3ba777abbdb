"""Turns of phrase that readers stumble over are refused, with better ones.

    python tools/check_words.py

It reads the docs, the README, help texts and every docstring, comment and message of the source.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ("README.md", "CONTRIBUTING.md", "docs/*.md", "src/*.py", "src/*.toml", "examples/*.py")
# Made by tools from the papers' own words.
GENERATED = ("docs/evidence/reproduction.md", "docs/evidence/claims.md")
BETTER = {
    r"goes? on (after|with)\b": "resumes after, continues with",
    r"whole or not at all": "written atomically",
    r"(?<!theorem 1 )\b(text|image|audio)s? asks?\b": "text queries, the query modality is text",
    r"\b(rows|modality|modalities) that asks?\b|\bwho asks\b": "query rows, the query modality",
    r"\bthat will be asked\b": "like those of your users",
    r"\bget ranked\b": "the metric that ranks",
    r"\bnoted in the correction\b": "stored in the correction",
    r"\bat hand already\b": "already computed",
    r"\b(nobody|somebody) looked\b": "not checked",
    r"\b(could|can) be led round\b": "can be bypassed",
    r"\bcomes? along\b": "is kept",
    r"(?<!rows that )\bstands? (several|\d+) times\b": "occurs, has copies",
    r"\bof who\b": "name the person or the thing",
    r"held apart": "kept separate, held out",
    r"what is (used|wanted|asked|meant)\b": "name the thing",
    r"\bappears? whole\b": "written atomically",
}


def main() -> int:
    """Print each place with its better words; the status is 1 where there is any."""
    listed = subprocess.run(
        ["git", "ls-files", *READ], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = 0
    for name in listed.stdout.splitlines():
        if name in GENERATED or "/reproduce/" in name or not (ROOT / name).is_file():
            continue
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            for pattern, better in BETTER.items():
                if match := re.search(pattern, line, flags=re.IGNORECASE):
                    found += 1
                    print(f"{name}:{number}: {match[0]!r}. Better: {better}.")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
