"""PostgreSQL: a table of our own, a new column of a table that is there, what goes wrong."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time

import numpy as np
import pytest

from index_services import (
    MODGAP,
    check_exact,
    corrections,
    make_table,
    modgap,
    new_name,
    rows,
)
from modgap.core.checks import InputError, InputValueError
from modgap.corrections import Calibrate, Center
from modgap.index import (
    PgvectorIndex,
    WrongOperatorsWarning,
    add_column,
    drop_column,
    open_index,
)

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
X, Y = rows()
CORRECTIONS = corrections(X, Y)
N = len(X)


@pytest.mark.parametrize("name", ["center", "calibrate", "hand-made"])
def test_a_new_column_is_searched_as_brute_force_does_and_dropped_once(url, connection, name):
    correction = CORRECTIONS[name]
    table = make_table(connection)
    assert add_column(url, table, correction, batch_rows=33) == 2 * N
    documents = {"image": (X, range(0, 2 * N, 2)), "text": (Y, range(1, 2 * N, 2))}
    options = {"table": table, "column": "embedding_corrected"}
    with PgvectorIndex(url, correction, **options).open() as index:
        asking = correction.queries[-1]
        queries = documents[asking][0][:6]
        check_exact(index.search(queries, asking, 8), correction, queries, asking, documents)
        with pytest.raises(InputValueError, match="is a table of yours: modgap neither adds"):
            index.drop()
    with (
        PgvectorIndex(url, correction, **options).open() as index,
        pytest.raises(InputValueError, match="is a table of yours"),
    ):
        index.write(X, "image")
    drop_column(url, table)
    with pytest.raises(InputValueError, match="There is no column that modgap made"):
        drop_column(url, table)
    with pytest.raises(InputValueError, match="no column 'embedding' that modgap made"):
        drop_column(url, table, "embedding")


def test_a_table_of_yours_is_never_dropped_whatever_its_columns_are_called(url, connection):
    table = make_table(connection)
    connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN embedding TO raw')
    correction = CORRECTIONS["center"]
    add_column(url, table, correction, column="raw", new_column="embedding")
    with pytest.raises(InputValueError, match="is a table of yours"):
        open_index(url, correction, create=True, replace=True, table=table)
    with open_index(url, correction, table=table) as index:
        assert index.search(X[0], "image", 1).ids[0, 0] == 0
    assert connection.execute(f'SELECT count(raw) FROM "{table}"').fetchone()[0] == 2 * N


@pytest.mark.parametrize(
    "key",
    [
        "a int, b int, PRIMARY KEY (a, b)",
        "id text PRIMARY KEY",
        '"a b" bigint PRIMARY KEY',
        "a int",
    ],
)
def test_any_primary_key_will_do_and_none(url, connection, key):
    if key.startswith('"'):
        table = new_name()
        connection.execute(f'CREATE TABLE "{table}" ({key}, modality text, embedding vector(8))')
        connection.execute(f"INSERT INTO \"{table}\" VALUES (1, 'image', %s)", (X[0],))
        expected = 1
    else:
        table, expected = make_table(connection, key), 2 * N
    assert add_column(url, table, CORRECTIONS["center"], batch_rows=50) == expected
    count = f'SELECT count(*) FROM "{table}" WHERE embedding_corrected IS NULL'
    assert connection.execute(count).fetchone()[0] == 0


def refused_column(connection, url, message, table, **more):
    """The sentence, and the table as it was."""
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"
    before = connection.execute(columns, (f'"{table}"',)).fetchall()
    with pytest.raises(InputValueError, match=message):
        add_column(url, table, **{"correction": CORRECTIONS["center"], **more})
    assert connection.execute(columns, (f'"{table}"',)).fetchall() == before


def test_a_table_that_cannot_be_corrected_is_refused_and_left_alone(url, connection):
    table = make_table(connection)
    refused_column(connection, url, "There is no table 'nowhere'", "nowhere")
    refused_column(
        connection, url, "A column of .* must be one of 'id', 'modality', .* got 'vec'", table,
        column="vec",
    )  # fmt: skip
    refused_column(connection, url, "must be of type vector, got int8", table, column="id")
    refused_column(connection, url, "A column of .* got 'kind'", table, modality_column="kind")
    refused_column(connection, url, "column 'modality' already", table, new_column="modality")
    wide = Center().fit(np.hstack([X, X]), np.hstack([Y, Y])).correction_
    refused_column(
        connection, url, "vectors of 8 columns, but the correction is for 16", table,
        correction=wide,
    )  # fmt: skip
    other = make_table(connection, names=("img", "txt"))
    refused_column(connection, url, r"holds 'img', 'txt', but .*--names", other)
    untyped = make_table(connection, dim="")
    refused_column(connection, url, "of 8 columns", untyped, correction=wide)
    add_column(url, table, CORRECTIONS["center"])
    refused_column(
        connection, url, "built with another correction", table,
        correction=CORRECTIONS["orthogonal"],
    )  # fmt: skip


def test_a_table_without_a_correction_says_what_to_run_and_is_left_alone(url, connection):
    table = make_table(connection)
    said = rf"yours, correct it: modgap index build .* --table {table} --from-column embedding "
    for create in (False, True):
        with pytest.raises(InputValueError, match=said) as refused:
            open_index(url, CORRECTIONS["center"], create=create, replace=create, table=table)
        assert "remove" not in str(refused.value)
    assert connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] == 2 * N


def test_a_database_without_the_extension_says_how_to_add_it(url, connection):
    name = new_name()
    connection.execute(f"CREATE DATABASE {name}")
    bare = url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(bare, autocommit=True) as other:
        other.execute("CREATE TABLE items (id int PRIMARY KEY, modality text, embedding real[])")
    with pytest.raises(InputValueError, match="must be of type vector, got _float4"):
        add_column(bare, "items", CORRECTIONS["center"])
    with pytest.raises(InputValueError, match=r"lacks the extension pgvector.*CREATE EXTENSION"):
        open_index(bare, CORRECTIONS["center"], table="items")
    with open_index(bare, CORRECTIONS["center"], create=True) as index:  # which adds it
        index.write(X, "image")
        index.drop()


def test_a_wrong_password_is_one_sentence_without_the_password(url, connection):
    connection.execute("DO $$ BEGIN CREATE ROLE stranger LOGIN PASSWORD 'right'; "
                       "EXCEPTION WHEN duplicate_object THEN NULL; END $$")  # fmt: skip
    path = connection.execute("SHOW hba_file").fetchone()[0]
    with open(path, encoding="utf-8") as file:
        rules = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write("local all stranger scram-sha-256\n" + rules)
    connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
    wrong = url.replace("postgres:@", "stranger:hunter2@")
    with pytest.raises(InputValueError, match=r"cannot be reached.*password") as error:
        open_index(wrong, CORRECTIONS["center"], create=True)
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)
    with (
        pytest.raises(InputValueError, match="cannot be used: permission denied"),
        open_index(
            wrong.replace("hunter2", "right"), CORRECTIONS["center"], create=True, table=new_name()
        ) as index,
    ):
        index.write(X, "image")


def test_an_ef_search_beyond_what_pgvector_takes_is_refused(url):
    with pytest.raises(InputError, match="ef_search must be between 1 and 1000"):
        open_index(url, CORRECTIONS["center"], create=True, ef_search=5000)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Files that take a while to store in small batches."""
    folder = tmp_path_factory.mktemp("many")
    images, texts = rows(1500, 8, seed=3)
    np.save(folder / "image.npy", images)
    np.save(folder / "text.npy", texts)
    Calibrate().fit(images, texts).correction_.save(folder / "c.safetensors")
    return folder


@contextlib.contextmanager
def killed_midway(connection, arguments, table, count, *, noticed=False):
    """Run a command until it has written some rows, hold it there for the block, kill -9 it.

    The block may end only when the server has noticed.
    """
    process = subprocess.Popen([*MODGAP, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    try:
        missing = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
        written = 0
        while written < 20:
            assert process.poll() is None, process.stderr.read()
            with contextlib.suppress(*missing):
                written = connection.execute(count).fetchone()[0]
        with connection.transaction():
            # Whoever wants to write now waits, however fast the machine is.
            connection.execute(f'LOCK TABLE "{table}" IN SHARE MODE')
            yield
            process.kill()
            process.wait()
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            while noticed and connection.execute(held).fetchone()[0]:
                time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def test_a_killed_build_is_run_again_and_finishes_while_a_second_one_is_refused(
    url, connection, many
):
    table = new_name()
    arguments = (
        "index", "build", url, many / "c.safetensors", f"image={many / 'image.npy'}",
        f"text={many / 'text.npy'}", "--table", table, "--batch", "3",
    )  # fmt: skip
    count = f'SELECT count(*) FROM "{table}"'
    with (
        killed_midway(connection, arguments, table, count),
        pytest.raises(InputValueError, match="Another process is writing to table"),
    ):
        open_index(url, many / "c.safetensors", create=True, table=table)
    done = connection.execute(count).fetchone()[0]
    assert 20 <= done < 3000
    assert done % 3 == 0
    again = (*arguments[:-1], "1000")
    search = ("index", "search", url, many / "c.safetensors", many / "text.npy", "--modality",
              "text", "--row", "0", "--table", table)  # fmt: skip
    assert "was not finished" in modgap(*search, ok=False).stderr
    assert "were there already" in modgap(*again).stderr
    keys = f'SELECT modality, id FROM "{table}" ORDER BY modality, id'
    expected = [(name, i) for name in ("image", "text") for i in range(1500)]
    assert connection.execute(keys).fetchall() == expected
    modgap("index", "evaluate", url, many / "c.safetensors", f"image={many / 'image.npy'}",
           f"text={many / 'text.npy'}", "--table", table)  # fmt: skip
    refused = modgap(*again, ok=False)
    assert "exists already" in refused.stderr


def test_a_killed_correction_of_a_column_is_run_again_and_finishes(url, connection, many):
    table = new_name()
    connection.execute(
        f'CREATE TABLE "{table}" (id bigint PRIMARY KEY, modality text, embedding vector(8))'
    )
    images = np.load(many / "image.npy")
    with connection.cursor().copy(f'COPY "{table}" FROM STDIN') as copy:
        for i, vector in enumerate(images):
            copy.write_row((i, "image", vector))
    arguments = ("index", "build", url, many / "c.safetensors", "--table", table,
                 "--from-column", "embedding", "--batch", "3")  # fmt: skip
    count = f'SELECT count(embedding_corrected) FROM "{table}"'
    with killed_midway(connection, arguments, table, count, noticed=True):
        pass
    done = connection.execute(count).fetchone()[0]
    assert 20 <= done < 1500
    said = modgap(*arguments[:-1], "500").stderr
    assert f"corrected {1500 - done:,} rows" in said
    assert connection.execute(count).fetchone()[0] == 1500
    search = ("index", "search", url, many / "c.safetensors", many / "text.npy", "--modality",
              "text", "--row", "7", "-k", "2", "--table", table, "--vector-column",
              "embedding_corrected", "--json")  # fmt: skip
    found = modgap(*search)
    assert '"modalities"' in found.stdout
    assert modgap(*search[:-3], "--json").stdout == found.stdout  # the column need not be named
    yours = ("--table", table, "--vector-column", "embedding_corrected")
    files = (many / "c.safetensors", f"image={many / 'image.npy'}")
    nobody = modgap("index", "evaluate", url, *files, *yours, ok=False)
    assert "serves text queries, and no document is one" in nobody.stderr
    files = (*files, "--queries", f"text={many / 'text.npy'}")
    checked = modgap("index", "evaluate", url, *files, *yours, "--json")
    assert json.loads(checked.stdout)["exact_found"] == {"text": 1.0}
    dropped = modgap("index", "drop-column", url, "--table", table)
    assert f"dropped the column embedding_corrected of {table}" in dropped.stderr
    again = modgap("index", "drop-column", url, "--table", table, ok=False)
    assert "There is no column that modgap made" in again.stderr


def test_a_graph_of_more_columns_than_pgvector_takes_is_refused_before_a_row_is_stored(url):
    wide = np.eye(1001)
    pair = wide, np.roll(wide, 1, axis=1) + wide
    correction = Calibrate(form="blocks").fit(*pair).correction_
    with pytest.raises(InputValueError, match=r"at most 2,000 columns, .* would be 2,003"):
        open_index(url, correction, create=True, ef_search=40, table=new_name())


def test_a_graph_by_the_wrong_operators_is_warned_of_once(url, connection):
    correction = CORRECTIONS["calibrate"]
    table = make_table(connection)
    add_column(url, table, correction)
    with pytest.raises(
        InputValueError, match=r"has no graph.*hnsw \(embedding_corrected vector_ip"
    ):
        open_index(url, correction, table=table, ef_search=100)
    connection.execute(
        f'CREATE INDEX ON "{table}" USING hnsw (embedding_corrected vector_cosine_ops)'
    )
    with pytest.warns(
        WrongOperatorsWarning, match=r"graph by vector_cosine_ops.*inner product"
    ) as said:
        open_index(url, correction, table=table).close()
    assert len(said) == 1
    connection.execute(f'DROP INDEX "{table}_embedding_corrected_idx"')
    documents = {"image": (X, range(0, 2 * N, 2)), "text": (Y, range(1, 2 * N, 2))}
    whole = f'CREATE INDEX graph_of_all ON "{table}" USING hnsw (embedding_corrected vector_ip_ops)'
    connection.execute(whole)
    with open_index(url, correction, table=table, ef_search=1000) as index:
        assert index.graphs == "one"
        check_exact(index.search(Y[:4], "text", 8), correction, Y[:4], "text", documents)
    connection.execute("DROP INDEX graph_of_all")
    for name in ("image", "text"):
        connection.execute(whole.replace(" graph_of_all", "") + f" WHERE modality = '{name}'")
    with open_index(url, correction, table=table, ef_search=1000) as index:
        assert index.graphs == "each"
        check_exact(index.search(Y[:4], "text", 8), correction, Y[:4], "text", documents)


def test_the_password_is_not_in_the_next_command(url, many):
    table = new_name()
    address = url.replace("postgres:@", "postgres:hunter2@")
    files = (many / "c.safetensors", f"image={many / 'image.npy'}")
    said = modgap("index", "build", address, *files, "--table", table).stderr
    assert "hunter2" not in said
    assert f"--modality text --table {table}" in said
