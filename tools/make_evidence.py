"""Put the verdicts on record, beside those before them, into docs/evidence/claims.md.

    python tools/make_evidence.py

evidence-before.json has the verdicts of the version that judged by one seed and one word.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from modgap.reproduce.record import recorded
from modgap.reproduce.registry import papers

HERE = Path(__file__).parent
PAGE, BEFORE = HERE.parent / "docs" / "evidence" / "claims.md", HERE / "evidence-before.json"


def rows() -> list[tuple[str, ...]]:
    """Every entry: old and new verdict, seeds, what decided, what changed and why."""
    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    found = recorded()
    return [
        (
            key,
            before[key],
            found[key].words,
            str(found[key].seeds) if found[key].seeds > 1 else "",
            found[key].decided_by,
            "; ".join(found[key].flips),
            " ".join(paper.declared[key.partition("/")[2]].get("changed", "").split()),
        )
        for paper in papers()
        for key in paper.entries
    ]


def page() -> str:
    """The table between its marks."""
    head = ("entry", "before", "now", "seeds", "decided by", "flips", "what changed, and why")
    lines = [head, ("---",) * len(head), *rows()]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def main() -> None:
    """Replace what stands between the marks, and say how many came out how."""
    text = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- verdicts: start -->\n", "<!-- verdicts: end -->"
    first, last = text.index(start) + len(start), text.index(end)
    counts = Counter(found.words for found in recorded().values())
    said = "; ".join(f"{words} {count}" for words, count in counts.most_common())
    PAGE.write_text(f"{text[:first]}{said}.\n\n{page()}\n{text[last:]}", encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
