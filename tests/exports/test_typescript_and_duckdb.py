"""Exported TypeScript is compiled and run, and macros run in DuckDB: modgap's order and scores."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exported import CALIBRATED, EXPECTED_WRONG, NAMES, flat
from modgap.exports import export_correction

pytestmark = pytest.mark.integrations
ROOT = Path(__file__).parents[2]
FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
# Each case has a module of its own and a file of queries and lists.
RUN = """\
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


def compiler() -> str:
    held = ROOT / ".venv-integrations" / "node_modules" / ".bin" / "tsc"
    found = str(held) if held.exists() else shutil.which("tsc")
    if found is None or shutil.which("node") is None:
        pytest.skip("Node or TypeScript is not installed: npm install typescript")
    return found


@settings(FEW, max_examples=1)
@given(st.tuples(*[EXPECTED_WRONG] * 6), st.tuples(*[CALIBRATED] * 6))
def test_typescript_compiles_strictly_and_merges_as_modgap_does(tmp_path_factory, by_e, calibrated):
    tsc, folder = compiler(), tmp_path_factory.mktemp("typescript")
    cases = [*by_e, *calibrated]
    written = []
    for place, case in enumerate(cases):
        text = export_correction(case.correction, "typescript", NAMES[1])
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
    (folder / "run.js").write_text(RUN)
    strict = ["--strict", "--target", "es2020", "--module", "commonjs", "--noUnusedLocals"]
    files = [f"case{place}.ts" for place in range(len(cases))]
    compiled = subprocess.run(
        [tsc, *strict, *files], cwd=folder, capture_output=True, text=True, check=False
    )
    assert compiled.stdout + compiled.stderr == ""
    ran = subprocess.run(["node", "run.js"], cwd=folder, capture_output=True, text=True, check=True)
    for case, answers in zip(cases, json.loads(ran.stdout), strict=True):
        for query, found in enumerate(answers):
            case.check(query, found)


@FEW
@given(EXPECTED_WRONG, CALIBRATED)
def test_duckdb_merges_as_modgap_does(by_e, calibrated):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with duckdb.connect() as connection:
        for case in (by_e, calibrated):
            connection.execute(export_correction(case.correction, "duckdb", NAMES[1]))
        for query in range(len(by_e.queries)):
            found = connection.execute(
                "FROM merge_by_expected_wrong($1, $2, $3, k := $4, at_most := $5)",
                [*flat(by_e.of_query(query)), by_e.k, by_e.at_most],
            ).fetchall()
            by_e.check(query, found)
        for query, row in enumerate(calibrated.queries.tolist()):
            found = connection.execute(
                "FROM merge_calibrated($1, $2, $3, $4, k := $5)",
                [row, *flat(calibrated.of_query(query)), calibrated.k],
            ).fetchall()
            calibrated.check(query, found)
