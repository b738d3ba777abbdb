"""Names with odd characters: tables, columns and modalities work whole, or are refused by us."""

from __future__ import annotations

import runpy
import sys

import numpy as np
import pytest

from index_services import (
    IN_MEMORY,
    LIBRARIES,
    check_exact,
    make_store,
    modgap,
    new_name,
    psql,
    rows,
)
from modgap.core.checks import InputValueError
from modgap.corrections import Calibrate, Correction
from modgap.diagnosis import fix
from modgap.diagnosis.fix_texts import readme, search_script
from modgap.index import add_column, drop_column, open_index
from modgap.index.postgres_names import quoted_name, quoted_table
from modgap.index.sql import pgvector_sql, search_function, undo_sql

X, Y = rows(24, 4)
N = len(X)
# Every one of them is a name that PostgreSQL takes between quotation marks.
ODD = [
    "50% of %s, %(x)s and {y}",
    'say "it\'s" $$ or a back\\slash',
    "Größe 图像\n-- x",
    "user",  # a word of SQL that is a value, too
    "ü" * 31,
]
IDS = ["percent", "quotes", "lines", "reserved", "long"]
TOO_ODD = [
    ("", "must not be empty"),
    ("zero\0byte", "no zero byte"),
    ("x" * 64, "keeps 63 bytes of a name, and that of .* has 64"),
    ("ü" * 32, "has 64"),
    ("lone \udcff", "text of Unicode"),
]


def named(names=("image", "text")) -> Correction:
    return Calibrate().fit(X, Y, names=names, queries=names[1]).correction_


def make_table(connection, table, key, modality, column, names):
    """A table of both modalities whose names are as odd as they come."""
    quoted = {"table": quoted_table(table), "key": quoted_name(key)}
    quoted |= {"modality": quoted_name(modality), "column": quoted_name(column)}
    connection.execute(
        "CREATE TABLE {table} ({key} bigint PRIMARY KEY, {modality} text, "
        "{column} vector(4))".format(**quoted)
    )
    for place, (name, vector) in enumerate([(names[0], x) for x in X] + [(names[1], y) for y in Y]):
        insert = "INSERT INTO {table} VALUES (".format(**quoted).replace("%", "%%")
        connection.execute(f"{insert}%s, %s, %s)", (place, name, vector))


@pytest.mark.parametrize("odd", ODD, ids=IDS)
def test_a_table_of_ours_with_odd_names_is_built_searched_and_dropped(url, connection, odd):
    names = (f"{odd} 0", f"{odd} 1")
    correction = named(names)
    connection.execute(f"CREATE SCHEMA {quoted_name(odd)}")
    options = {"table": f"{odd}.{odd}", "column": f"{odd}v"[-30:], "ef_search": 400}
    options |= {"modality_column": f"{odd}m"[-31:], "id_column": odd}
    with open_index(url, correction, create=True, **options) as index:
        index.write(X, names[0])
        index.write(Y, names[1])
    documents = {names[0]: (X, range(N)), names[1]: (Y, range(N))}
    with open_index(url, correction, **options) as index:
        assert index.count(names[0]) == N
        assert index.graphs == "each"
        check_exact(index.search(Y[:3], names[1], 6), correction, Y[:3], names[1], documents)
        assert {*index.search(Y[:3], names[1], 5, names[0]).modalities.ravel()} == {names[0]}
    with open_index(url, correction, create=True, replace=True, **options) as index:
        index.write(X[:5], names[0])
        assert index.count() == 5
        index.drop()
    connection.execute(f"DROP SCHEMA {quoted_name(odd)}")  # nothing is left in it


@pytest.mark.parametrize("odd", [*ODD, "modgap_batch"], ids=[*IDS, "modgap_batch"])
def test_a_column_with_odd_names_is_corrected_in_python_and_in_sql(url, connection, odd):
    names = (f"{odd} 0", f"{odd} 1")
    correction = named(names)
    modality, column, new = (f"{odd}{end}"[-31:] for end in "mvn")
    make_table(connection, odd, odd, modality, column, names)
    options = {"column": column, "modality_column": modality}
    assert add_column(url, odd, correction, **options, new_column=new, batch_rows=20) == 2 * N
    where = {"table": odd, "column": new, "modality_column": modality, "id_column": odd}
    documents = {names[0]: (X, range(N)), names[1]: (Y, range(N, 2 * N))}
    with open_index(url, correction, **where) as index:
        check_exact(index.search(Y[:3], names[1], 6), correction, Y[:3], names[1], documents)
    with pytest.raises(InputValueError, match="has no graph") as refused:
        open_index(url, correction, **where, ef_search=400)
    create = str(refused.value).partition("modality (")[2].partition("; and so on")[0]
    connection.execute(create)  # as the sentence says
    with open_index(url, correction, **where, ef_search=400) as index:
        assert index.graphs == "each"
    drop_column(url, odd, new)

    asking = names[1]
    sql = pgvector_sql({asking: correction}, table=odd, id_column=odd, **options)
    psql(sql)
    psql(sql)  # again changes nothing
    function = search_function(asking).replace("%", "%%")
    found = connection.execute(
        f"SELECT * FROM {function}(%s::vector, 6)", (str(Y[0].tolist()),)
    ).fetchall()
    best = correction.apply(np.vstack([X]), names[0]) @ correction.apply(Y[:1], asking, "query").T
    own = correction.apply(Y, asking) @ correction.apply(Y[:1], asking, "query").T
    expected = np.sort(np.concatenate([best, own]).ravel())[::-1][:6]
    np.testing.assert_allclose([score for *_, score in found], expected, rtol=1e-4, atol=1e-5)
    connection.execute(undo_sql({asking: correction}, table=odd, column=column))
    connection.execute(f"DROP TABLE {quoted_name(odd)}")


@pytest.mark.parametrize(("odd", "message"), TOO_ODD, ids=["empty", "zero", "64", "bytes", "lone"])
def test_a_name_that_postgresql_would_not_keep_is_refused_and_nothing_is_made(
    url, connection, odd, message
):
    correction = named()
    counted = "SELECT count(*) FROM pg_class"
    before = connection.execute(counted).fetchone()
    table = new_name()
    for option in ("table", "column", "modality_column", "id_column"):
        with (
            pytest.raises(InputValueError, match=message),
            open_index(url, correction, create=True, **{"table": table, option: odd}) as index,
        ):
            index.write(X, "image")
    for option in ("table", "column", "modality_column", "new_column", "group_column"):
        with pytest.raises(InputValueError):
            add_column(**{"url": url, "table": table, "correction": correction, option: odd})
    for option in ("table", "column", "modality_column", "id_column", "group_column"):
        with pytest.raises(InputValueError, match=message):
            pgvector_sql({"text": correction}, **{option: odd})
    with pytest.raises(InputValueError, match=message):
        drop_column(url, odd)
    assert connection.execute(counted).fetchone() == before


def test_a_name_with_two_dots_is_refused(url):
    for refused in (
        lambda: open_index(url, named(), create=True, table="a.b.c"),
        lambda: drop_column(url, "a.b.c"),
        lambda: pgvector_sql({"text": named()}, table="a.b.c"),
    ):
        with pytest.raises(InputValueError, match=r"TABLE or SCHEMA\.TABLE"):
            refused()


def test_modalities_whose_columns_would_be_cut_are_refused_or_shortened(url, connection):
    long = ("i" * 60, "t" * 60)
    two = {name: Calibrate().fit(X, Y, names=long, queries=name).correction_ for name in long}
    with pytest.raises(InputValueError, match="keeps 63 bytes"):
        open_index(url, two, create=True, table=new_name())
    table = new_name()
    make_table(connection, table, "id", "modality", "embedding", long)
    psql(pgvector_sql(two, table=table))
    assert add_column(url, table, two) == 0  # the same columns, shortened alike
    graphs = "SELECT count(*) FROM pg_indexes WHERE tablename = %s AND indexdef LIKE %s"
    assert connection.execute(graphs, (table, "%hnsw%")).fetchone()[0] == 4
    for name in long:
        found = connection.execute(
            f"SELECT * FROM {search_function(name)}(%s::vector, 3)", (str(Y[0].tolist()),)
        )
        assert len(found.fetchall()) == 3
    connection.execute(f"DROP TABLE {table}")


def test_every_word_that_postgresql_reserves_is_quoted(connection):
    words = connection.execute(
        "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')"
    ).fetchall()
    assert [word for (word,) in words if not quoted_name(word).startswith('"')] == []


@pytest.mark.parametrize(
    ("keys", "modality"), [("modality, own_key", "modality"), ("distance", "modality")]
)
def test_names_that_our_statements_use_themselves_are_taken(url, connection, keys, modality):
    table, kinds = new_name(), {"modality": "text"}
    columns = ", ".join(f"{key} {kinds.get(key, 'bigint')}" for key in keys.split(", "))
    other = "" if "modality" in keys else "modality text, "
    connection.execute(
        f"CREATE TABLE {table} ({columns}, {other}embedding vector(4), PRIMARY KEY ({keys}))"
    )
    identifier = keys.split(", ")[-1]
    for place, x in enumerate(X):
        connection.execute(
            f"INSERT INTO {table} (modality, {identifier}, embedding) VALUES ('image', %s, %s)",
            (place, x),
        )
    assert add_column(url, table, named(), batch_rows=7) == N
    with open_index(url, named(), table=table, id_column=identifier) as index:
        hits = index.search(X[:1], "text", 3)
    assert hits.scores[0].tolist() == sorted(hits.scores[0], reverse=True)


def test_odd_names_come_through_the_command_line(url, connection, tmp_path):
    correction = named()
    correction.save(tmp_path / "c.safetensors")
    np.save(tmp_path / "text.npy", Y)
    make_table(connection, "100% Käufe", "nr %", "Art?", "Vektor's", ("image", "text"))
    common = ("--table", "100% Käufe", "--modality-column", "Art?")
    said = modgap("index", "build", url, tmp_path / "c.safetensors", *common, "--from-column",
                  "Vektor's", "--new-column", "neu %s").stderr  # fmt: skip
    assert "--table '100% Käufe' --modality-column 'Art?'" in said
    found = modgap("index", "search", url, tmp_path / "c.safetensors", tmp_path / "text.npy", "-k",
                   "3", *common, "--vector-column", "neu %s", "--id-column", "nr %")  # fmt: skip
    assert len(found.stdout.splitlines()) == 1 + 3 * N
    modgap("index", "drop-column", url, "--table", "100% Käufe", "--new-column", "neu %s")
    refused = modgap("index", "drop-column", url, "--table", "x" * 64, ok=False)
    assert refused.stderr.count("\n") == 1
    connection.execute('DROP TABLE "100% Käufe"')


ODD_MODALITIES = ('a"""; raise SystemExit(3)\\', "b%s {x} | `y`\n# z")


def test_names_of_modalities_are_data_in_the_script_that_fix_writes(tmp_path, monkeypatch, capsys):
    corrections = {
        name: Calibrate().fit(X, Y, names=ODD_MODALITIES, queries=name).correction_
        for name in ODD_MODALITIES
    }
    (tmp_path / "search.py").write_text(search_script(corrections), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["search.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(tmp_path / "search.py"), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: search.py" in capsys.readouterr().out
    table = readme(corrections, ODD_MODALITIES).partition("| file |")[2].partition("\n\n")[0]
    assert all(line.endswith("|") for line in table.splitlines())


def test_modalities_that_would_share_a_file_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(InputValueError, match="would give two files one name"):
        fix(X, Y, tmp_path / "out", ("a b", "a/b"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("names", [("图像", "文本"), ("it's", 'say "x"')])
@pytest.mark.parametrize("kind", sorted({*LIBRARIES} - {"pgvector"}))
def test_modalities_with_odd_names_are_kept_apart_in_every_store(kind, names, tmp_path):
    store = make_store(kind, tmp_path)
    correction = named(names)
    options = {"lance": {"ef_search": 200}, "faiss": {"factory": "HNSW8,Flat"}}.get(kind, {})
    with store.open(correction, create=True, **options) as index:
        index.write(X, names[0])
        index.write(Y, names[1])
    searched = {"ef_search": 200} if options else {}
    with store.open(correction, **searched) as index:
        assert (index.count(names[0]), index.count(names[1])) == (N, N)
        documents = {names[0]: (X, range(N)), names[1]: (Y, range(N))}
        check_exact(index.search(Y[:3], names[1], 6), correction, Y[:3], names[1], documents)


@pytest.mark.parametrize("odd", ["zero\0byte", "lone \udcff"])
@IN_MEMORY
def test_text_that_a_database_cannot_keep_is_refused_before_anything_is_made(store, odd):
    message = "must be text of Unicode without zero bytes"
    with pytest.raises(InputValueError, match=message):
        store.open(named((odd, "text")), create=True)
    with pytest.raises(InputValueError, match=message):
        pgvector_sql({"text": named((odd, "text"))})
    with store.open(named(), create=True) as index:
        with pytest.raises(InputValueError, match=message):
            index.write(X, "image", ids=[odd, *map(str, range(1, N))])
        assert index.count() == 0
        index.write(X, "image")  # nothing was made that would be in the way


@pytest.mark.parametrize("table", ["", "../outside", "..", "zero\0", "x" * 256])
@pytest.mark.parametrize("kind", ["qdrant", "milvus", "chroma"])
def test_a_collection_whose_name_is_no_name_is_refused(kind, table, tmp_path):
    store = make_store(kind, tmp_path)
    with pytest.raises(InputValueError, match=r"A collection of .* has a name of"):
        store.open(named(), create=True, table=table)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("table", ["summarize", "100% Käufe", 'say "x"; DROP TABLE other', "a.b"])
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_of_a_file_may_have_any_name(kind, table, tmp_path):
    store = make_store(kind, tmp_path)
    for one in ("other", table):
        with store.open(named(), create=True, table=one) as index:
            index.write(X, "image")
    with store.open(named(), table=table.encode().upper().decode()) as index:  # the same to both
        index.write(Y, "text")
    with store.open(named(), table=table) as index:
        assert index.count() == 2 * N
        index.drop()
    with store.open(named(), table="other") as index:
        assert index.count() == N


@pytest.mark.parametrize(
    ("kind", "table"),
    [("duckdb", "")]  # a name as any other to SQLite
    + [(kind, table) for kind in ("duckdb", "sqlite") for table in ("zero\0byte", "lone \udcff")],
)
def test_a_table_of_a_file_without_a_name_is_refused_in_a_sentence(kind, table, tmp_path):
    store = make_store(kind, tmp_path)
    with (
        pytest.raises(InputValueError, match=r"^[^\n]+ (cannot be used: |must be text)[^\n]+$"),
        store.open(named(), create=True, table=table) as index,
    ):
        index.write(X, "image")


@pytest.mark.parametrize("name", ["größe 50%", "it's"])
@pytest.mark.parametrize("ending", ["faiss", "lance"])
def test_paths_with_odd_names_work_or_are_refused_in_a_sentence(name, ending, tmp_path):
    make_store(ending, tmp_path)
    path = tmp_path / name / f"{name}.{ending}"
    path.parent.mkdir()
    if ending == "lance":
        with pytest.raises(InputValueError, match=r"cannot be used: .*name"):
            build(path)
        assert not list(path.parent.iterdir())
    else:
        build(path)
        with open_index(path, named()) as index:
            assert index.count() == N


def build(path):
    with open_index(path, named(), create=True) as index:
        index.write(X, "image")


@pytest.mark.parametrize("address", ["vectors.npy", "x\0.faiss", "https://host/x.faiss", "milvus:"])
def test_an_address_that_is_no_path_is_refused(address):
    with pytest.raises(InputValueError, match="An index is a file that ends"):
        open_index(address, named(), create=True)
