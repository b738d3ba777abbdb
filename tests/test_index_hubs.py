"""Corrections with hubs wherever vectors live: stored and found as ``correction.apply`` gives."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

from index_services import (
    LIBRARIES,
    make_store,
    modgap,
    new_name,
    postgres_url,
    rows,
)
from modgap import Embeddings, Modalities, fuse
from modgap._validate import InputValueError
from modgap.corrections import (
    Calibrate,
    Correction,
    OwnQueriesWarning,
    own_keys,
)
from modgap.diagnosis.scripts import readme, search_script
from modgap.index import FaissIndex, add_column, evaluate_index, open_index
from modgap.index.lifting import lift_documents, lift_queries, lifted_lengths
from modgap.index.notes import fingerprint
from modgap.index.sql import pgvector_sql
from modgap.io import write_embeddings
from modgap.search import merge, search

X, Y = rows()
N = len(X)
HUBS = Calibrate(hubs=0.5, neighbours=5)
GROUPS = np.arange(N) // 2
IDS = [f"no {i}" for i in range(N)]
DATA = {
    "row": Modalities.of(X, Y),
    "own row": Modalities.of(X, Y, paired=False),
    "id": Modalities.of(*(Embeddings.from_array(one, ids=IDS) for one in (X, Y))),
    "group": Modalities.of(
        *(Embeddings.from_array(one, groups=GROUPS) for one in (X, Y)), groups=(GROUPS, GROUPS)
    ),
}
KEYED = {name: HUBS.fit(data).correction_ for name, data in DATA.items()}
FOREIGN = HUBS.fit(X, Y, bank=Y[::-1] * 1.01).correction_  # unlabelled: no keys


@pytest.fixture(params=sorted(LIBRARIES))
def store(request, tmp_path):
    return make_store(request.param, tmp_path)


def stored(correction, data, name):
    """Every document as it must be stored."""
    side = data.sides[name]
    keys = None if correction.hubs.keys is None else data.keys_of(name)
    return correction.apply(side.rows(), name, keys=keys)


def ranked(hits, correction, data, queries, k):
    """The hits are those of an exact search over the stored vectors."""
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    asked = correction.apply(queries, "text", "query")
    _, scores = search(asked, whole, k, "inner_product")
    np.testing.assert_allclose(hits.scores, scores, atol=1e-5 * np.abs(scores).max())


def test_the_fitted_keys_say_what_they_are_made_from():
    assert {name: one.hubs.keyed_by for name, one in KEYED.items()} == {n: n for n in DATA}
    assert FOREIGN.hubs.keys is None
    columns = {n: stored(c, DATA[n], "image")[:, -1] for n, c in KEYED.items()}
    assert np.abs(columns["row"] - columns["own row"]).max() > 0.01  # an image's own text counts
    np.testing.assert_array_equal(columns["row"], columns["id"])


@pytest.mark.parametrize("name", [*DATA, "foreign"])
def test_every_store_ranks_as_exact_search_over_what_the_correction_gives(store, name):
    correction, data = KEYED.get(name, FOREIGN), DATA.get(name, DATA["row"])
    with store.open(correction, create=True, batch_rows=16) as index:
        index.write_all(data.sides)
    with store.open(correction) as index:
        assert index.vectors["embedding"].dim == 9
        ranked(index.search(Y[:7] * 3, k=9), correction, data, Y[:7], 9)
        assert evaluate_index(index, data.sides, sample=20).recall == {"text": 1.0}
        one = index.search(Y[3], "text", 4, only="image")
        assert set(one.modalities.ravel()) == {"image"}


def test_rows_that_come_later_and_rows_after_a_kill_have_their_own_numbers(store):
    correction, data = KEYED["row"], DATA["row"]
    with store.open(correction, create=True) as index:
        index.write(X[:30], "image")
        index.write(X[30:50], "image")
    with contextlib.suppress(KeyboardInterrupt), store.open(correction, batch_rows=8) as index:

        def cut(step, done, total):
            if done >= 8 and store.kind != "faiss":  # which has nothing on disk until the end
                raise KeyboardInterrupt

        index.write(X[50:], "image", progress=cut)
    gc.collect()
    with contextlib.suppress(InputValueError), store.open(correction, create=True) as index:
        index.write(X[50:], "image")
    gc.collect()
    with store.open(correction) as index:
        index.write(Y, "text")
        assert index.count() == 2 * N
    with store.open(correction) as index:
        ranked(index.search(Y[:9], k=12), correction, data, Y[:9], 12)


@pytest.mark.parametrize("kind", ["faiss", "pgvector", "lance"])
def test_graphs_rank_as_exact_search_does(tmp_path, kind):
    place, correction = make_store(kind, tmp_path), KEYED["id"]
    options = {"factory": "HNSW16,Flat"} if kind == "faiss" else {"ef_search": 200}
    with place.open(correction, create=True, **options) as index:
        index.write_all(DATA["id"].sides)
    with place.open(correction, ef_search=200) as index:
        assert index.vectors["embedding"].dim == 10
        ranked(index.search(Y[:7], k=9), correction, DATA["id"], Y[:7], 9)


def test_lifted_rows_are_equally_long_and_scores_stay():
    for mode in ("keep", "mixed"):
        correction = Calibrate(mode, hubs=0.75).fit(X, Y).correction_
        lengths = lifted_lengths(correction)
        for name, given in (("image", X), ("text", Y)):
            documents = stored(correction, DATA["row"], name)
            lifted = lift_documents(documents, lengths[name])
            assert np.ptp(np.linalg.norm(lifted, axis=1)) < 1e-4 * lengths[name]
            asked = correction.apply(given, "text", "query")
            np.testing.assert_allclose(
                lift_queries(asked) @ lifted.T, asked @ documents.T, atol=1e-4
            )
            plain = lifted_lengths(Calibrate("keep").fit(X, Y).correction_)[name]
            assert mode == "mixed" or plain < lengths[name] < 1.26 * plain


@pytest.mark.parametrize("mode", ["keep", "mixed"])
@pytest.mark.parametrize("factory", ["Flat", "HNSW16,Flat"])
def test_plain_faiss_appends_the_one_to_raw_queries(tmp_path, mode, factory):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    correction = Calibrate(mode, hubs=0.5).fit(X, Y).correction_
    only = None if factory == "Flat" else "image"
    with FaissIndex(tmp_path / "x.faiss", correction, factory=factory).open(create=True) as index:
        index.write(X, "image", ids=np.arange(N) + 1000)
        index.export(tmp_path / "plain.index", "text", only=only)
        hits = index.search(Y[:6], "text", 5)
    scores, ids = faiss.read_index(str(tmp_path / "plain.index")).search(3 * Y[:6], 5)
    np.testing.assert_array_equal(ids, hits.ids)
    np.testing.assert_allclose(scores, hits.scores, rtol=1e-4, atol=1e-4)


def test_without_its_bank_a_correction_searches_and_stores_nothing(store, tmp_path):
    correction = KEYED["row"]
    correction.save(tmp_path / "whole.safetensors")
    correction.save(tmp_path / "bare.safetensors", bank=False)
    bare = Correction.load(tmp_path / "bare.safetensors")
    with store.open(tmp_path / "whole.safetensors", create=True) as index:
        index.write_all(DATA["row"].sides)
    gc.collect()
    with store.open(bare) as index:
        ranked(index.search(Y[:7], k=9), correction, DATA["row"], Y[:7], 9)
        with pytest.raises(InputValueError, match="bank of queries was removed from this") as said:
            index.write(X[:3], "image", ids=[900, 901, 902])
        assert "\n" not in str(said.value)
        with pytest.raises(InputValueError, match="bank of queries was removed"):
            evaluate_index(index, DATA["row"].sides)
        assert index.count() == 2 * N
    gc.collect()
    with (
        pytest.raises(InputValueError, match="bank of queries was removed"),
        store.open(bare, create=True, replace=True) as index,
    ):
        index.write(X, "image")
    gc.collect()
    with store.open(correction) as index:
        assert index.count() == 2 * N


def test_another_weight_count_or_bank_is_another_correction(tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    others = {
        "plain": Calibrate().fit(X, Y).correction_,
        "weight": Calibrate(hubs=0.25, neighbours=5).fit(X, Y).correction_,
        "neighbours": Calibrate(hubs=0.5, neighbours=6).fit(X, Y).correction_,
        "bank": FOREIGN,
        "keys": KEYED["id"],
    }
    marks = {fingerprint(one) for one in (KEYED["row"], *others.values())}
    assert len(marks) == 1 + len(others)
    with open_index(tmp_path / "x.faiss", KEYED["row"], create=True) as index:
        index.write(X, "image")
    for name, one in others.items():
        with pytest.raises(InputValueError, match="built with another correction"):
            open_index(tmp_path / "x.faiss", one)
        if name in ("weight", "neighbours"):
            with pytest.raises(InputValueError, match="built with another correction"):
                open_index(tmp_path / "x.faiss", one.without_bank())


def test_rows_that_do_not_say_whose_they_are_are_pointed_out():
    for name, what in (("id", "no ids"), ("group", "no labels of groups")):
        with pytest.warns(OwnQueriesWarning, match=f"The image rows have {what}"):
            assert own_keys(KEYED[name], Embeddings.of(X, "image"), "image") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_keys(FOREIGN, Embeddings.of(X, "image"), "image") is None
        later = own_keys(KEYED["row"], Embeddings.of(X[:3], "image"), "image", first_row=7)
    assert later.tolist() == [7, 8, 9]


# --- PostgreSQL: a column of a table that is there, and SQL alone ---------------------------------


def make_table(connection, data, key="id {kind}, modality text, PRIMARY KEY (modality, id)"):
    table = new_name()
    kind = "int" if data.keyed_by != "id" else "text"
    connection.execute(
        f"CREATE TABLE {table} ({key.format(kind=kind)}, label int, embedding vector(8))"
    )
    with connection.cursor().copy(
        f"COPY {table} (id, modality, label, embedding) FROM STDIN"
    ) as copy:
        for name, side in data.sides.items():
            names = range(side.n_rows) if side.ids is None else side.ids
            labels = [0] * side.n_rows if side.groups is None else side.groups
            for one, label, row in zip(names, labels, side.rows().tolist(), strict=True):
                copy.write_row((str(one), name, int(label), str(row)))
    return table


def held(connection, table, column, data, name):
    """The vectors of a modality in the order of its rows."""
    found = dict(
        connection.execute(
            f"SELECT id::text, {column}::real[] FROM {table} WHERE modality = %s", (name,)
        ).fetchall()
    )
    side = data.sides[name]
    return np.array([found[str(i)] for i in (range(side.n_rows) if side.ids is None else side.ids)])


@pytest.mark.parametrize("name", DATA)
def test_a_new_column_of_a_table_leaves_a_rows_own_queries_out(name):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    url, correction, data = postgres_url(), KEYED[name], DATA[name]
    with psycopg.connect(url, autocommit=True) as connection:
        table = make_table(connection, data)
        own = {"group": "label", "id": None}.get(name, "id")
        assert add_column(url, table, correction, group_column=own, batch_rows=33) == 2 * N
        for side in data.names:
            np.testing.assert_allclose(
                held(connection, table, "embedding_corrected", data, side),
                stored(correction, data, side),
                atol=1e-5,
            )
        with open_index(url, correction.without_bank(), table=table) as index:
            ranked(index.search(Y[:5], "text", 6), correction, data, Y[:5], 6)
        with pytest.raises(InputValueError, match="bank of queries was removed"):
            add_column(url, table, correction.without_bank(), new_column="other")
        if name == "group":
            with pytest.warns(OwnQueriesWarning, match="nothing says the group that the row had"):
                add_column(url, table, correction, new_column="without")
        if name == "row":
            with pytest.warns(OwnQueriesWarning, match="'id' is taken as the number"):
                add_column(url, table, correction, new_column="without")
        connection.execute(f"DROP TABLE {table}")


@pytest.mark.parametrize("mode", ["keep", "mixed"])
@pytest.mark.parametrize("name", [*DATA, "foreign"])
def test_sql_stores_and_finds_what_the_correction_gives(name, mode):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    data = DATA.get(name, DATA["row"])
    bank = Y[::-1] * 1.01 if name == "foreign" else None
    correction = Calibrate(mode, hubs=0.5, neighbours=5).fit(data, bank=bank).correction_
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        table = make_table(connection, data)
        sql = pgvector_sql({"text": correction}, table=table, group_column="label")
        connection.execute(sql)
        connection.execute(sql)  # again changes nothing
        for side in data.names:
            np.testing.assert_allclose(
                held(connection, table, "embedding_text", data, side)[:, :9],
                stored(correction, data, side),
                atol=2e-5,
            )
        found = connection.execute(
            "SELECT * FROM search_by_text(%s::vector, 6)", (str(Y[4].tolist()),)
        ).fetchall()
        connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP TABLE modgap_bank")
    whole = np.vstack([stored(correction, data, side) for side in data.names])
    _, scores = search(correction.apply(Y[4:5], "text", "query"), whole, 6, "inner_product")
    np.testing.assert_allclose([score for *_, score in found], scores[0], rtol=1e-4)


def test_sql_of_a_large_bank_has_few_digits_and_says_what_is_shorter(monkeypatch):
    sql = pgvector_sql({"text": KEYED["row"]})
    (line,) = [one for one in sql.splitlines() if one.startswith("    ('embedding_text', 0, '[")]
    numbers = line.partition("[")[2].partition("]")[0].split(",")
    np.testing.assert_array_equal(
        np.array(numbers, dtype=np.float16), KEYED["row"].hubs.bank[0], strict=True
    )
    assert max(map(len, numbers)) <= 9
    assert "-- 80 queries. Those of a document's own row number (taken to be id, from 0)" in sql
    assert "own group stay in" in pgvector_sql({"text": KEYED["group"]})
    monkeypatch.setattr("modgap.index.sql._LARGE", 1000)
    assert pgvector_sql({"text": KEYED["row"]}).startswith("-- This file is 0 MB, most of it")
    with pytest.raises(InputValueError, match="bank of queries was removed"):
        pgvector_sql({"text": KEYED["row"].without_bank()})


# --- More than two modalities -----------------------------------------------------------------


def three():
    return {"image": X, "text": Y, "fused": fuse(X[:40], Y[:40])}


@pytest.mark.parametrize("hubs", [0.0, 0.5])
def test_three_modalities_are_built_searched_and_checked_from_the_command_line(
    store, tmp_path, hubs
):
    correction = Calibrate(hubs=hubs).fit(three()).correction_
    correction.save(tmp_path / "c.safetensors")
    for name, one in three().items():
        np.save(tmp_path / f"{name}.npy", one)
    table = ["--table", store.options["table"]] if store.options else []
    documents = [f"{name}={tmp_path / name}.npy" for name in three()]
    common = (store.address, tmp_path / "c.safetensors")
    built = modgap("index", "build", *common, *documents, *table)
    assert "holds 200 documents" in built.stderr
    asking = (tmp_path / "text.npy", "-k", "6", "--json")
    found = json.loads(modgap("index", "search", *common, *asking, *table).stdout)
    data = Modalities.of(three(), paired=False)
    asked = correction.apply(Y, "text", "query")
    whole = np.vstack(
        [
            correction.apply(rows_, name, keys=own_keys(correction, data.sides[name], name))
            for name, rows_ in three().items()
        ]
    )
    _, scores = search(asked, whole, 6, "inner_product")
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-4, atol=1e-5)
    checked = json.loads(modgap("index", "evaluate", *common, *documents, "--json", *table).stdout)
    assert checked["recall"] == {"text": 1.0}
    assert checked["corpus_share"] == {"image": 0.4, "text": 0.4, "fused": 0.2}


def test_sql_of_three_modalities_finds_what_exact_search_does():
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    data = Modalities.of(three(), paired=False)
    correction = HUBS.fit(data).correction_
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        table = make_table(connection, data)
        connection.execute(pgvector_sql({"text": correction}, table=table))
        found = connection.execute(
            "SELECT * FROM search_by_text(%s::vector, 9)", (str(Y[4].tolist()),)
        ).fetchall()
        connection.execute(f"DROP TABLE {table}")
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    _, scores = search(correction.apply(Y[4:5], "text", "query"), whole, 9, "inner_product")
    np.testing.assert_allclose([score for *_, score in found], scores[0], rtol=1e-4)
    assert {name for _, name, _ in found} <= set(data.names)


def test_the_search_that_fix_writes_needs_no_bank_and_takes_any_number_of_modalities(tmp_path):
    data = Modalities.of(three(), paired=False)
    correction = HUBS.fit(data).correction_
    correction.save(tmp_path / "correction.safetensors", bank=False)
    for name in data.names:
        documents = stored(correction, data, name)
        write_embeddings(tmp_path / f"documents-{name}.parquet", documents)
    np.save(tmp_path / "example-queries-text.npy", Y[:3])
    (tmp_path / "search.py").write_text(search_script({"text": correction}), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, tmp_path / "search.py", "-k", "4"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [line.split() for line in ran.stdout.splitlines() if not line.startswith("query")]
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    keys = [(n, str(i)) for n in data.names for i in range(data.sides[n].n_rows)]
    best, _ = search(correction.apply(Y[:3], "text", "query"), whole, 4, "inner_product")
    assert [(name, row) for _, name, row, _ in found] == [keys[i] for i in best.ravel()]


def test_the_page_beside_the_files_says_where_the_bank_is():
    whole, bare = KEYED["row"], KEYED["row"].without_bank()
    names = ("image", "text")
    said = readme({"text": whole}, names)
    assert "bank of 80 queries" in said
    assert "The correction and `pgvector.sql` carry the bank" in said
    without = readme({"text": bare}, names)
    assert "pgvector.sql" not in without
    assert "# a new one" not in without
    assert "The bank was left out of these files" in without
    assert "bank" not in readme({"text": Calibrate().fit(X, Y).correction_}, names)


def test_hubs_cannot_be_merged_from_raw_searches():
    hits = (np.zeros((1, 2), int), np.zeros((1, 2)))
    with pytest.raises(InputValueError, match=r"hubs changes rankings .*Store corrected vectors"):
        merge(KEYED["row"], Y[:1], "text", {"image": hits}, 2)


# --- Files from the command line ------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "image.npy", X)
    np.save(folder / "text.npy", Y)
    np.save(folder / "labels.npy", GROUPS)
    for name, correction in KEYED.items():
        correction.save(folder / f"{name}.safetensors")
    KEYED["row"].save(folder / "bare.safetensors", bank=False)
    return folder


@pytest.mark.parametrize("name", ["row", "group"])
def test_apply_leaves_a_documents_own_queries_out(files, tmp_path, name):
    labels = ["--groups", files / "labels.npy"] if name == "group" else []
    modgap(
        "apply", files / f"{name}.safetensors", files / "image.npy", "--modality", "image",
        "-o", tmp_path / "out.npy", "--without-bank", tmp_path / "bare.safetensors", *labels,
    )  # fmt: skip
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), stored(KEYED[name], DATA[name], "image")
    )
    bare = Correction.load(tmp_path / "bare.safetensors")
    assert bare.hubs.bank is None
    asked = modgap(
        "apply", tmp_path / "bare.safetensors", files / "text.npy", "--modality", "text",
        "--role", "query", "-o", tmp_path / "queries.npy",
    )  # fmt: skip
    assert "80 rows of 9 columns" in asked.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "queries.npy")[:, -1], np.ones(N))


def test_documents_and_a_bank_that_was_removed_are_refused_in_one_sentence(files, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    image, bare = files / "image.npy", files / "bare.safetensors"
    for command in (
        ("apply", bare, image, "--modality", "image", "-o", tmp_path / "out.npy"),
        ("index", "build", tmp_path / "x.faiss", bare, f"image={image}"),
    ):
        said = modgap(*command, ok=False)
        assert said.returncode == 2
        assert "The bank of queries was removed" in said.stderr
        assert said.stderr.count("\n") == 1
    whole = files / "row.safetensors"
    said = modgap(
        "apply", whole, image, "--modality", "image", "-o", tmp_path / "out.npy", "--without-bank",
        whole, ok=False,
    )  # fmt: skip
    assert "is a file being read" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_index_built_with_labels_is_searched_by_the_file_without_the_bank(files, tmp_path):
    pytest.importorskip("faiss", reason="faiss is not installed")
    index, bare = tmp_path / "x.faiss", tmp_path / "bare.safetensors"
    documents = [f"{name}={files / name}.npy" for name in ("image", "text")]
    given = ",".join(f"{name}={files / 'labels.npy'}" for name in ("image", "text"))
    labels = ["--groups", given]
    common = (index, files / "group.safetensors", *documents, *labels)
    modgap("index", "build", *common, "--without-bank", bare)
    checked = json.loads(modgap("index", "evaluate", *common, "--json").stdout)
    assert checked["recall"] == {"text": 1.0}
    found = json.loads(
        modgap("index", "search", index, bare, files / "text.npy", "-k", "5", "--json").stdout
    )
    data, correction = DATA["group"], KEYED["group"]
    whole = np.vstack([stored(correction, data, name) for name in data.names])
    _, scores = search(correction.apply(Y, "text", "query"), whole, 5, "inner_product")
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-4, atol=1e-5)
    said = modgap("index", "evaluate", index, bare, *documents, ok=False)
    assert "The bank of queries was removed" in said.stderr
