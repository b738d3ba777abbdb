"""A table of yours stays right: by a trigger, through kills, and undone without a trace."""

from __future__ import annotations

import contextlib
import threading
import uuid
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index_services import corrections, modgap, new_name, postgres_tool, postgres_url, psql, rows
from modgap.core.checks import InputValueError
from modgap.corrections import Calibrate, ExpectedWrong, OwnQueriesWarning, save_corrections
from modgap.index import UncorrectedRowsWarning, add_column, drop_column, open_index
from modgap.index.sql import pgvector_sql, undo_sql

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
X, Y = rows(120)
N, NAMES = len(X), ("image", "text")
CORRECTIONS = corrections(X, Y) | {
    "hubs": Calibrate(hubs=0.5, neighbours=5).fit(X, Y).correction_,
    "expected wrong": ExpectedWrong().fit(X, Y, queries="text").correction_,
}


# Emptying a database takes a fifth of what making one does.
EMPTIED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid != pg_backend_pid();
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
    CREATE SCHEMA public;
    CREATE EXTENSION vector;
END $$;
"""


@pytest.fixture(scope="module")
def database():
    """A database beside the one that other tests write to."""
    name = new_name()
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres_url().replace("/postgres?", f"/{name}?")


@pytest.fixture
def url(database):
    """An empty database: what is made in it is seen in its dump."""
    psql(f"SET client_min_messages = warning;\n{EMPTIED}", database)
    return database


@pytest.fixture
def connection(url):
    with connected(url) as connection:
        yield connection


def connected(url):
    from pgvector.psycopg import register_vector

    connection = psycopg.connect(url, autocommit=True)
    register_vector(connection)
    return connection


def make_items(connection, n=2 * N, table="items", key="id bigint PRIMARY KEY", dim="(8)"):
    connection.execute(f"CREATE TABLE {table} ({key}, modality text, embedding vector{dim})")
    load(connection, range(n), table)


def load(connection, keys, table="items"):
    """Images have even keys, texts odd ones; both are taken from X and Y again and again."""
    with connection.cursor().copy(f"COPY {table} (id, modality, embedding) FROM STDIN") as copy:
        for key in keys:
            copy.write_row((key, NAMES[key % 2], str(raw(key).tolist())))


def raw(key):
    return (X, Y)[key % 2][key // 2 % N]


def dump(url):
    """All of a database; rows have no order."""
    lines = postgres_tool("pg_dump", url).splitlines()
    return sorted(line for line in lines if "estrict" not in line)


def check_right(connection, correction, table="items", missing=0):
    """Every row has what the correction makes of it now, or, ``missing`` of them, nothing."""
    found = connection.execute(
        f"SELECT id, modality, embedding::real[], embedding_corrected::real[] FROM {table} "
        "WHERE embedding IS NOT NULL"
    ).fetchall()
    assert sum(row[3] is None for row in found) == missing
    keyed = correction.hubs is not None and correction.hubs.keys is not None
    for name in NAMES:
        of_name = [row for row in found if row[1] == name and row[3] is not None]
        if of_name:
            ids, _, given, made = zip(*of_name, strict=True)
            keys = np.array(ids) if keyed else None
            expected = correction.apply(np.array(given, np.float32), name, keys=keys)
            stored = np.array(made)[:, : correction.dim_out]
            np.testing.assert_allclose(stored, expected, rtol=1e-4, atol=2e-5)


@contextlib.contextmanager
def own_queries_by_number():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwnQueriesWarning)
        yield


def corrected(url, correction, **options):
    with own_queries_by_number():
        return add_column(url, "items", correction, **options)


# What people do to rows: the statement, and how often the test tries it.
WRITES = {
    "insert": "INSERT INTO items VALUES (%(new)s, %(name)s, %(v)s)",
    "vector": "UPDATE items SET embedding = %(v)s WHERE id = %(id)s",
    "modality": "UPDATE items SET modality = %(name)s WHERE id = %(id)s",
    "key": "UPDATE items SET id = %(new)s WHERE id = %(id)s",
    "garbage": "UPDATE items SET embedding_corrected = embedding_corrected + embedding_corrected "
    "WHERE id = %(id)s",
    "cleared": "UPDATE items SET embedding_corrected = NULL WHERE id = %(id)s",
    "none": "UPDATE items SET embedding = NULL WHERE id = %(id)s",
    "upsert": "INSERT INTO items VALUES (%(id)s, %(name)s, %(v)s) ON CONFLICT (id) DO UPDATE "
    "SET embedding = EXCLUDED.embedding, modality = EXCLUDED.modality",
    "swap": "UPDATE items AS t SET embedding = o.embedding, modality = o.modality FROM items AS o "
    "WHERE t.id = %(id)s AND o.id = %(id)s + 1",
    "delete": "DELETE FROM items WHERE id = %(id)s",
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_whatever_is_written_rows_are_right(url, connection, name):
    correction = CORRECTIONS[name]
    make_items(connection)
    assert corrected(url, correction, batch_rows=50) == 2 * N
    check_right(connection, correction)

    @settings(max_examples=8)
    @given(
        steps=st.lists(
            st.tuples(
                st.sampled_from(sorted(WRITES)), st.integers(0, 2 * N), st.integers(0, 10**6),
                st.booleans(),
            ),
            max_size=12,
        )
    )  # fmt: skip
    def writes(steps):
        for kind, key, seed, rolled_back in steps:
            values = {"id": key, "new": 1000 + seed, "name": NAMES[seed % 2], "v": raw(seed)}
            with (
                contextlib.suppress(psycopg.errors.UniqueViolation),
                connection.transaction(force_rollback=rolled_back),
            ):
                connection.execute(WRITES[kind], {**values, "v": 3 * values["v"]})
        check_right(connection, correction)

    writes()


UNFIT = {
    "of another modality": ("audio", "[1,2,3,4,5,6,7,8]"),
    "without a modality": (None, "[1,2,3,4,5,6,7,8]"),
    "of length zero": ("image", "[0,0,0,0,0,0,0,0]"),
    "of other columns": ("text", "[1,2,3]"),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_row_that_cannot_be_corrected_is_stored_and_said(url, connection, unfit):
    correction = CORRECTIONS["hubs"]
    make_items(connection, dim="")
    corrected(url, correction)
    connection.execute("INSERT INTO items VALUES (5000, %s, %s)", UNFIT[unfit])
    connection.execute("UPDATE items SET modality = %s, embedding = %s WHERE id = 3", UNFIT[unfit])
    check_right(connection, correction, missing=2)
    with pytest.warns(UncorrectedRowsWarning, match="2 rows are not corrected, so a search does"):
        opened = open_index(url, correction, table="items")
    with opened as index:
        assert not {3, 5000} & {*index.search(Y[:3], "text", 2 * N).ids.ravel()}
    with pytest.warns(UncorrectedRowsWarning, match=r"2 rows .* could not be corrected"):
        assert corrected(url, correction) == 0
    connection.execute("UPDATE items SET modality = 'text', embedding = %s WHERE id = 3", (Y[9],))
    check_right(connection, correction, missing=1)


def test_rows_that_the_trigger_missed_are_said_and_made_anew(url, connection):
    correction = CORRECTIONS["hubs"]
    make_items(connection)
    corrected(url, correction)
    stale = "UPDATE items SET embedding = %s, modality = 'text' WHERE id = 4"
    connection.execute("SET session_replication_role = replica")  # as loaders and replicas do
    connection.execute(stale, (Y[7],))
    connection.execute("SET session_replication_role = DEFAULT")
    check_right(connection, correction)
    for off, on in (
        ("DISABLE TRIGGER USER", "ENABLE TRIGGER USER"),  # which leaves ALWAYS out
        ("DISABLE TRIGGER ALL", "DISABLE TRIGGER ALL"),
    ):
        connection.execute(f"ALTER TABLE items {off}")
        connection.execute(stale, (Y[int(off.endswith("ALL"))],))
        connection.execute(f"ALTER TABLE items {on}")
        with pytest.warns(UncorrectedRowsWarning, match="switched off, so rows may be stale. Run:"):
            open_index(url, correction, table="items").close()
        assert corrected(url, correction) == 2 * N
        check_right(connection, correction)
    connection.execute("DROP TRIGGER zz_modgap_embedding_corrected ON items")
    connection.execute(stale, (Y[5],))
    with pytest.warns(UncorrectedRowsWarning, match="The trigger is missing or switched off"):
        open_index(url, correction, table="items").close()
    assert corrected(url, correction) == 2 * N
    check_right(connection, correction)
    assert corrected(url, correction) == 0
    assert corrected(url, correction, rebuild=True) == 2 * N
    connection.execute("DELETE FROM items")
    assert corrected(url, correction, rebuild=True) == 0


def test_nobody_is_locked_out_and_a_rebuild_resumes_where_it_was_killed(url, connection):
    correction = CORRECTIONS["calibrate"]
    make_items(connection, 2000)
    corrected(url, correction)
    connection.execute("ALTER TABLE items DISABLE TRIGGER ALL")
    connection.execute("UPDATE items SET embedding = embedding + embedding WHERE modality = 'text'")
    ctid = connection.execute("SELECT ctid FROM items ORDER BY ctid LIMIT 1 OFFSET 1000").fetchone()
    ended = []

    def run():
        try:
            ended.append(corrected(url, correction, batch_rows=100))
        except InputValueError as error:
            ended.append(str(error))

    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> %s"
    with connected(url) as other, other.transaction():
        (held,) = other.execute("SELECT id FROM items WHERE ctid = %s FOR UPDATE", ctid).fetchone()
        worker = threading.Thread(target=run)
        worker.start()
        pids = []
        while not pids and worker.is_alive():
            pids = connection.execute(waits, (other.info.backend_pid,)).fetchall()
        # It waits for one row, and holds none of those before and after it.
        connection.execute("SET lock_timeout = '2s'")
        connection.execute("UPDATE items SET modality = modality WHERE id <> %s AND id %% 50 = 0",
                           (held,))  # fmt: skip
        with pytest.warns(UncorrectedRowsWarning, match="being made anew, and that is not done"):
            open_index(url, correction, table="items").close()
        connection.execute("SELECT pg_terminate_backend(%s)", pids[0])
        worker.join()
    assert isinstance(ended.pop(), str)
    left = corrected(url, correction)
    assert 0 < left < 2000
    check_right(connection, correction)


@pytest.mark.parametrize("way", ["sql", "command", "python"])
@pytest.mark.parametrize("table", ["items", 'shop."The Items"'])
def test_undo_leaves_no_trace(url, connection, tmp_path, way, table):
    connection.execute("CREATE SCHEMA shop")
    make_items(connection, table=table, key="id bigint PRIMARY KEY, label text")
    connection.execute(
        f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        f"CREATE TRIGGER theirs BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION f();"
        f"CREATE INDEX theirs ON {table} USING hnsw (embedding vector_cosine_ops);"
        f"COMMENT ON COLUMN {table}.embedding IS 'theirs'; GRANT SELECT ON {table} TO PUBLIC;"
        "CREATE FUNCTION search_by_image(vector, int) RETURNS int LANGUAGE sql AS 'SELECT 1';"
    )
    before = dump(url)
    named = table.replace('"', "")
    for name in ("hubs", "hand-made", "expected wrong"):
        correction = {"text": CORRECTIONS[name]}
        if name == "hand-made":
            correction = {"text": Calibrate("mixed").fit(X, Y).correction_}
        with own_queries_by_number():
            if way == "sql":
                psql(pgvector_sql(correction, table=named), url)
            else:
                add_column(url, named, correction, graphs=way == "python")
        assert dump(url) != before
        if way == "sql":
            psql(undo_sql(correction, table=named), url)
            assert "no column embedding_corrected that modgap made" in psql(
                undo_sql(correction, table=named), url, ok=False
            )
        elif way == "command":
            modgap("index", "drop-column", url, "--table", named)
        else:
            drop_column(url, named)
        assert dump(url) == before


def test_sql_and_commands_speak_of_one_column(url, connection, tmp_path):
    correction = CORRECTIONS["expected wrong"]
    correction.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "text.npy", Y)
    make_items(connection)
    before = dump(url)
    psql(pgvector_sql({"text": correction}), url)
    build = ("index", "build", url, tmp_path / "c.safetensors", "--table", "items")
    with own_queries_by_number():
        said = modgap(*build, "--from-column", "embedding", "--ef-search", "64").stderr
    assert "corrected 0 rows" in said
    (search,) = [line for line in said.splitlines() if "modgap index search" in line]
    assert "--ef-search 64" in search
    query = str(Y[2].tolist())
    by_sql = connection.execute("SELECT * FROM search_by_text(%s::vector, 5)", (query,)).fetchall()
    with open_index(url, correction, table="items", ef_search=64) as index:
        hits = index.search(Y[2], "text", 5)
    assert [(int(i), name) for i, name, *_ in by_sql] == [
        *zip(hits.ids[0].tolist(), hits.modalities[0].tolist(), strict=True)
    ]
    np.testing.assert_allclose([e for *_, e in by_sql], hits.expected_wrong[0], rtol=1e-3)
    # The table may be called otherwise meanwhile.
    connection.execute("ALTER TABLE items RENAME TO things")
    load(connection, range(1000, 1010), "things")
    check_right(connection, correction, "things")
    connection.execute("DELETE FROM things WHERE id >= 1000")
    assert (
        "dropped the column embedding_corrected of things"
        in modgap("index", "drop-column", url, "--table", "things").stderr
    )
    connection.execute("ALTER TABLE things RENAME TO items")
    assert dump(url) == before


def test_sql_refuses_what_is_not_its_own_and_leaves_it(url, connection):
    make_items(connection)
    correction = {"text": CORRECTIONS["calibrate"]}
    sql = pgvector_sql(correction)
    for own, undone, said in (
        ("ALTER TABLE items RENAME id TO nr", "ALTER TABLE items RENAME nr TO id",
         "items has no column id. Change the names in this file"),
        ("ALTER TABLE items ADD embedding_corrected vector(9)",
         "ALTER TABLE items DROP embedding_corrected",
         "items has a column embedding_corrected already, which modgap did not make"),
        ("CREATE FUNCTION search_by_text(vector, int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
         "DROP FUNCTION search_by_text", "There is a function search_by_text already"),
    ):  # fmt: skip
        connection.execute(own)
        before = dump(url)
        assert said in psql(sql, url, ok=False)
        assert dump(url) == before
        if "ADD" in own:
            assert "no column embedding_corrected that modgap made" in psql(
                undo_sql(correction), url, ok=False
            )
            with pytest.raises(InputValueError, match="'embedding_corrected' already, which"):
                corrected(url, correction["text"])
            assert dump(url) == before
        connection.execute(undone)
    corrected(url, correction["text"])  # without graphs
    assert "or the same without graphs. Undo it first" in psql(sql, url, ok=False)
    with pytest.raises(InputValueError, match="was made without graphs"):
        corrected(url, correction["text"], graphs=True)
    check_right(connection, correction["text"])


@pytest.mark.parametrize("schema", ["public", "shop"])
def test_whoever_may_write_rows_may_go_on_wherever_their_search_path_leads(url, connection, schema):
    path = "SET search_path = public, shop, lib;"
    connection.execute("DROP EXTENSION vector; CREATE SCHEMA lib; CREATE SCHEMA shop;"
                       f"CREATE EXTENSION vector SCHEMA lib; {path}")  # fmt: skip
    make_items(connection, table=f"{schema}.items")
    before = dump(url)
    correction = CORRECTIONS["hubs"]
    psql(path + pgvector_sql({"text": correction}), url)
    role = new_name()
    connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};"
                       f"GRANT INSERT, UPDATE, SELECT ON items TO {role}")  # fmt: skip
    connection.execute(f"SET ROLE {role}; SET search_path = ''")
    vector = str(Y[3].tolist())
    connection.execute(f"INSERT INTO {schema}.items VALUES (700, 'text', %s)", (vector,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM public.modgap_items_embedding_corrected")
    connection.execute(f"RESET ROLE; {path}")
    check_right(connection, correction)
    connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}; DELETE FROM items WHERE id = 700")
    psql(path + undo_sql({"text": correction}), url)
    assert dump(url) == before


def test_a_restored_database_goes_on(url, connection):
    make_items(connection)
    correction = CORRECTIONS["hubs"]
    psql(pgvector_sql({"text": correction}), url)
    name = new_name()
    connection.execute(f"CREATE DATABASE {name}")
    copy = postgres_url().replace("/postgres?", f"/{name}?")
    psql(postgres_tool("pg_dump", url), copy)
    with connected(copy) as other:
        load(other, range(2 * N, 2 * N + 20))
        check_right(other, correction)
    drop_column(copy, "items")
    connection.execute(f"DROP DATABASE {name}")


def test_a_write_never_fails_because_the_numbers_are_gone(url, connection):
    correction = CORRECTIONS["hubs"]
    make_items(connection)
    corrected(url, correction)
    connection.execute("DROP TABLE modgap_items_embedding_corrected")
    load(connection, range(1000, 1003))
    check_right(connection, correction, missing=3)
    assert corrected(url, correction) == 3
    check_right(connection, correction)


def test_a_graph_that_was_not_finished_is_made_again(url, connection):
    correction = CORRECTIONS["calibrate"]
    make_items(connection)
    psql(pgvector_sql({"text": correction}), url)
    broken = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'items_{}'::regclass"
    connection.execute("CREATE INDEX items_theirs ON items (modality)")
    connection.execute(broken.format("false", "embedding_corrected_text_hnsw"))
    connection.execute(broken.format("false", "theirs"))
    corrected(url, correction, graphs=True)
    invalid = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
    assert connection.execute(invalid).fetchall() == [("items_theirs",)]


def test_a_column_that_is_not_complete_is_searched_and_says_what_is_missing(url, connection):
    correction = CORRECTIONS["calibrate"]
    make_items(connection)
    psql(pgvector_sql({"text": correction}), url)
    connection.execute("ALTER TABLE items DISABLE TRIGGER ALL")
    connection.execute("UPDATE items SET embedding_corrected = NULL WHERE id < 30")
    connection.execute("ALTER TABLE items ENABLE ALWAYS TRIGGER zz_modgap_embedding_corrected")
    with pytest.warns(UncorrectedRowsWarning, match=r": 30 rows are not corrected.*Run: modgap in"):
        opened = open_index(url, correction, table="items")
    with opened as index:
        assert index.search(Y[0], "text", 2 * N).ids.shape == (1, 2 * N - 30)
    said = []
    connection.add_notice_handler(lambda one: said.append(one.message_primary))
    select = "SELECT * FROM search_by_text(%s::vector, 10)"
    for n in (1, 0):
        assert len(connection.execute(select, (str(Y[0].tolist()),)).fetchall()) == 10
        assert len(said) == n
        assert all("Some rows of items are not corrected" in one for one in said)
        said.clear()
        psql(pgvector_sql({"text": correction}), url)
    check_right(connection, correction)


KEYS = {
    "text": "id text PRIMARY KEY",
    "uuid": "id uuid PRIMARY KEY",
    "bigint": "id bigint PRIMARY KEY",
    "with the modality": "id text, PRIMARY KEY (modality, id)",
    "by another column": "tenant int DEFAULT 1, id text, PRIMARY KEY (tenant, id, modality)",
}


@pytest.mark.parametrize("kind", KEYS)
def test_hubs_go_by_the_key_of_the_table_whatever_it_is(url, connection, kind):
    from modgap import Embeddings, Modalities

    make = {"uuid": lambda i: str(uuid.UUID(int=i**9)), "bigint": lambda i: str(i)}
    ids = [make.get(kind, lambda i: f"Größe {i}")(i) for i in range(N)]
    sides = [Embeddings.from_array(one, ids=ids) for one in (X, Y)]
    data = Modalities.of(*sides)
    correction = Calibrate(hubs=0.5, neighbours=5).fit(data).correction_
    assert correction.hubs.keyed_by == "id"
    connection.execute(f"CREATE TABLE items (modality text, embedding vector(8), {KEYS[kind]})")
    names = NAMES if "PRIMARY KEY (" in KEYS[kind] else NAMES[:1]
    for name in names:
        for one, vector in zip(ids, data.sides[name].rows(), strict=True):
            connection.execute("INSERT INTO items (modality, embedding, id) VALUES (%s, %s, %s)",
                               (name, vector, one))  # fmt: skip
    if kind == "by another column":
        with pytest.raises(
            InputValueError, match=r"by the row's id, .* is tenant and id. Name the"
        ):
            add_column(url, "items", correction)
        add_column(url, "items", correction, group_column="id")
    else:
        add_column(url, "items", correction)
    connection.execute("UPDATE items SET embedding = embedding + embedding")
    for name in names:
        rows_of = dict(connection.execute(
            "SELECT id::text, embedding_corrected::real[] FROM items WHERE modality = %s", (name,)
        ).fetchall())  # fmt: skip
        expected = correction.apply(data.sides[name].rows(), name, keys=data.keys_of(name))
        np.testing.assert_allclose([rows_of[one] for one in ids], expected, atol=2e-5)


def test_row_numbers_are_not_read_from_a_key_that_has_none(url, connection):
    connection.execute(
        "CREATE TABLE items (id uuid PRIMARY KEY, modality text, embedding vector(8))"
    )
    for vector in X:
        connection.execute("INSERT INTO items VALUES (%s, 'image', %s)", (uuid.uuid4(), vector))
    with pytest.warns(OwnQueriesWarning, match="nothing says the number that the row had"):
        add_column(url, "items", CORRECTIONS["hubs"])
    found = connection.execute("SELECT embedding_corrected::real[] FROM items").fetchall()
    expected = CORRECTIONS["hubs"].apply(X, "image", keys=np.full(N, -1))
    order = [np.lexsort(np.round(one, 3).T) for one in (np.array(found)[:, 0], expected)]
    np.testing.assert_allclose(np.array(found)[order[0], 0], expected[order[1]], atol=2e-5)


def test_partitions_are_corrected_through_their_table(url, connection):
    correction = CORRECTIONS["calibrate"]
    connection.execute("CREATE TABLE items (id bigint, modality text, embedding vector(8), "
                       "PRIMARY KEY (id, modality)) PARTITION BY LIST (modality)")  # fmt: skip
    for name in NAMES:
        connection.execute(f"CREATE TABLE {name}s PARTITION OF items FOR VALUES IN ('{name}')")
    load(connection, range(2 * N))
    with pytest.raises(InputValueError, match="is partitioned, and PostgreSQL makes no graph"):
        corrected(url, correction, graphs=True)
    before = dump(url)
    assert corrected(url, correction, batch_rows=7) == 2 * N
    load(connection, range(2 * N, 3 * N))
    check_right(connection, correction)
    connection.execute("DELETE FROM items WHERE id >= %s", (2 * N,))
    drop_column(url, "items")
    assert dump(url) == before


def test_a_table_that_somebody_holds_is_left_alone(url, connection, monkeypatch):
    monkeypatch.setattr("modgap.index.pgvector_column.LOCK_TIMEOUT", "SET lock_timeout = '0.1s';")
    make_items(connection)
    before = dump(url)
    with connection.transaction():
        connection.execute("LOCK TABLE items IN ACCESS SHARE MODE")
        with pytest.raises(InputValueError, match=r"Somebody has held .* run the same again"):
            corrected(url, CORRECTIONS["calibrate"])
    assert dump(url) == before


def test_with_several_columns_undo_must_name_one(url, connection, tmp_path):
    make_items(connection)
    before = dump(url)
    two = {name: Calibrate().fit(X, Y, queries=name).correction_ for name in NAMES}
    psql(pgvector_sql(two), url)
    assert add_column(url, "items", two, graphs=True) == 0
    save_corrections(two, tmp_path / "correction.safetensors")
    with pytest.raises(InputValueError, match=r"'embedding_image' and 'embedding_text'.*Say which"):
        drop_column(url, "items")
    for name in NAMES:
        assert drop_column(url, "items", f"embedding_{name}") == f"embedding_{name}"
    assert dump(url) == before
