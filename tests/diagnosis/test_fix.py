"""``fix``, the whole way: what it writes is searched in real stores and by what it wrote itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from command_line import everything_in, few_digits, modgap, script
from index_services import new_name, postgres_url, psql
from modgap import Correction, Modalities, open_embeddings, open_pair
from modgap.core.locks import sole_writer_of
from modgap.corrections import Center, Procrustes, Whiten
from modgap.corrections.calibrate import Calibrate
from modgap.diagnosis import fix
from modgap.index.sql import pgvector_sql, undo_sql
from modgap.search import search, search_corrected

pytestmark = pytest.mark.xdist_group("fix")  # a set is fixed once

FILES = {
    "diagnosis.json", "correction.safetensors", "documents-image.parquet",
    "documents-text.parquet", "example-queries-text.npy", "search.py", "pgvector.sql",
    "pgvector-undo.sql", "README.md", "report.html", "fix.json",
}  # fmt: skip


def with_gap(n=440, d=16, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, d))
    sides = [shared + 0.4 * rng.normal(size=shared.shape) + sign for sign in (2, -2)]
    return [(rows * rng.uniform(0.5, 2, size=(n, 1))).astype(np.float32) for rows in sides]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fix")
    X, Y = with_gap()
    return fix(X, Y, folder, model="made up"), folder, X, Y


@pytest.fixture(
    scope="module", params=["clip", "digits", pytest.param("unsplash", marks=pytest.mark.long)]
)
def real(request, tmp_path_factory):
    """A real set fixed: its folder, and its raw text rows."""
    if request.param == "digits":
        digits = few_digits(400)
        X, Y, groups = digits.X, digits.Y, digits.groups
    else:
        X, Y = request.getfixturevalue(f"published_{request.param}")
        groups = None
    folder = tmp_path_factory.mktemp(request.param)
    fix(X, Y, folder, groups=groups)
    return folder, X, Y


def documents(folder, correction):
    return [
        open_embeddings(folder / f"documents-{name}.parquet").rows() for name in correction.names
    ]


def exact(folder, queries, k=10):
    correction = Correction.load(folder / "correction.safetensors")
    asked = correction.apply(queries, "text", "query")
    return (
        correction,
        asked,
        search(asked, np.vstack(documents(folder, correction)), k, correction.metric)[0],
    )


def found_share(found, best):
    return np.mean(
        [len({*line} & {*wanted}) / len(wanted) for line, wanted in zip(found, best, strict=True)]
    )


def test_everything_is_written_and_named(made):
    result, folder, X, Y = made
    assert everything_in(folder) == FILES
    assert {Path(path).name for path in result.files} == FILES
    assert [d.verdict for d in result.diagnoses.values()] == ["use"]
    correction = Correction.load(folder / "correction.safetensors")
    assert correction.about["fitted_on"] == {"image": 440, "text": 440}
    assert correction.about["judged_on"] == "held-out rows"
    for name, rows in (("image", X), ("text", Y)):
        table = pq.read_table(folder / f"documents-{name}.parquet")
        stored = np.array(table["embedding"].to_pylist(), np.float32)
        np.testing.assert_array_equal(stored, correction.apply(rows, name))
    assert json.loads((folder / "diagnosis.json").read_text())["queries"] == ["text"]
    page = (folder / "report.html").read_text()
    assert json.dumps(result.diagnoses["text"].sentence)[1:-1] in page


def test_the_search_that_is_written_runs_on_raw_queries(made, tmp_path):
    _, folder, _, Y = made
    np.save(tmp_path / "queries.npy", Y[:3] * 7)  # of any length
    for words in ([], [tmp_path / "queries.npy", "-k", "4"]):
        ran = script(folder / "search.py", *words)
        assert ran.err == ""
        k = 4 if words else 10
        _, _, best = exact(folder, Y[: 3 if words else 5], k)
        lines = [line.split() for line in ran.out.splitlines() if not line.startswith("query")]
        expected = [("image", row) if row < 440 else ("text", row - 440) for row in best.ravel()]
        assert [(name, int(row)) for _, name, row, _ in lines] == expected


def test_a_folder_that_holds_anything_else_is_refused_and_left_as_it_is(made, tmp_path):
    _, folder, X, Y = made
    (tmp_path / "search.py").write_text("mine")
    with pytest.raises(ValueError, match=r"did not write \(search.py\). Choose a new"):
        fix(X, Y, tmp_path)
    assert (tmp_path / "search.py").read_text() == "mine"
    again = shutil.copytree(folder, tmp_path / "again")
    (again / "mine.txt").write_text("stays")
    before = {path.name: path.read_bytes() for path in again.iterdir()}
    with pytest.raises(ValueError, match=r"mine\.txt"):
        fix(X, Y, again)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == before


def test_a_run_that_fails_leaves_the_folder_of_the_run_before(made, tmp_path, monkeypatch):
    _, folder, X, Y = made
    shutil.copytree(folder, tmp_path / "made")
    before = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}

    def full(*_args, **_options):
        raise OSError("No space left on device")

    monkeypatch.setattr("modgap.diagnosis.fixing.pgvector_sql", full)
    with pytest.raises(OSError, match="No space"):
        fix(X[::-1], Y[::-1], tmp_path / "made", seed=1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_two_runs_into_one_folder_are_kept_apart(tmp_path):
    X, Y = with_gap(40)
    with sole_writer_of(tmp_path / "made"), pytest.raises(ValueError, match="Another process"):
        fix(X, Y, tmp_path / "made")


def test_documents_of_both_modalities_have_one_type(tmp_path):
    X, Y = with_gap(60)
    fix(X.astype(np.float16), Y, tmp_path)
    kinds = {
        pq.read_schema(tmp_path / f"documents-{name}.parquet").field("embedding").type
        for name in ("image", "text")
    }
    assert len(kinds) == 1


def test_an_earlier_runs_files_are_not_left_beside_a_verdict_to_leave_it_alone(made, tmp_path):
    shutil.copytree(made[1], tmp_path, dirs_exist_ok=True)
    shared = np.random.default_rng(1).normal(size=(440, 16))
    noisy = [shared + 0.05 * np.random.default_rng(s).normal(size=shared.shape) for s in (2, 3)]
    result = fix(*noisy, tmp_path)
    assert result.diagnoses["text"].verdict == "leave it alone"
    assert result.next_steps == ()
    assert everything_in(tmp_path) == {"diagnosis.json", "report.html", "fix.json"}


def test_without_pairs_the_correction_is_written_and_labelled(tmp_path):
    X, Y = with_gap()
    result = fix(X, Y[:300], tmp_path, paired=False)
    assert everything_in(tmp_path) == FILES
    assert (
        "balances the modalities; too few pairs to test relevance"
        in result.diagnoses["text"].sentence
    )
    about = Correction.load(tmp_path / "correction.safetensors").about
    assert about["judged_on"] == "balances the modalities; too few pairs to test relevance"


def test_the_command_says_which_file_is_which_and_what_the_correction_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in zip(("image", "text"), with_gap(), strict=True):
        np.save(f"{name}.npy", rows)
    ran = modgap("fix", "image.npy", "text.npy", "-o", "fixed")
    assert ran.status == 0, ran.err
    assert ran.err.startswith("modgap: image is image.npy, text is text.npy\n")
    assert everything_in(tmp_path / "fixed") == FILES
    assert "fitted on  440 image and 440 text rows" in ran.out
    assert "the saved file was refitted on all data" in " ".join(ran.out.split())
    correction = Correction.load(tmp_path / "fixed" / "correction.safetensors")
    assert str(correction) in ran.out


@pytest.mark.parametrize("stacked", [True, False])
def test_the_next_command_names_the_file_of_both_or_no_file(tmp_path, monkeypatch, stacked):
    monkeypatch.chdir(tmp_path)
    X, Y = with_gap(60)
    np.save("both.npy", np.stack([X, Y]))
    data = open_pair("both.npy") if stacked else Modalities.of(X, Y)
    steps = fix(data, None, "fixed").next_steps
    build = next(step for step in steps if "modgap index build" in step)
    assert build.endswith("both.npy" if stacked else "image=image.npy text=text.npy")


def test_a_file_of_both_modalities_is_named_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y = with_gap()
    np.save("both.npy", np.stack([X, Y[::-1]]))
    ran = modgap("fix", "both.npy", "-o", "fixed")
    assert ran.err.startswith("modgap: image and text are in both.npy\nmodgap: The image and text")


def test_queries_of_another_modality_are_pointed_out_by_the_search(made, tmp_path):
    _, folder, X, _ = made
    np.save(tmp_path / "wrong.npy", X)
    command = [sys.executable, folder / "search.py", tmp_path / "wrong.npy", "-k", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr.startswith("search.py: warning: The text rows")
    missing = subprocess.run([*command[:2], "no.npy"], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)


# --- The written documents in real stores, at default settings -----------------------------------


def test_the_documents_in_faiss(real):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    folder, _, Y = real
    queries = Y[::3]
    correction, asked, best = exact(folder, queries)
    sides = [rows.astype(np.float32) for rows in documents(folder, correction)]
    asked = asked.astype(np.float32)
    if correction.metric == "cosine":
        for rows in (*sides, asked):
            faiss.normalize_L2(rows)
    whole = np.vstack(sides)
    for index in (
        faiss.IndexFlatIP(whole.shape[1]),
        faiss.IndexHNSWFlat(whole.shape[1], 32, faiss.METRIC_INNER_PRODUCT),
    ):
        index.add(whole)
        assert found_share(index.search(asked, 10)[1], best) >= 0.97


def test_the_sql_corrects_a_table_and_searches_its_graphs(real):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder, X, Y = real
    correction = Correction.load(folder / "correction.safetensors")
    held = dict(zip(correction.names, documents(folder, correction), strict=True))
    hits = search_corrected(correction, Y[:60], held, 10)
    best = [
        [place(name, int(row), len(X)) for name, row in zip(*line, strict=True)]
        for line in zip(hits.modalities, hits.ids, strict=True)
    ]
    table = new_name()
    sql = (folder / "pgvector.sql").read_text().replace("items", table)
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        fill(connection, table, X, Y)
        psql(sql)
        connection.execute("SET enable_seqscan = off")  # so small a table would not use its graphs
        found = [
            [place(name, int(row), len(X)) for row, name, *_ in connection.execute(
                "SELECT * FROM search_by_text(%s::vector, 10)", (as_text(query),)
            )]
            for query in Y[:60]
        ]  # fmt: skip
        psql((folder / "pgvector-undo.sql").read_text().replace("items", table))
        connection.execute(f"DROP TABLE {table}")
    assert found_share(found, best) >= 0.97


def fill(connection, table, X, Y):
    connection.execute(f"CREATE TABLE {table} (id int, modality text, embedding vector)")
    connection.execute(f"ALTER TABLE {table} ALTER COLUMN embedding TYPE vector({X.shape[1]})")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for name, rows in (("image", X), ("text", Y)):
            for number, row in enumerate(rows):
                copy.write_row((number, name, as_text(row)))


def as_text(row):
    return "[" + ",".join(map(str, row.tolist())) + "]"


def place(name, row, n):
    return row + (n if name == "text" else 0)


@pytest.mark.parametrize(
    "corrector",
    [Calibrate(), Calibrate("mixed"), Calibrate(form="blocks"), Center(), Whiten(), Procrustes()],
    ids=lambda one: one.label,
)
def test_sql_stores_what_the_correction_gives_for_every_kind_of_map(corrector):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    X, Y = with_gap(40, 8)
    correction = corrector.fit(X, Y).correction_
    table = new_name()
    sql = pgvector_sql({"text": correction}, table=table)
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        fill(connection, table, X, Y)
        psql(sql)
        psql(sql)  # again changes nothing
        for name, rows in (("image", X), ("text", Y)):
            stored = connection.execute(
                f"SELECT embedding_corrected::real[] FROM {table} WHERE modality = %s ORDER BY id",
                (name,),
            ).fetchall()
            stored = np.array([row[0] for row in stored])
            np.testing.assert_allclose(
                stored[:, : correction.dim_out], correction.apply(rows, name), atol=2e-5
            )
            if stored.shape[1] > correction.dim_out:  # one more, so that all are equally long
                lengths = np.linalg.norm(stored, axis=1)
                np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)
        found = connection.execute(
            "SELECT * FROM search_by_text(%s::vector, 5)", (as_text(Y[0]),)
        ).fetchall()
        psql(undo_sql({"text": correction}, table=table))
        connection.execute(f"DROP TABLE {table}")
    asked = correction.apply(Y[:1], "text", "query")
    whole = np.vstack([correction.apply(X, "image"), correction.apply(Y, "text")])
    rows, scores = search(asked, whole, 5, correction.metric)
    assert [place(name, int(row), 40) for row, name, _ in found] == rows[0].tolist()
    np.testing.assert_allclose([s for _, _, s in found], scores[0], rtol=1e-3, atol=1e-4)
