"""Searches whose result lists exported files merge, and the answers of each of these files."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import strategies as st

from modgap.corrections import Calibrate, Correction, ExpectedWrong
from modgap.corrections.background import FewQueriesWarning
from modgap.exports import export_correction
from modgap.search import Hits, merge, merge_corrected, search, search_corrected

NAMES = ("image", "it's \\ a text")
ROOT = Path(__file__).parents[1]
# Id, list, score, and expected wrong results where they are merged by; a list for each query.
Answers = list[list[Sequence[Any]]]


@dataclass(frozen=True, repr=False)
class Case:
    """Queries, the hits of each list, best first, and modgap's answer."""

    correction: Correction
    documents: Mapping[str, np.ndarray]
    queries: np.ndarray
    lists: Mapping[str, tuple[np.ndarray, np.ndarray]]
    k: int
    at_most: float | None
    hits: Hits

    @property
    def asking(self) -> str:
        """The modality of the queries."""
        return [*self.documents][1]

    @property
    def by_e(self) -> bool:
        return self.correction.background is not None

    def of_query(self, query: int) -> dict[str, tuple[list[str], list[float]]]:
        """Ids and scores of each list, as a service has them."""
        return {
            name: ([f"d{key}" for key in ids[query]], scores[query].tolist())
            for name, (ids, scores) in self.lists.items()
        }

    def check_all(self, answers: Answers) -> None:
        """Every query has modgap's results."""
        assert len(answers) == len(self.queries)
        for query, found in enumerate(answers):
            self.check(query, found)

    def check(self, query: int, found: Sequence[Sequence[Any]]) -> None:
        """Order is modgap's, scores are so to 1e-5."""
        held = self.hits.kept(self.hits.ids != None)  # noqa: E711
        there = np.isfinite(held.scores[query])
        wanted = [f"d{key}" for key in held.ids[query][there]]
        assert [(hit[0], hit[1]) for hit in found] == [
            *zip(wanted, held.modalities[query][there], strict=True)
        ]
        scores = held.scores[query][there].astype(float)
        np.testing.assert_allclose([hit[2] for hit in found], scores, rtol=1e-5, atol=1e-5)
        if self.by_e:
            expected = held.expected_wrong[query][there].astype(float)
            np.testing.assert_allclose([hit[3] for hit in found], expected, rtol=1e-5)


def _rows(seed: int, n: int, foreign: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    topic = rng.normal(size=(n, d))
    X, Y, asked = (topic + 0.4 * rng.normal(size=(n, d)) + side for side in (1.0, -1.0, -1.0))
    return np.vstack([X, rng.normal(size=(foreign, d)) * 0.6 + 1.5]), Y, asked[:4]


def expected_wrong_case(
    seed: int, n: int, foreign: int, d: int, hubs: float, k: int, at_most: float | None
) -> Case:
    """Lists of corrected documents, merged by expected wrong results."""
    X, Y, queries = _rows(seed, n, foreign, d)
    documents = dict(zip(NAMES, (X, Y), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewQueriesWarning)
        correction = ExpectedWrong(hubs).fit(documents, queries=NAMES[1]).correction_
    stored = {name: correction.apply(rows, name) for name, rows in documents.items()}
    asked = correction.apply(queries, NAMES[1], "query")
    lists = {
        name: search(asked, rows, max(k, 30), "inner_product") for name, rows in stored.items()
    }
    if at_most is not None:
        at_most = max(at_most, 1.001 * 2 * correction.background.least)
    hits = merge(lists, k, correction.background, at_most=at_most)
    exact = search_corrected(correction, queries, stored, k, at_most=at_most)
    np.testing.assert_array_equal(exact.ids, hits.ids)
    return Case(correction, documents, queries, lists, k, at_most, hits)


def calibrated_case(
    seed: int, n: int, d: int, form: str, unit: bool, k: int, names: tuple[str, str] = NAMES
) -> Case:
    """Lists of raw documents, merged by calibrated scores."""
    X, Y, queries = _rows(seed, n, 0, d)
    documents = dict(zip(names, (X, Y), strict=True))
    rows = "unit" if unit else "given"
    fit = Calibrate(form=form).fit(
        documents, queries=names[1] if form == "single" else None, rows=rows
    )
    metric = "cosine" if unit else "inner_product"
    lists = {name: search(queries, held, k, metric) for name, held in documents.items()}
    hits = merge_corrected(fit.correction_, queries, names[1], lists, k)
    return Case(fit.correction_, documents, queries, lists, k, None, hits)


def flat(lists: dict) -> tuple[list[str], list[str], list[float]]:
    """The hits of all lists as three arrays."""
    every = [
        (key, name, score)
        for name, found in lists.items()
        for key, score in zip(*found, strict=True)
    ]
    ids, names, scores = zip(*every, strict=True)
    return list(ids), list(names), list(scores)


def of_numpy(case: Case) -> dict[str, Any]:
    """What the exported Python file defines."""
    names: dict[str, Any] = {}
    text = export_correction(case.correction, "numpy", case.asking)
    exec(compile(text, "merge.py", "exec"), names)
    return names


def numpy_answers(case: Case) -> Answers:
    defined, lists = of_numpy(case), [case.of_query(query) for query in range(len(case.queries))]
    if case.by_e:
        merge = defined["merge_by_expected_wrong"]
        return [merge(one, case.k, case.at_most) for one in lists]
    merge = defined["merge_calibrated"]
    return [merge(row, one, case.k) for row, one in zip(case.queries, lists, strict=True)]


def json_answers(case: Case) -> Answers:
    """What the page says of the numbers, one hit after the other."""
    numbers = json.loads(export_correction(case.correction, "json", case.asking))
    by_hand = _expected_wrong_by_hand if case.by_e else _calibrated_by_hand
    return [
        by_hand(numbers, row, case.of_query(query))[: case.k]
        for query, row in enumerate(case.queries)
    ]


def _calibrated_by_hand(numbers: dict[str, Any], query: np.ndarray, lists: dict) -> list[tuple]:
    hits = []
    for name, (ids, scores) in lists.items():
        held = numbers["lists"][name]
        length = np.linalg.norm(query) if numbers["unit_queries"] else 1
        level = query @ held["mean"] / length
        hits += [(key, name, (s - level) / held["spread"]) for key, s in zip(ids, scores)]  # noqa: B905
    return sorted(hits, key=lambda hit: -hit[2])


def _expected_wrong_by_hand(numbers: dict[str, Any], query: np.ndarray, lists: dict) -> list[tuple]:
    hits = []
    for name, (ids, scores) in lists.items():
        bank, better = numbers["lists"][name], 0.0
        r = bank["places"]
        if len(scores) < r:
            r = max(min(6, len(scores)), len(scores) // 2)
        usual = slope = bank["usual_slope"]
        if r >= 4:
            rise = sum(scores[i - 1] - scores[r - 1] for i in range(4, r + 1))
            slope = rise / sum(math.log(r / (i - 0.5)) for i in range(4, r + 1))
        for key, score in zip(ids, scores, strict=True):
            u = (score - scores[r - 1]) / math.sqrt(max(slope, 0.01 * usual) * usual)
            e = math.exp(np.interp(u, bank["heights"], bank["log_expected"]))
            held = max(e, 1e-30)
            hits.append((held * (1 + 0.05 * better), (key, name, score, len(lists) * e)))
            better += 1 / held
    return [hit for _, hit in sorted(hits, key=lambda one: one[0])]


# By the target of the export, and whether lists are merged by expected wrong results.
_CALLS = {
    ("sql", True): "SELECT * FROM merge_by_expected_wrong(%s, %s, %s, %s, %s)",
    ("sql", False): "SELECT * FROM merge_calibrated(%s, %s, %s, %s, %s)",
    ("duckdb", True): "FROM merge_by_expected_wrong($1, $2, $3, k := $4, at_most := $5)",
    ("duckdb", False): "FROM merge_calibrated($1, $2, $3, $4, k := $5)",
}


def sql_answers(case: Case, to: Literal["sql", "duckdb"], connection: Any) -> Answers:
    connection.execute(export_correction(case.correction, to, case.asking))
    answers = []
    for query, row in enumerate(case.queries.tolist()):
        held = flat(case.of_query(query))
        values = [*held, case.k, case.at_most] if case.by_e else [row, *held, case.k]
        answers.append(connection.execute(_CALLS[to, case.by_e], values).fetchall())
    return answers


# Each case has a module of its own and a file of queries and lists.
_RUN = """\
const fs = require("fs");
const answers = [];
const cases = JSON.parse(fs.readFileSync("cases.json", "utf8"));
for (const { file, name, queries, k, atMost } of cases) {
  const merge = require("./" + file)[name];
  answers.push(queries.map(({ query, lists }) => {
    const hits = query === null ? merge(lists, k, atMost ?? undefined) : merge(query, lists, k);
    return hits.map((hit) => [hit.id, hit.list, hit.score, hit.expectedWrong]);
  }));
}
console.log(JSON.stringify(answers));
"""


def typescript_compiler() -> str:
    held = ROOT / ".venv-integrations" / "node_modules" / ".bin" / "tsc"
    found = str(held) if held.exists() else shutil.which("tsc")
    if found is None or shutil.which("node") is None:
        pytest.skip("Node or TypeScript is not installed: npm install typescript")
    return found


def typescript_answers(cases: Sequence[Case], folder: Path) -> list[Answers]:
    """Those of each case: all files are compiled at once, strictly, and run."""
    written = []
    for place, case in enumerate(cases):
        text = export_correction(case.correction, "typescript", case.asking)
        (folder / f"case{place}.ts").write_text(text, encoding="utf-8")
        asked = [
            {
                "query": None if case.by_e else row,
                "lists": {
                    name: [{"id": key, "score": s} for key, s in zip(*found, strict=True)]
                    for name, found in case.of_query(query).items()
                },
            }
            for query, row in enumerate(case.queries.tolist())
        ]
        name = "mergeByExpectedWrong" if case.by_e else "mergeCalibrated"
        written.append(
            {"file": f"case{place}.js", "name": name, "queries": asked, "k": case.k,
             "atMost": case.at_most}
        )  # fmt: skip
    (folder / "cases.json").write_text(json.dumps(written))
    (folder / "run.js").write_text(_RUN)
    strict = ["--strict", "--target", "es2020", "--module", "commonjs", "--noUnusedLocals"]
    files = [f"case{place}.ts" for place in range(len(cases))]
    compiled = subprocess.run(
        [typescript_compiler(), *strict, *files],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.stdout + compiled.stderr == ""
    ran = subprocess.run(["node", "run.js"], cwd=folder, capture_output=True, text=True, check=True)
    found: list[Answers] = json.loads(ran.stdout)
    return found


SEEDS = st.integers(0, 2**32 - 1)
EXPECTED_WRONG = st.builds(
    expected_wrong_case,
    seed=SEEDS,
    n=st.integers(25, 90),
    foreign=st.integers(0, 60),
    d=st.integers(4, 20),
    hubs=st.sampled_from([0.0, 0.25]),
    k=st.integers(1, 50),
    at_most=st.none() | st.floats(0.2, 50),
)


def calibrated_cases(names: tuple[str, str]) -> st.SearchStrategy[Case]:
    return st.builds(
        calibrated_case,
        seed=SEEDS,
        n=st.integers(25, 90),
        d=st.integers(4, 20),
        form=st.sampled_from(["single", "blocks", "compromise"]),
        unit=st.booleans(),
        k=st.integers(1, 50),
        names=st.just(names),
    )


CALIBRATED = calibrated_cases(NAMES)
