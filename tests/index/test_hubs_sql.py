"""Hubs inside PostgreSQL: a column of a table that is there, and SQL alone."""

from __future__ import annotations

import numpy as np
import pytest

from hub_rows import DATA, KEYED, N, Y, ranked, stored, three
from index_services import (
    new_name,
    postgres_url,
    psql,
    rows,
)
from modgap import Modalities
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    ExpectedWrong,
    OwnQueriesWarning,
)
from modgap.index import add_column, open_index
from modgap.index.sql import pgvector_sql, undo_sql
from modgap.search import merge, search, search_corrected


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
@pytest.mark.parametrize("name", [*DATA, "foreign", "of three"])
def test_sql_stores_and_finds_what_the_correction_gives(name, mode):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    three_kinds = Modalities.of(three(), paired=False)
    data = three_kinds if name == "of three" else DATA.get(name, DATA["row"])
    bank = Y[::-1] * 1.01 if name == "foreign" else None
    correction = Calibrate(mode, hubs=0.5, neighbours=5).fit(data, bank=bank).correction_
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        table = make_table(connection, data)
        sql = pgvector_sql({"text": correction}, table=table, group_column="label")
        psql(sql)
        psql(sql)  # again changes nothing
        for side in data.names:
            np.testing.assert_allclose(
                held(connection, table, "embedding_corrected", data, side)[:, :9],
                stored(correction, data, side),
                atol=2e-5,
            )
        found = connection.execute(
            "SELECT * FROM search_by_text(%s::vector, 6)", (str(Y[4].tolist()),)
        ).fetchall()
        connection.execute(undo_sql({"text": correction}, table=table))
        connection.execute(f"DROP TABLE {table}")
    whole = np.vstack([stored(correction, data, side) for side in data.names])
    _, scores = search(correction.apply(Y[4:5], "text", "query"), whole, 6, "inner_product")
    np.testing.assert_allclose([score for *_, score in found], scores[0], rtol=1e-4)


def test_sql_of_a_large_bank_has_few_digits_and_says_what_is_shorter(monkeypatch):
    sql = pgvector_sql({"text": KEYED["row"]})
    (line,) = [one for one in sql.splitlines() if one.startswith("    ('bank', 0, 0, '[")]
    numbers = line.partition("[")[2].partition("]")[0].split(",")
    np.testing.assert_array_equal(
        np.array(numbers, dtype=np.float16), KEYED["row"].hubs.bank[0], strict=True
    )
    assert max(map(len, numbers)) <= 9
    assert "made by 80 queries, kept in modgap_items_embedding_corrected" in sql
    assert "own row number (taken to be id, from 0) are left out" in sql
    assert "own group stay in" in pgvector_sql({"text": KEYED["group"]})
    monkeypatch.setattr("modgap.index.sql._LARGE", 1000)
    assert pgvector_sql({"text": KEYED["row"]}).startswith("-- This file is 0 MB, most of it")
    with pytest.raises(InputValueError, match="bank of queries was removed"):
        pgvector_sql({"text": KEYED["row"].without_bank()})


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("hubs", [0.25, 0.0])
def test_sql_judges_hits_as_python_does(hubs, graph):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    many, texts = rows(580, 8, 3)
    data = Modalities.of(many[:400], texts[:400], paired=False)
    bank, asked = texts[400:550], texts[550:565]
    correction = ExpectedWrong(hubs).fit(data, queries="text", bank=bank).correction_
    documents = {name: stored(correction, data, name) for name in data.names}
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        table = make_table(connection, data)
        sql = pgvector_sql({"text": correction}, table=table)
        assert ("('bank', 0, " in sql) is (hubs > 0)
        for _ in range(2):
            psql(sql)
        connection.execute(f"SET enable_{'seqscan' if graph else 'indexscan'} = off")

        def found(query, k, at_most="NULL"):
            return connection.execute(
                f"SELECT * FROM search_by_text(%s::vector, {k}, {at_most})", (str(query.tolist()),)
            ).fetchall()

        nothing = 0
        for query in asked:
            every = found(query, 400)
            lists = {
                name: (np.array([[int(i) for i, *_ in held]]), np.array([[s for *_, s, _ in held]]))
                for name in data.names
                if (held := sorted((h for h in every if h[1] == name), key=lambda hit: -hit[2]))
            }
            exact = search_corrected(correction, query[None], documents, 12, modality="text")
            np.testing.assert_allclose([e for *_, e in every[:12]], exact.expected_wrong[0], 1e-3)
            for at_most in (None, 0.5):
                judged = merge(lists, 12, correction.background, at_most=at_most)
                kept = np.isfinite(judged.scores[0])
                few = found(query, 12, at_most or "NULL")
                assert [m for _, m, *_ in few] == judged.modalities[0][kept].tolist()
                assert [int(i) for i, *_ in few] == judged.ids[0][kept].tolist()
                expected = judged.expected_wrong[0][kept]
                np.testing.assert_allclose([e for *_, e in few], expected, rtol=1e-5)
                nothing += not few
        assert 0 < nothing < len(asked)
        given = (str(asked[0].tolist()),)
        first = "SELECT * FROM search_by_text(%s::vector)"
        assert len(connection.execute(first, given).fetchall()) == 10
        with pytest.raises(psycopg.errors.RaiseException, match="with a bank of 150 queries"):
            connection.execute("SELECT * FROM search_by_text(%s::vector, 9, 0.01)", given)
        # Another correction waits until this one is undone, and so does another table.
        plain = Calibrate().fit(data, queries="text").correction_
        other = make_table(connection, data)
        assert "Another correction made" in psql(
            pgvector_sql({"text": plain}, table=table), ok=False
        )
        refused = psql(pgvector_sql({"text": plain}, table=other), ok=False)
        assert "There is a function search_by_text already" in refused
        connection.execute(undo_sql({"text": correction}, table=table))
        psql(pgvector_sql({"text": plain}, table=other))
        assert len(connection.execute(first, given).fetchone()) == 3
        connection.execute(undo_sql({"text": plain}, table=other))
        connection.execute(f"DROP TABLE {table}, {other}")
