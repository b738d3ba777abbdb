"""A large table that is loaded, corrected, searched and killed all at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from index_services import MODGAP, new_server, postgres_tool, rows
from modgap.core.checks import InputValueError
from modgap.corrections import Correction, ExpectedWrong
from modgap.index import UncorrectedRowsWarning, drop_column, open_index

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.long

FIRST, LATER, COLUMNS = 30_000, 100_000, 8
NAMES = ("image", "text")
N_CORRECTED = "SELECT count(embedding_corrected) FROM items"
PENDING = "SELECT count(*) FROM items WHERE embedding IS NOT NULL AND embedding_corrected IS NULL"


class Site:
    """A server of its own, with a table, a correction, and users who search all the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.server = folder, new_server()
        self.sides = dict(zip(NAMES, rows(2000, COLUMNS), strict=True))
        given = {"bank": self.sides["text"][:150]}
        fitted = ExpectedWrong().fit(*self.sides.values(), queries="text", **given)
        self.correction: Correction = fitted.correction_
        self.correction.save(folder / "c.safetensors")
        self.searches = self.warned = 0

    @property
    def url(self) -> str:
        return self.server.get_uri()

    def run(self, statement: str) -> list:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def count(self, statement: str) -> int:
        try:
            return self.run(statement)[0][0]
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            return 0

    def raw(self, key: int) -> np.ndarray:
        # No two rows are alike, and each is known by its key.
        return self.sides[NAMES[key % 2]][key // 2 % 2000] * np.float32(1 + key / 1e4)

    def load(self, keys: range) -> None:
        with (
            psycopg.connect(self.url, autocommit=True) as connection,
            connection.cursor().copy("COPY items (id, modality, embedding) FROM STDIN") as copy,
        ):
            for key in keys:
                copy.write_row((key, NAMES[key % 2], str(self.raw(key).tolist())))

    def build(self) -> subprocess.Popen:
        command = ("index", "build", self.url, self.folder / "c.safetensors", "--table", "items",
                   "--from-column", "embedding", "--ef-search", "64")  # fmt: skip
        return subprocess.Popen([*MODGAP, *map(str, command)], stderr=subprocess.PIPE, text=True)

    def search(self, *, ef_search: int | None = None) -> None:
        """What is found is right, and what cannot be found yet is said."""
        query = self.sides["text"][self.searches % 2000]
        self.searches += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            index = open_index(self.url, self.correction, table="items", ef_search=ef_search)
        with index:
            hits = index.search(query, "text", 10)
            missing = self.count(PENDING)
        said = [one for one in caught if issubclass(one.category, UncorrectedRowsWarning)]
        self.warned += bool(said)
        assert said or not missing
        asked = self.correction.apply(query[None], "text", "query")[0]
        for key, name, score in zip(hits.ids[0].tolist(), hits.modalities[0], hits.scores[0],
                                    strict=True):  # fmt: skip
            assert name == NAMES[key % 2]
            document = self.correction.apply(self.raw(key)[None], name)[0]
            np.testing.assert_allclose(score, asked @ document, rtol=1e-4, atol=1e-4)

    def kill_server(self) -> None:
        """kill -9 of the server and all its processes; then it is started again."""
        import pgserver
        import psutil

        process = psutil.Process(self.server.get_pid())
        every = [process, *process.children(recursive=True)]
        for one in every:
            os.kill(one.pid, signal.SIGKILL)
        assert not psutil.wait_procs(every, timeout=60)[1]
        assert isinstance(self.server, pgserver.PostgresServer)
        self.server.ensure_postgres_running()


def wait_until(site: Site, statement: str, least: int, process: subprocess.Popen) -> None:
    while site.count(statement) < least:
        assert process.poll() is None, process.stderr.read()
        if site.count(N_CORRECTED):
            site.search()


def test_a_large_table_stays_right_through_loads_and_kills(tmp_path):
    site = Site(tmp_path)
    site.run("CREATE EXTENSION vector")
    site.run("CREATE TABLE items (id int PRIMARY KEY, modality text, "
             f"embedding vector({COLUMNS}))")  # fmt: skip
    site.load(range(FIRST))
    with pytest.raises(InputValueError, match="correct it: modgap index build"):
        site.search()
    before = dump(site.url)

    for least in (1, FIRST // 2):  # the client is killed, then the server
        process = site.build()
        wait_until(site, N_CORRECTED, least, process)
        if least == 1:
            process.kill()
        else:
            site.kill_server()
        process.communicate(timeout=60)
        site.search()
        assert site.warned
        assert least <= site.count(N_CORRECTED) < FIRST
    process, loading = site.build(), threading.Thread(target=site.load, args=[
        range(FIRST, FIRST + LATER)])  # fmt: skip
    loading.start()
    wait_until(site, "SELECT count(*) FROM pg_stat_progress_create_index", 1, process)
    while loading.is_alive():
        site.search()
        time.sleep(0.05)
    loading.join()
    assert site.count(PENDING) == 0
    assert site.count("SELECT count(*) FROM items") == FIRST + LATER
    if process.poll() is None:  # a graph is being made
        site.kill_server()
    process.communicate(timeout=60)
    site.search()
    process = site.build()
    while process.poll() is None:
        site.search()
    assert process.returncode == 0, process.stderr.read()
    process.communicate()
    assert site.run("SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid") == []
    graphs = "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%USING hnsw%'"
    assert site.count(graphs) == 2
    site.warned = 0
    site.search(ef_search=64)
    assert site.warned == 0
    check_all(site)
    site.run(f"DELETE FROM items WHERE id >= {FIRST}")
    drop_column(site.url, "items")
    assert dump(site.url) == before


def check_all(site):
    found = site.run("SELECT id, embedding_corrected::real[] FROM items ORDER BY id")
    keys = np.array([key for key, _ in found])
    made = np.array([vector for _, vector in found])
    for place, name in enumerate(NAMES):
        raw = np.array([site.raw(key) for key in keys[keys % 2 == place].tolist()])
        expected = site.correction.apply(raw, name)
        stored = made[keys % 2 == place][:, : expected.shape[1]]
        np.testing.assert_allclose(stored, expected, rtol=1e-4, atol=2e-5)


def dump(url):
    return sorted(line for line in postgres_tool("pg_dump", url).splitlines() if line)
