"""Put the verdicts on record, beside those before them, into docs/evidence/claims.md.

    python tools/make_evidence.py

evidence-before.json has two verdicts of each entry: of the version that judged by one seed and in
one word, and of the one that ran one reading of each paper and knew no premises.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from modgap.reproduce.paper import one_line
from modgap.reproduce.record import recorded
from modgap.reproduce.registry import papers

HERE = Path(__file__).parent
VERDICTS = (
    "entry", "claim", "first", "before", "now", "by reading of the paper", "premises", "seeds",
    "decided by", "flips", "what changed, and why",
)  # fmt: skip
PAGE, BEFORE = HERE.parent / "docs" / "evidence" / "claims.md", HERE / "evidence-before.json"


def rows() -> list[tuple[str, ...]]:
    """Every entry: old and new verdict, seeds, what decided, what changed and why."""
    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    found = recorded()
    return [
        (
            key,
            entry.claim,
            *before[key],
            found[key].words,
            found[key].readings,
            "; ".join(found[key].premises),
            str(found[key].seeds) if found[key].seeds > 1 else "",
            found[key].decided_by,
            "; ".join(found[key].flips),
            one_line(paper.declared[key.partition("/")[2]].get("changed", "")),
        )
        for paper in papers()
        for key, entry in paper.entries.items()
    ]


def bounds() -> list[tuple[str, ...]]:
    """Bounds chosen anew from the papers' text: the text, the bound before and now."""
    return [
        (key, *(one_line(bound[name]) for name in ("text", "before", "now")))
        for paper in papers()
        for key in paper.entries
        for bound in paper.declared[key.partition("/")[2]].get("bounds", ())
    ]


def table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in (head, ("---",) * len(head), *lines)
    )


def fill(page: Path, made: dict[str, str]) -> None:
    """Replace what stands between the marks of each name."""
    text = page.read_text(encoding="utf-8")
    for name, block in made.items():
        start = text.index(f"<!-- {name}: start -->\n") + len(f"<!-- {name}: start -->\n")
        text = f"{text[:start]}{block}\n{text[text.index(f'<!-- {name}: end -->') :]}"
    page.write_text(text, encoding="utf-8")
    print(f"wrote {page}")


def main() -> None:
    """Write the verdicts, with how many came out how, and the bounds."""
    counts = Counter(found.words for found in recorded().values())
    said = "; ".join(f"{words} {count}" for words, count in counts.most_common())
    made = {
        "verdicts": f"{said}.\n\n{table(VERDICTS, rows())}",
        "bounds": table(("entry", "the paper says", "bound before", "bound now"), bounds()),
    }
    fill(PAGE, made)


if __name__ == "__main__":
    main()
