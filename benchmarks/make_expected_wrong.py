"""Puts what expected_wrong.py measured into the tables of docs/evidence/expected-wrong.md.

python benchmarks/make_expected_wrong.py
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np

from expected_wrong import ESC50, RATIOS
from hubs import interval
from make_page import table
from mixed import write_into
from results import FOLDER

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "expected-wrong.md"
ENOUGH = 100  # queries of a bank
MATCH = ("least E", "best cosine", "all", "found with a match", "found without")
SHOWN = (
    "raw", "GR-CLIP", "RRF", "min-max", "DBSF", "list z", "softmax", "keep", "keep, of the index",
    "keep with hubs", "by E, no hubs", "by E", "by E, hubs ½", "by E, weighted",
    "by E, no bank",
)  # fmt: skip


def load(name: str) -> dict:
    file = FOLDER / f"expected-wrong-{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))["rows"]


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def of_cases(found: dict, cases: list[str], head: list[str], excess: bool) -> str:
    """NDCG@10 of rivals by case, and how much by E gains on each, with its interval."""
    lines = []
    for rival in SHOWN:
        cells = []
        for case in cases:
            ndcg, own = np.nanmean(found[case][rival], axis=0)
            cells.append(short(ndcg) + (f" ({own:+.2f})" if excess else ""))
        gains = np.mean(
            [np.subtract(found[c]["by E"], found[c][rival])[:, 0] for c in cases], axis=0
        )
        lines.append([rival, *cells, "" if rival == "by E" else interval(gains)])
    return table(["", *head, "by E less it"], lines)


def foreign_tables() -> dict[str, str]:
    found = load("foreign")
    labels = list(dict.fromkeys(case.split(": ")[1] for case in found if "both" in case))
    tables = {}
    for each in (1, 4):
        cases = [f"both kinds, {each} an item: {label}" for label in labels]
        tables[f"both-{each}"] = of_cases(found, cases, labels, excess=False)
    cases = [f"one kind, {who} queries: {label}" for who in ("text", "image")
             for label in ("none", "4,000 + 1,000")]  # fmt: skip
    head = [f"{who} queries, {what}" for who in ("text", "image") for what in ("alone", "among")]
    tables["one-kind"] = of_cases(found, cases, head, excess=True)
    return tables


def recommended_table() -> str:
    """What ``diagnose`` recommends in each mixture beside the best of all ways, on the mean."""
    found, rivals, lines = load("recommended"), load("foreign"), []
    for case, figures in found.items():
        values = np.array(figures["recommended"])[:, 0]
        means = {way: np.mean(rivals[case][way], axis=0)[0] for way in SHOWN}
        best = max(means, key=lambda way: means[way])
        gains = values - np.array(rivals[case][best])[: len(values), 0]
        methods = Counter(figures["methods"]).most_common()
        chosen = ", ".join(f"`{way}` {n}" for way, n in methods)
        beside = f"{short(means[best])} ({best})"
        lines.append([case.split(", ")[1], short(values.mean()), beside, interval(gains), chosen])
    return table(["", "recommended", "the best way", "difference", "what was recommended"], lines)


def alone_table() -> str:
    """Means over asking directions: sets at 1:1, then all but ESC-50 at each ratio."""
    found = load("alone")
    titles = list(dict.fromkeys(case.split(", ", 1)[1].rsplit(", ", 1)[0] for case in found))
    shown = [one for one in SHOWN if one != "keep, of the index"]

    def mean(ratio: str, chosen: list[str], rival: str, kinds: tuple[str, ...]) -> str:
        values = [
            np.nanmean(found[case][rival], axis=0)[0]
            for title in chosen
            for kind in kinds
            if (case := f"{ratio}, {title}, {kind}") in found
        ]
        return short(np.mean(values))

    def gain(chosen: list[str], rival: str) -> str:
        if rival == "by E":
            return ""
        cases = [f"1:1, {title}, {kind}" for title in chosen for kind in across]
        return interval(np.mean([
            np.subtract(found[case]["by E"], found[case][rival])[:, 0] for case in cases
        ], axis=0))  # fmt: skip

    across, rest = ("text", "image"), [title for title in titles if title != ESC50]
    lines = [[title, *(mean("1:1", [title], one, across) for one in shown)] for title in titles]
    lines.append(["**mean, 1:1**", *(mean("1:1", titles, one, across) for one in shown)])
    lines.append(["by E less it", *(gain(titles, one) for one in shown)])
    for ratio in RATIOS:
        for what, kinds in (("", across), (", answers of both kinds", ("both kinds",))):
            name = f"**mean without ESC-50, {ratio}{what}**"
            lines.append([name, *(mean(ratio, rest, one, kinds) for one in shown)])
            if ratio == "1:1" and kinds == across:
                lines.append(["by E less it", *(gain(rest, one) for one in shown)])
    return table(["", *shown], lines)


def asked_tables() -> dict[str, str]:
    found, lines, enough = load("asked"), [], {"by E": [], "by E, a log": [], "by E, no bank": []}
    asked = np.array([0.5, 1, 5])

    def ratios(figures: dict, way: str) -> np.ndarray:
        return np.mean(figures[way], axis=0)[:, 0] / asked

    for title, figures in found.items():
        cells = [f"{int(np.max(figures['bank']))}"]
        for way, values in enough.items():
            cells.append(" / ".join(f"{one:.2f}" for one in ratios(figures, way)))
            if np.max(figures["bank"]) >= ENOUGH:
                values.append(ratios(figures, way))
        for way in (
            "by E",
            "flat cosine, bank's tail",
            "query z, bank's tail",
            "calibrated on pairs",
        ):
            known = way in figures
            cells.append(short(np.mean(figures[way], axis=0)[1, 1]) if known else "–")
        lines.append([title, *cells])
    means = [" / ".join(f"{x:.2f}" for x in np.mean(values, axis=0)) for values in enough.values()]
    lines.append([f"**mean, banks of {ENOUGH} and more**", "", *means, "", "", "", ""])
    head = ["got / asked at E = .5 / 1 / 5", "bank", "clean bank", "a log", "no bank",
            "recall at E = 1", "flat cosine", "query z", "calibrated"]  # fmt: skip
    return {"asked": table(head, lines)}


def match_table() -> str:
    found, lines = load("match"), []
    for what in ("match removed", "match removed, a log", "foreign topic"):
        cases = [v for k, v in found.items() if k.startswith(f"{what}:")]
        values = np.array([[np.mean(v[s]) for s in MATCH] for v in cases]).mean(axis=0)
        auroc, passed = map(short, values[:3]), (f"{100 * value:.0f} %" for value in values[3:])
        lines.append([f"{what}, mean of {len(cases)}", *auroc, *passed])
    head = ["AUROC", "least E", "best cosine", "all, as in `at_most`",
            "`at_most=1` finds something, with a match", "without"]  # fmt: skip
    return table(head, lines)


def bank_table() -> str:
    lines = []
    for name, figures in load("bank").items():
        if name.startswith("size"):
            got = np.array(figures["got / asked"])
            low, high = np.quantile(got, (0.05, 0.95), axis=0)
            cells = [
                f"{m:.2f} ({a:.2f}–{b:.2f})" for m, a, b in zip(got.mean(0), low, high, strict=True)
            ]
            lines.append([name.split()[1], *cells])
    return table(["bank", "E = .5", "E = 1", "E = 5"], lines)


def hubs_table() -> str:
    lines, every = [], []
    for title, figures in load("hubs").items():
        taken = np.array(figures["taken"])
        weights = np.array(figures["weight"])
        shares = " / ".join(f"{np.mean(weights == w):.2f}" for w in (0.5, 0.25))
        half = short(np.mean(figures["half"], axis=0)[0])
        lines.append([title, shares, *(f"{x:+.3f}" for x in taken.mean(axis=0)),
                      *(f"{x:+.3f}" for x in taken.min(axis=0)), half])  # fmt: skip
        every.append(taken.mean(axis=0))
    lines.append(["**mean**", "", *(f"{x:+.3f}" for x in np.mean(every, axis=0)), "", "", "", ""])
    head = ["", "taken ½ / ¼", "recall@1", "recall@10", "NDCG@10", "worst split: recall@1",
            "recall@10", "NDCG@10", "recall@1 with ½ always"]  # fmt: skip
    return table(head, lines)


def tables() -> dict[str, str]:
    """All tables of the page, by name."""
    others = {"recommended": recommended_table, "alone": alone_table, "match": match_table,
              "bank": bank_table, "hubs": hubs_table}  # fmt: skip
    return foreign_tables() | asked_tables() | {name: make() for name, make in others.items()}


def main() -> None:
    for name, content in tables().items():
        write_into(PAGE, name, content)


if __name__ == "__main__":
    main()
