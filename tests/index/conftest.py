"""What the tests of indexes share: a store of every kind."""

from __future__ import annotations

import pytest

from index_services import STORES, make_store, postgres_url


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    """Where an index is kept: each database, or those that a test names."""
    return make_store(request.param, tmp_path)


@pytest.fixture(scope="session")
def url():
    """The PostgreSQL server of this test process."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    return postgres_url()


@pytest.fixture
def connection(url):
    import psycopg
    from pgvector.psycopg import register_vector

    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        yield connection
